//! Bad members and bad links, from runs of two members each.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Located, Suspect, SuspectLink};

/// One run of two members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairResult {
    /// One member.
    pub a: String,
    /// The other.
    pub b: String,
    /// Bus bandwidth on the plateau, GB/s.
    pub busbw: f64,
    /// The run came to its end with right results. One that did not counts as degraded.
    pub ok: bool,
}

/// What the members of a pair are, and with that where a suspect's name is put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Members {
    /// Nodes, by host name.
    #[default]
    Hosts,
    /// GPUs, by PCI bus id.
    BusIds,
    /// Ranks, by number.
    Ranks,
}

/// How pair results are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairOptions {
    /// What the members are.
    pub members: Members,
    /// What a good pair reaches, GB/s; learned from the best pairs when not given. Without it, pairs that are all
    /// equally bad look good.
    pub expected_busbw: Option<f64>,
    /// A pair below the expected value by this part is degraded.
    pub tolerance: f64,
    /// Part of the outcomes that may be wrong.
    pub noise: f64,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self { members: Members::default(), expected_busbw: None, tolerance: 0.1, noise: 0.05 }
    }
}

impl PairOptions {
    /// What a good pair reaches at least, GB/s.
    pub(super) fn limit(&self, results: &[PairResult]) -> f64 {
        self.expected_busbw.unwrap_or_else(|| plateau(results)) * (1.0 - self.tolerance)
    }
}

/// The first five of them, and how many more there are.
pub(super) fn few(names: &[impl AsRef<str>]) -> String {
    let first: Vec<_> = names.iter().take(5).map(AsRef::as_ref).collect();
    let more = names.len() - first.len();
    first.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Not a number is not good; nor is what cannot be.
pub(super) fn is_good(result: &PairResult, limit: f64) -> bool {
    result.ok && result.busbw.is_finite() && result.busbw > 0.0 && result.busbw >= limit
}

/// One member in so many is bad before anything was measured.
const BAD_MEMBER: f64 = 0.02;
/// The same of a link.
const BAD_LINK: f64 = 0.015;
/// A name needs this confidence.
const SURE: f64 = 0.8;

/// Names the bad members, several at once, from any subset of the pairs.
///
/// A pair with a bad member is degraded, and some outcomes are wrong. The explanation chosen is the most likely set of
/// bad members; a name is given only where no other explanation comes near. A pair seen degraded more than once
/// whose members are good with others is a bad link.
#[must_use]
pub fn from_pairs(results: &[PairResult], options: &PairOptions) -> Located {
    let Some(evidence) = Evidence::of(results, options) else {
        return Located::open("no pair of two different members was measured");
    };
    let bad = evidence.most_likely();
    let mut doubtful = BTreeSet::new();
    let mut suspects = Vec::new();
    for &member in &bad {
        let confidence = evidence.confidence(&bad, member);
        if confidence >= SURE {
            suspects.push(options.members.suspect(evidence.names[member], confidence));
        } else {
            doubtful.insert(member);
        }
    }
    let mut located = Located::named(suspects);
    let mut open = Vec::new();
    for (&(a, b), pair) in &evidence.pairs {
        let named = |member: usize| bad.contains(&member) && !doubtful.contains(&member);
        if pair.bad <= pair.good || named(a) || named(b) {
            continue;
        }
        let confidence = evidence.link(a, b, &bad);
        let (a, b) = (evidence.names[a], evidence.names[b]);
        if confidence >= SURE {
            located.links.push(SuspectLink { a: a.to_owned(), b: b.to_owned(), confidence });
        } else {
            open.push(format!("{a} with {b}"));
        }
    }
    located.links.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    // Chance may have made some of these. To call them that would be a guess, and one more run of each tells.
    if !open.is_empty() {
        located.undecided = Some(format!(
            "degraded, and not decided whether by a member, the link or chance: {}; run these again, and each with others",
            few(&open)
        ));
    }
    located.healthy = located.suspects.is_empty() && located.links.is_empty() && located.undecided.is_none();
    located
}

impl Members {
    /// The suspect of this name.
    pub(super) fn suspect(self, name: &str, confidence: f64) -> Suspect {
        let mut suspect = Suspect { confidence, ..Suspect::default() };
        match (self, name.parse()) {
            (Self::Ranks, Ok(rank)) => suspect.rank = Some(rank),
            (Self::BusIds, _) => suspect.bus_id = Some(name.to_owned()),
            _ => suspect.host = Some(name.to_owned()),
        }
        suspect
    }
}

/// How often a pair was good and bad.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    good: u32,
    bad: u32,
}

#[derive(Debug)]
struct Evidence<'a> {
    names: Vec<&'a str>,
    pairs: BTreeMap<(usize, usize), Pair>,
    partners: Vec<Vec<usize>>,
    noise: f64,
}

impl<'a> Evidence<'a> {
    fn of(results: &'a [PairResult], options: &PairOptions) -> Option<Self> {
        let usable = || results.iter().filter(|result| result.a != result.b);
        let names: BTreeSet<&str> =
            usable().flat_map(|result| [result.a.as_str(), result.b.as_str()]).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let index = |name: &str| names.binary_search(&name).ok();
        let limit = options.limit(results);
        let mut pairs: BTreeMap<(usize, usize), Pair> = BTreeMap::new();
        for result in usable() {
            let (a, b) = (index(&result.a)?, index(&result.b)?);
            let pair = pairs.entry((a.min(b), a.max(b))).or_default();
            if is_good(result, limit) {
                pair.good += 1;
            } else {
                pair.bad += 1;
            }
        }
        let mut partners = vec![Vec::new(); names.len()];
        for &(a, b) in pairs.keys() {
            partners[a].push(b);
            partners[b].push(a);
        }
        let noise = if options.noise.is_finite() { options.noise.clamp(1e-3, 0.45) } else { 0.05 };
        (!pairs.is_empty()).then_some(Self { names, pairs, partners, noise })
    }

    /// How much likelier, in logarithms, the outcomes of this pair are if one of its members is bad.
    fn weight(&self, a: usize, b: usize) -> f64 {
        let pair = self.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or_default();
        let (good, bad) = (f64::from(pair.good), f64::from(pair.bad));
        let fault = (1.0 - self.noise).ln() * bad + self.noise.ln() * good;
        // Between two good members: chance, or the link.
        let chance = self.noise.ln() * bad + (1.0 - self.noise).ln() * good;
        fault - sum((1.0 - BAD_LINK).ln() + chance, BAD_LINK.ln() + fault)
    }

    /// What holding `member` bad, beside these, gains in log-likelihood.
    fn gain(&self, bad: &BTreeSet<usize>, member: usize) -> f64 {
        let open = self.partners[member].iter().filter(|partner| !bad.contains(partner));
        (BAD_MEMBER / (1.0 - BAD_MEMBER)).ln()
            + open.map(|partner| self.weight(member, *partner)).sum::<f64>()
    }

    /// The set that explains most, one change at a time: the greatest gain is taken first.
    fn most_likely(&self) -> BTreeSet<usize> {
        let mut bad = BTreeSet::new();
        let mut gains: Vec<f64> = (0..self.names.len()).map(|member| self.gain(&bad, member)).collect();
        // Each step gains, so none comes back; the bound is for gains that rounding keeps alive.
        for _ in 0..2 * self.names.len() {
            let of = |member: usize| if bad.contains(&member) { -gains[member] } else { gains[member] };
            let best = (0..gains.len()).max_by(|a, b| of(*a).total_cmp(&of(*b)));
            let Some(best) = best.filter(|best| of(*best) > 1e-9) else { break };
            if !bad.remove(&best) {
                bad.insert(best);
            }
            for &partner in &self.partners[best] {
                gains[partner] = self.gain(&bad, partner);
            }
        }
        bad
    }

    /// Against the other explanations: that it is good after all, or that a partner is bad in its place.
    fn confidence(&self, bad: &BTreeSet<usize>, member: usize) -> f64 {
        let mut without = bad.clone();
        without.remove(&member);
        let with = self.gain(&without, member);
        let instead = self.partners[member].iter().filter(|partner| !bad.contains(partner));
        let others: f64 = instead.map(|partner| (self.gain(&without, *partner) - with).exp()).sum();
        1.0 / (1.0 + (-with).exp() + others)
    }

    /// How sure it is that the link is bad, and neither chance nor one of its ends.
    fn link(&self, a: usize, b: usize, bad: &BTreeSet<usize>) -> f64 {
        let pair = self.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or_default();
        let without: BTreeSet<usize> =
            bad.iter().copied().filter(|member| *member != a && *member != b).collect();
        let net = f64::from(pair.bad) - f64::from(pair.good);
        let link = (BAD_LINK / (1.0 - BAD_LINK)).ln() + net * ((1.0 - self.noise) / self.noise).ln();
        // The gains compare with "chance or link"; for the link alone its part of that is taken.
        let part = link - sum(0.0, link);
        let ends: f64 = [a, b].iter().map(|end| (self.gain(&without, *end) - part).exp()).sum();
        1.0 / (1.0 + (-link).exp() + ends)
    }
}

/// The logarithm of a sum of two exponentials.
fn sum(a: f64, b: f64) -> f64 {
    a.max(b) + (-(a - b).abs()).exp().ln_1p()
}

/// The best that several pairs agree on: one absurd value does not set the mark.
pub(super) fn plateau(results: &[PairResult]) -> f64 {
    let usable = results.iter().filter(|result| result.ok && result.busbw.is_finite() && result.busbw > 0.0);
    let mut values: Vec<f64> = usable.map(|result| result.busbw).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let company = values.len().div_ceil(6).min(3);
    let agreed = values.iter().zip(values.iter().skip(company.saturating_sub(1)));
    let mark = agreed.filter(|(best, last)| **last >= 0.95 * **best).map(|(best, _)| *best).next();
    mark.or(values.first().copied()).unwrap_or(0.0)
}
