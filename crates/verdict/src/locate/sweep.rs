//! A sweep over a cluster in pairs: selects the next pairs and evaluates the results.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Located, PairOptions, PairOutcome, PairResult, from_pairs,
    pairs::{few, is_good, plateau},
    plan::plan_pairs,
};

/// Suspects below this confidence run with another good member, because a false suspect causes wrong repairs.
const CONFIRMED: f64 = 0.95;
/// Maximum number of runs of a pair to distinguish a bad link from noise.
const REPEATS: usize = 3;
/// Maximum number of failed attempts for a member without any measured pair.
const TRIES: usize = 6;

/// A pair that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// First member.
    pub a: String,
    /// Second member.
    pub b: String,
    /// Result of the run.
    pub outcome: SweepOutcome,
}

/// Result of a pair run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SweepOutcome {
    /// The run completed with correct results.
    Measured {
        /// Bus bandwidth, GB/s.
        busbw: f64,
    },
    /// The run failed, or its results are wrong.
    Broken {
        /// Reason why the run counts as failed, for display.
        why: String,
    },
    /// The pair could not be run.
    Void {
        /// Reason why the pair could not be run, for display.
        why: String,
    },
}

/// The next pairs, which are disjoint and can run concurrently. Empty if no further pair is useful or `tests`
/// pairs were run.
///
/// First every member runs with two or three others: a pair of two bad members does not stand out. Then
/// doubtful members run with good ones, a bad pair of two good members is repeated, and finally each suspect
/// runs again.
///
/// `suspected`: members with evidence from outside the sweep, such as a hardware finding. In the first round they run with other members,
/// and if a pair with one of them is degraded, the sweep needs no further round of all members. A list of more than a quarter of the
/// members has no effect. Deterministic: the same outcomes, in the same order, give the same pairs.
#[must_use]
pub fn next_pairs(
    members: &[String],
    suspected: &[String],
    tried: &[Tried],
    options: &PairOptions,
    tests: usize,
) -> Vec<(String, String)> {
    let (first, others): (Vec<_>, Vec<_>) =
        members.iter().cloned().partition(|member| suspected.contains(member));
    let has_prior = !first.is_empty() && 4 * first.len() <= members.len();
    // With an odd number of members, the first one pauses in the first round.
    let (pausing, paired) = others.split_at(others.len().min(1));
    let order = if has_prior { [pausing, &first, paired].concat() } else { members.to_vec() };
    let suspected = first.iter().map(String::as_str).filter(|_| has_prior).collect();
    let round = first_pairs(&order, 0).len();
    let is_explained = tried.len() >= round && explains(&suspected, &tried[..round], options);
    let mut pairs = if is_explained { Vec::new() } else { first_pairs(&order, tried.len()) };
    if pairs.is_empty() {
        pairs = doubtful_pairs(members, tried, options);
    }
    pairs.truncate(tests.saturating_sub(tried.len()));
    pairs
}

/// Whether first-round pairs with a suspected member are degraded, and wrong outcomes explain the number of other degraded pairs. The other
/// degraded pairs run again in any case.
fn explains(suspected: &BTreeSet<&str>, round: &[Tried], options: &PairOptions) -> bool {
    let results = results(round);
    let limit = options.limit(&results);
    let has_suspect = |result: &&PairResult| suspected.contains(&*result.a) || suspected.contains(&*result.b);
    let degraded = results.iter().filter(|result| !is_good(result, limit));
    let (expected, others): (Vec<_>, Vec<_>) = degraded.partition(has_suspect);
    let most = 1.0 + 2.0 * options.noise * results.len() as f64;
    !expected.is_empty() && others.len() as f64 <= most
}

/// Evaluates all pairs of these members. A member without a measured pair is unknown.
#[must_use]
pub fn from_tried(members: &[String], tried: &[Tried], options: &PairOptions) -> Located {
    let results = results(tried);
    let mut located = from_pairs(&results, options);
    let unknown = unmeasured(members, &results);
    if results.is_empty() || unknown.is_empty() {
        return located;
    }
    let why = tried.iter().rev().find_map(|pair| match &pair.outcome {
        SweepOutcome::Void { why } if [&pair.a, &pair.b].iter().any(|end| unknown.contains(end)) => Some(why),
        _ => None,
    });
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let text = format!("unknown: {}; no pair of these members was measured{why}", few(&unknown));
    located.undecided = Some(located.undecided.map_or(text.clone(), |before| format!("{before}; {text}")));
    located.healthy = false;
    located
}

/// Bandwidth of the best pairs, GB/s; `None` if no pair was measured.
#[must_use]
pub fn best_of(tried: &[Tried]) -> Option<f64> {
    Some(plateau(&results(tried))).filter(|best| *best > 0.0)
}

fn results(tried: &[Tried]) -> Vec<PairResult> {
    let result = |tried: &Tried| {
        let (busbw, ok) = match tried.outcome {
            SweepOutcome::Measured { busbw } => (busbw, true),
            SweepOutcome::Broken { .. } => (0.0, false),
            SweepOutcome::Void { .. } => return None,
        };
        Some(PairResult { a: tried.a.clone(), b: tried.b.clone(), busbw, ok })
    };
    tried.iter().filter_map(result).collect()
}

/// Members without a measured pair.
fn unmeasured<'a>(members: &'a [String], results: &[PairResult]) -> Vec<&'a String> {
    let measured: BTreeSet<&String> = results.iter().flat_map(|pair| [&pair.a, &pair.b]).collect();
    members.iter().filter(|member| !measured.contains(member)).collect()
}

/// The first rounds, in which all members take part: a tournament by the circle method. `done` is the number
/// of these pairs already run.
fn first_pairs(members: &[String], done: usize) -> Vec<(String, String)> {
    let count = members.len();
    // With an odd number of members, one of them pauses in each round.
    let positions = count + count % 2;
    let rounds = if count % 2 == 1 { 3 } else { 2 }.min(positions.saturating_sub(1));
    let mut started = 0;
    for round in 0..rounds {
        // The last position of the circle is fixed; in each round the others rotate by one.
        let position = |at: usize| if at == positions - 1 { at } else { (at + round) % (positions - 1) };
        let pairs: Vec<_> = (0..positions / 2)
            .map(|at| (position(at), position(positions - 1 - at)))
            .filter(|(a, b)| *a < count && *b < count)
            .map(|(a, b)| (members[a.min(b)].clone(), members[a.max(b)].clone()))
            .collect();
        if started == done {
            return pairs;
        }
        started += pairs.len();
    }
    Vec::new()
}

fn doubtful_pairs(members: &[String], tried: &[Tried], options: &PairOptions) -> Vec<(String, String)> {
    let results = results(tried);
    let located = from_pairs(&results, options);
    if results.is_empty() {
        return Vec::new();
    }
    let limit = options.limit(&results);
    let named: BTreeSet<&str> =
        located.suspects.iter().filter_map(|suspect| suspect.host.as_deref()).collect();
    let unknown = unknown_pairs(members, tried, &results, |result| is_good(result, limit));
    if !unknown.is_empty() {
        return unknown;
    }
    if located.undecided.is_none() {
        return confirming(members, &located, &named, &results);
    }
    let open = |result: &&PairResult| {
        !is_good(result, limit) && !named.contains(&*result.a) && !named.contains(&*result.b)
    };
    let unexplained: Vec<&PairResult> = results.iter().filter(open).collect();
    let suspects: BTreeSet<&String> = unexplained.iter().flat_map(|result| [&result.a, &result.b]).collect();
    let suspects: Vec<String> = suspects.into_iter().cloned().collect();
    // The result of a pair with a bad member is no evidence about its partner.
    let fit: Vec<String> = members.iter().filter(|member| !named.contains(&***member)).cloned().collect();
    let outcome = |result: &PairResult| PairOutcome {
        a: result.a.clone(),
        b: result.b.clone(),
        degraded: !is_good(result, limit),
    };
    let outcomes: Vec<PairOutcome> = results.iter().map(outcome).collect();
    let pairs = plan_pairs(&fit, &suspects, &outcomes);
    if pairs.is_empty() { pairs_to_repeat(&unexplained, tried) } else { pairs }
}

/// Each member without a measurement, paired with a member known to be good.
fn unknown_pairs(
    members: &[String],
    tried: &[Tried],
    results: &[PairResult],
    good: impl Fn(&PairResult) -> bool,
) -> Vec<(String, String)> {
    let tries = |member: &String| tried.iter().filter(|pair| pair.a == *member || pair.b == *member).count();
    let unknown = unmeasured(members, results).into_iter().filter(|member| tries(member) < TRIES);
    let fit: BTreeSet<&String> =
        results.iter().filter(|result| good(result)).flat_map(|result| [&result.a, &result.b]).collect();
    unknown.zip(fit).map(|(member, partner)| (member.clone(), partner.clone())).collect()
}

/// Pairs each suspect below the required confidence with a member that is not a suspect and was not measured with it before.
fn confirming(
    members: &[String],
    located: &Located,
    named: &BTreeSet<&str>,
    results: &[PairResult],
) -> Vec<(String, String)> {
    let mut taken = BTreeSet::new();
    let mut pairs = Vec::new();
    for suspect in located.suspects.iter().filter(|suspect| suspect.confidence < CONFIRMED) {
        let Some(bad) = suspect.host.as_deref() else { continue };
        let met = |other: &str| {
            results
                .iter()
                .any(|pair| (&*pair.a, &*pair.b) == (bad, other) || (&*pair.a, &*pair.b) == (other, bad))
        };
        let fit =
            |other: &&String| !named.contains(&***other) && !taken.contains(*other) && !met(other.as_str());
        if let Some(partner) = members.iter().find(fit) {
            taken.insert(partner);
            pairs.push((bad.to_owned(), partner.clone()));
        }
    }
    pairs
}

/// Pairs that stay bad although both members are good: the link or noise is the cause.
fn pairs_to_repeat(unexplained: &[&PairResult], tried: &[Tried]) -> Vec<(String, String)> {
    let mut taken = BTreeSet::new();
    let mut pairs = Vec::new();
    for PairResult { a, b, .. } in unexplained {
        let same = |other: &&Tried| (&other.a, &other.b) == (a, b) || (&other.a, &other.b) == (b, a);
        if tried.iter().filter(same).count() < REPEATS && !taken.contains(a) && !taken.contains(b) {
            taken.extend([a, b]);
            pairs.push((a.clone(), b.clone()));
        }
    }
    pairs
}
