//! Plans the next tests with adaptive group testing, to minimize their number.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Members;

/// Tests to run next. The groups are disjoint: they can run concurrently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestPlan {
    /// One test each: a collective over these members. Empty: no further test is useful.
    pub groups: Vec<Vec<String>>,
}

/// Result of a group test: a collective over a subset of the members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupOutcome {
    /// Participating members.
    pub members: Vec<String>,
    /// Whether the outcome is slower than expected: the group contains a bad member, or the outcome is wrong.
    pub degraded: bool,
}

/// Measured result of one pair: input to the next round of the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairOutcome {
    /// First member.
    pub a: String,
    /// Second member.
    pub b: String,
    /// Whether the pair is slower than expected.
    pub degraded: bool,
}

/// Limits and required confidence of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// Whether a member of a pair is a node, a GPU or a rank.
    pub members: Members,
    /// Fraction of outcomes that may be wrong.
    pub noise: f64,
    /// Maximum error probability at the end of the search: for each bad member, and for the other members together.
    pub max_error: f64,
    /// Expected number of bad members. A wrong value costs additional tests.
    pub expected: f64,
    /// Maximum number of tests; default: [`tests_for`].
    pub max_tests: Option<usize>,
    /// Minimum probability at which a member is named. Below it a member is only suspected.
    pub min_confidence: f64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            members: Members::default(),
            noise: 0.05,
            max_error: 0.002,
            expected: 1.0,
            max_tests: None,
            min_confidence: 0.98,
        }
    }
}

/// Default maximum number of tests: for 232 members 22 with one expected bad member, and 55 with five.
///
/// The default is four thirds of a test per bit needed to identify the bad members, plus twelve tests to determine their number and to
/// tolerate wrong outcomes. It is higher if more than 5 % of the outcomes are wrong, because a test is then less informative.
#[must_use]
pub fn tests_for(members: usize, suspected: f64, noise: f64) -> usize {
    let most = (members / 2).max(1);
    let suspected = if suspected.is_nan() { 1 } else { (suspected.ceil() as usize).clamp(1, most) };
    let bits: f64 =
        (0..suspected).map(|at| ((members - at.min(members)).max(1) as f64 / (at + 1) as f64).log2()).sum();
    let usual = PlanOptions::default().noise;
    let dearer =
        (information_of_a_test(usual) / information_of_a_test(noise.clamp(usual, MOST_NOISE))).max(1.0);
    ((12.0 + bits * 4.0 / 3.0) * dearer) as usize
}

/// Maximum fraction of wrong outcomes at which a test is informative.
pub(super) const MOST_NOISE: f64 = 0.45;

/// Maximum information from one test, bits.
pub(super) fn information_of_a_test(noise: f64) -> f64 {
    let part = |chance: f64| if chance > 0.0 { -chance * chance.log2() } else { 0.0 };
    1.0 - part(noise) - part(1.0 - noise)
}

/// The confirming round: pairs each of `suspects` with a partner known to be good. All pairs are disjoint.
///
/// Partners are those of `members` that are not suspects; members with more good pairs are preferred. A suspect with
/// two bad or two good pairs with such partners needs no further pair; a suspect without a remaining partner waits for
/// the next round.
#[must_use]
pub fn plan_pairs(
    members: &[String],
    suspects: &[String],
    outcomes: &[PairOutcome],
) -> Vec<(String, String)> {
    let suspects: BTreeSet<&str> = suspects.iter().map(String::as_str).collect();
    let mut good: BTreeMap<&str, u32> = BTreeMap::new();
    // For each suspect: bad outcomes, good outcomes, partners.
    let mut seen: BTreeMap<&str, (u32, u32, BTreeSet<&str>)> = BTreeMap::new();
    for outcome in outcomes {
        for (one, other) in
            [(outcome.a.as_str(), outcome.b.as_str()), (outcome.b.as_str(), outcome.a.as_str())]
        {
            *good.entry(one).or_default() += u32::from(!outcome.degraded);
            if suspects.contains(one) && !suspects.contains(other) {
                let (bad, fine, with) = seen.entry(one).or_default();
                *(if outcome.degraded { bad } else { fine }) += 1;
                with.insert(other);
            }
        }
    }
    let mut partners: Vec<&str> =
        distinct(members).into_iter().filter(|name| !suspects.contains(name)).collect();
    partners.sort_by_key(|name| std::cmp::Reverse(good.get(name).copied().unwrap_or(0)));
    let mut pairs = Vec::new();
    for suspect in suspects {
        let (bad, fine, with) = seen.get(suspect).cloned().unwrap_or_default();
        if bad.abs_diff(fine) >= 2 {
            continue;
        }
        // Prefer a new partner: a second test of the same link cannot distinguish a bad link from a bad member.
        let fresh = partners.iter().position(|name| !with.contains(name));
        if let Some(at) = fresh.or((!partners.is_empty()).then_some(0)) {
            pairs.push((suspect.to_owned(), partners.remove(at).to_owned()));
        }
    }
    pairs
}

pub(super) fn distinct(members: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    members.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect()
}
