//! Which tests to run next, so that few are needed: adaptive group testing.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::search::Search;
use super::{Located, Members};

/// What to run next. The groups have no member in common: they can run at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestPlan {
    /// One test each: a collective over these members. None: nothing more is to be learnt.
    pub groups: Vec<Vec<String>>,
}

/// One test that was run: a collective over some members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupOutcome {
    /// Who took part.
    pub members: Vec<String>,
    /// Slower than it should be, which it is when one of them is bad.
    pub degraded: bool,
}

/// One pair test that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairOutcome {
    /// One member.
    pub a: String,
    /// The other.
    pub b: String,
    /// Slower than it should be.
    pub degraded: bool,
}

/// How outcomes are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// What the members are.
    pub members: Members,
    /// Part of the outcomes that may be wrong.
    pub noise: f64,
    /// The search ends when no more doubt remains than this for each bad member, and once more for the rest being good.
    pub doubt: f64,
    /// How many bad members are suspected before anything is known. A wrong guess costs a few tests, no more.
    pub expected: f64,
    /// No more tests are asked for than this; [`tests_for`] says how many where it is not given.
    pub most: Option<usize>,
    /// Who is bad with this chance at least is named. With less, one is suspected and never named.
    pub sure: f64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { members: Members::default(), noise: 0.05, doubt: 0.002, expected: 1.0, most: None, sure: 0.98 }
    }
}

/// How many tests a search may take unless told otherwise: for 232 members 22 when one bad one is suspected, and 55 for
/// five.
///
/// Four thirds of a test for each bit that says which of the members they are, and twelve to find out how many they are
/// and to bear wrong outcomes; more where more than one outcome in twenty is wrong, as a test tells less then.
#[must_use]
pub fn tests_for(members: usize, suspected: f64, noise: f64) -> usize {
    let most = (members / 2).max(1);
    let suspected = if suspected.is_nan() { 1 } else { (suspected.ceil() as usize).clamp(1, most) };
    let bits: f64 =
        (0..suspected).map(|at| ((members - at.min(members)).max(1) as f64 / (at + 1) as f64).log2()).sum();
    let usual = PlanOptions::default().noise;
    let dearer = (told_by_a_test(usual) / told_by_a_test(noise.clamp(usual, MOST_NOISE))).max(1.0);
    ((12.0 + bits * 4.0 / 3.0) * dearer) as usize
}

/// More noise than this is no test.
pub(super) const MOST_NOISE: f64 = 0.45;

/// What one test tells at best, in bits.
pub(super) fn told_by_a_test(noise: f64) -> f64 {
    let part = |chance: f64| if chance > 0.0 { -chance * chance.log2() } else { 0.0 };
    1.0 - part(noise) - part(1.0 - noise)
}

/// The next group test: the one that tells most. Empty when the bad members are known, and known to be all, or when as
/// many tests were run as [`PlanOptions::most`] allows.
///
/// Deterministic: the same outcomes give the same plan.
#[must_use]
pub fn plan_groups(members: &[String], outcomes: &[GroupOutcome], options: &PlanOptions) -> TestPlan {
    replay(members, outcomes, options).plan()
}

/// Who is bad after these group tests, and how sure that is. When more tests are needed to tell, that is said.
#[must_use]
pub fn from_groups(members: &[String], outcomes: &[GroupOutcome], options: &PlanOptions) -> Located {
    replay(members, outcomes, options).located()
}

fn replay<'a>(members: &'a [String], outcomes: &[GroupOutcome], options: &PlanOptions) -> Search<'a> {
    let mut search = Search::new(members, options);
    outcomes.iter().for_each(|outcome| search.learn(outcome));
    search
}

/// The finishing round: each of `suspects` with a partner who is known to be good, all pairs disjoint.
///
/// Partners are those of `members` who are no suspects, those seen good in more pairs first. A suspect who was already
/// seen bad twice, or good twice, with such partners needs no more; one for whom no partner is left waits for
/// the next round.
#[must_use]
pub fn plan_pairs(
    members: &[String],
    suspects: &[String],
    outcomes: &[PairOutcome],
) -> Vec<(String, String)> {
    let suspects: BTreeSet<&str> = suspects.iter().map(String::as_str).collect();
    let mut good: BTreeMap<&str, u32> = BTreeMap::new();
    // For each suspect: seen bad, seen good, with whom.
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
        // Somebody new where possible: the same link again would not tell it from the member.
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
