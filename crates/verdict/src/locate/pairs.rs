//! Bad members and bad links, from runs of two members.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Located, Suspect, SuspectLink};

/// Result of a run of two members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairResult {
    /// First member.
    pub a: String,
    /// Second member.
    pub b: String,
    /// Bus bandwidth on the plateau, GB/s.
    pub busbw: f64,
    /// Whether the run completed with correct results. Otherwise it counts as degraded.
    pub ok: bool,
}

/// Kind of members, which determines the field of a suspect's name.
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

/// Options for the evaluation of pair results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairOptions {
    /// Whether a member of a pair is a node, a GPU or a rank.
    pub members: Members,
    /// Bandwidth of a good pair, GB/s; default: learned from the best pairs. Without it, pairs that are all
    /// equally bad appear good.
    pub expected_busbw: Option<f64>,
    /// A pair below the expected bandwidth by this fraction is degraded.
    pub tolerance: f64,
    /// Fraction of outcomes that may be wrong.
    pub noise: f64,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self { members: Members::default(), expected_busbw: None, tolerance: 0.1, noise: 0.05 }
    }
}

impl PairOptions {
    /// Minimum bandwidth of a good pair, GB/s.
    pub(super) fn limit(&self, results: &[PairResult]) -> f64 {
        self.expected_busbw.unwrap_or_else(|| plateau(results)) * (1.0 - self.tolerance)
    }
}

/// The first five names, and the number of the rest.
pub(super) fn few(names: &[impl AsRef<str>]) -> String {
    let first: Vec<_> = names.iter().take(5).map(AsRef::as_ref).collect();
    let more = names.len() - first.len();
    first.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Whether the pair reached the limit. NaN and impossible values count as degraded.
pub(super) fn is_good(result: &PairResult, limit: f64) -> bool {
    result.ok && result.busbw.is_finite() && result.busbw > 0.0 && result.busbw >= limit
}

/// Prior probability that a member is bad.
const BAD_MEMBER: f64 = 0.02;
/// Prior probability that a link is bad.
const BAD_LINK: f64 = 0.015;
/// Minimum confidence of a suspect.
const SURE: f64 = 0.8;

/// Finds the bad members, possibly several, from any subset of the pairs.
///
/// A pair with a bad member is degraded, but individual outcomes may be wrong. The result is the most likely set of
/// bad members; a member is named only if no other explanation is nearly as likely. A repeatedly degraded
/// pair whose members work with others is a bad link.
#[must_use]
pub fn from_pairs(results: &[PairResult], options: &PairOptions) -> Located {
    let Some(evidence) = PairEvidence::of(results, options) else {
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
    // Noise may have caused these results, so the pairs are reported as undecided; one more run of each pair decides.
    if !open.is_empty() {
        located.undecided = Some(format!(
            "degraded for an undecided reason (a member, the link or chance): {}; run these pairs again, and each member with others",
            few(&open)
        ));
    }
    located.healthy = located.suspects.is_empty() && located.links.is_empty() && located.undecided.is_none();
    located
}

impl Members {
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

/// Numbers of good and degraded outcomes of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct PairTally {
    good: u32,
    bad: u32,
}

#[derive(Debug)]
struct PairEvidence<'a> {
    names: Vec<&'a str>,
    pairs: BTreeMap<(usize, usize), PairTally>,
    partners: Vec<Vec<usize>>,
    noise: f64,
}

impl<'a> PairEvidence<'a> {
    fn of(results: &'a [PairResult], options: &PairOptions) -> Option<Self> {
        let usable = || results.iter().filter(|result| result.a != result.b);
        let names: BTreeSet<&str> =
            usable().flat_map(|result| [result.a.as_str(), result.b.as_str()]).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let index = |name: &str| names.binary_search(&name).ok();
        let limit = options.limit(results);
        let mut pairs: BTreeMap<(usize, usize), PairTally> = BTreeMap::new();
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

    /// Log-likelihood ratio of this pair's outcomes if one of its members is bad.
    fn weight(&self, a: usize, b: usize) -> f64 {
        let pair = self.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or_default();
        let (good, bad) = (f64::from(pair.good), f64::from(pair.bad));
        let fault = (1.0 - self.noise).ln() * bad + self.noise.ln() * good;
        // If both members are good, a bad outcome is noise or a bad link.
        let chance = self.noise.ln() * bad + (1.0 - self.noise).ln() * good;
        fault - sum((1.0 - BAD_LINK).ln() + chance, BAD_LINK.ln() + fault)
    }

    /// Gain in log-likelihood if `member` is bad in addition to `bad`.
    fn gain(&self, bad: &BTreeSet<usize>, member: usize) -> f64 {
        let open = self.partners[member].iter().filter(|partner| !bad.contains(partner));
        (BAD_MEMBER / (1.0 - BAD_MEMBER)).ln()
            + open.map(|partner| self.weight(member, *partner)).sum::<f64>()
    }

    /// The set with the highest likelihood, found by greedy single changes.
    fn most_likely(&self) -> BTreeSet<usize> {
        let mut bad = BTreeSet::new();
        let mut gains: Vec<f64> = (0..self.names.len()).map(|member| self.gain(&bad, member)).collect();
        // Every step increases the likelihood, so no set recurs; the bound covers rounding errors.
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

    /// Confidence against the alternatives: the member is good, or one of its partners is bad instead.
    fn confidence(&self, bad: &BTreeSet<usize>, member: usize) -> f64 {
        let mut without = bad.clone();
        without.remove(&member);
        let with = self.gain(&without, member);
        let instead = self.partners[member].iter().filter(|partner| !bad.contains(partner));
        let others: f64 = instead.map(|partner| (self.gain(&without, *partner) - with).exp()).sum();
        1.0 / (1.0 + (-with).exp() + others)
    }

    /// Confidence that the link is bad, rather than noise or one of its ends.
    fn link(&self, a: usize, b: usize, bad: &BTreeSet<usize>) -> f64 {
        let pair = self.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or_default();
        let without: BTreeSet<usize> =
            bad.iter().copied().filter(|member| *member != a && *member != b).collect();
        let net = f64::from(pair.bad) - f64::from(pair.good);
        let link = (BAD_LINK / (1.0 - BAD_LINK)).ln() + net * ((1.0 - self.noise) / self.noise).ln();
        // The gains are relative to "noise or link"; `part` is the share of the link alone.
        let part = link - sum(0.0, link);
        let ends: f64 = [a, b].iter().map(|end| (self.gain(&without, *end) - part).exp()).sum();
        1.0 / (1.0 + (-link).exp() + ends)
    }
}

/// Logarithm of a sum of two exponentials.
fn sum(a: f64, b: f64) -> f64 {
    a.max(b) + (-(a - b).abs()).exp().ln_1p()
}

/// The highest bandwidth; of seven or more pairs the second highest, and of thirteen or more the third: then a single implausible value has
/// no effect. The value is selected by its rank among the results and not by agreement, because good pairs can differ more than degraded
/// pairs.
pub(crate) fn plateau(results: &[PairResult]) -> f64 {
    let usable = results.iter().filter(|result| result.ok && result.busbw.is_finite() && result.busbw > 0.0);
    let mut values: Vec<f64> = usable.map(|result| result.busbw).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let reached_by = values.len().div_ceil(6).min(3);
    values.get(reached_by.saturating_sub(1)).copied().unwrap_or(0.0)
}
