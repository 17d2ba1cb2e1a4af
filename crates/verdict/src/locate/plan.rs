//! Which tests to run next, so that few are needed: adaptive group testing.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::belief::Belief;
use super::choose::most_telling;
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
    /// Doubt that may remain for each member named, and once more for the rest being called good.
    pub doubt: f64,
    /// How many bad members to expect before anything is known. A wrong guess costs a few tests, no more.
    pub expected: f64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { members: Members::default(), noise: 0.05, doubt: 0.005, expected: 1.0 }
    }
}

/// However many are named, the doubt in all of them together is not more than this many times that in one.
const MOST_DOUBTS: usize = 4;

/// A search for the bad members that is under way.
///
/// [`plan_groups`] and [`from_groups`] replay the outcomes into one; who holds on to it saves that.
#[derive(Debug)]
pub struct Search<'a> {
    members: Vec<&'a str>,
    number: BTreeMap<&'a str, usize>,
    belief: Belief,
    options: PlanOptions,
}

impl<'a> Search<'a> {
    /// Before any test.
    #[must_use]
    pub fn new(members: &'a [String], options: &PlanOptions) -> Self {
        let mut options = *options;
        // What is no number is no wish either.
        let usual = PlanOptions::default();
        let within = |value: f64, from: f64, to: f64, usual| {
            if value.is_nan() { usual } else { value.clamp(from, to) }
        };
        options.noise = within(options.noise, 0.0, 0.45, usual.noise);
        options.doubt = within(options.doubt, 1e-9, 0.5, usual.doubt);
        options.expected = within(options.expected, 1e-3, 1e6, usual.expected);
        // Where outcomes are not wrong, being sure costs next to nothing.
        options.doubt = (options.doubt * (options.noise / usual.noise).clamp(0.01, 1.0)).max(1e-9);
        let members = distinct(members);
        let number = members.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let belief = Belief::new(members.len(), options.noise, options.expected);
        Self { members, number, belief, options }
    }

    /// Takes one outcome into account, of a test planned here or of any other. Members unknown to the search are
    /// ignored.
    pub fn learn(&mut self, outcome: &GroupOutcome) {
        let mut group = vec![false; self.members.len()];
        for member in outcome.members.iter().filter_map(|name| self.number.get(name.as_str())) {
            group[*member] = true;
        }
        self.belief.hear(&group, outcome.degraded);
    }

    /// The bad members are known, and known to be all.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let likeliest = self.belief.sets.first();
        likeliest.is_some_and(|(bad, likely)| {
            1.0 - likely < self.options.doubt * (1 + bad.len()).min(MOST_DOUBTS) as f64
        })
    }

    /// The next test: the one that tells most. Empty when the search is done, or when no test could end it.
    #[must_use]
    pub fn plan(&self) -> TestPlan {
        let next = if self.is_done() { None } else { most_telling(&self.belief) };
        // Of two who are left, one of them bad, no test tells which: its outcome is known before.
        let next = next.filter(|(_, degraded)| degraded.min(1.0 - degraded) > self.options.doubt / 16.0);
        let named =
            |group: Vec<usize>| group.into_iter().map(|member| self.members[member].to_owned()).collect();
        TestPlan { groups: next.into_iter().map(|(group, _)| named(group)).collect() }
    }

    /// Who is bad. When more tests are needed to tell, that is said.
    #[must_use]
    pub fn located(&self) -> Located {
        let done = self.is_done();
        let sure = |member: &usize, chance: f64| match self.belief.sets.first() {
            Some((bad, _)) if done => bad.contains(member),
            _ => chance > 1.0 - self.options.doubt,
        };
        let each = self.belief.bad().into_iter().enumerate().filter(|(member, chance)| sure(member, *chance));
        let suspect = |(member, chance): (usize, f64)| {
            self.options.members.suspect(self.members[member], chance.clamp(0.0, 1.0))
        };
        let mut located = Located::named(each.map(suspect).collect());
        if self.members.is_empty() {
            located.undecided = Some("there are no members to test".to_owned());
        } else if !done {
            located.undecided = Some("the tests so far do not tell who else is bad, if anybody".to_owned());
        }
        located.healthy = located.suspects.is_empty() && located.undecided.is_none();
        located
    }
}

/// The next group test: the one that tells most. Empty when the bad members are known, and known to be all.
///
/// Deterministic: the same outcomes give the same plan.
#[must_use]
pub fn plan_groups(members: &[String], outcomes: &[GroupOutcome], options: &PlanOptions) -> TestPlan {
    replay(members, outcomes, options).plan()
}

/// Who is bad after these group tests. When more tests are needed to tell, that is said.
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

fn distinct(members: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    members.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect()
}
