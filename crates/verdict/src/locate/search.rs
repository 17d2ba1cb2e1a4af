//! A running search for the bad members.

use std::collections::BTreeMap;

use super::belief::Belief;
use super::choose::most_informative;
use super::plan::{
    GroupOutcome, MOST_NOISE, PlanOptions, TestPlan, distinct, information_of_a_test, tests_for,
};
use super::{Located, Searched, Suspect};

/// Maximum odds of a member if a hardware finding is the only evidence. Higher odds would name the member without a test; lower ones save
/// less than half of the tests.
const PRIOR_ODDS: f64 = 33.0;

/// Maximum error probability in total, as a multiple of the maximum per bad member.
const MAX_ERROR_FACTOR: usize = 4;

/// Evidence weight for the choice of tests, as a factor on log-odds.
///
/// Choosing by the current probabilities ends soonest on average, but fails after several wrong outcomes in a
/// row. With a limited number of tests, unlikely sets deserve more tests if a few wrong outcomes would make
/// them likely (the weights of Berlekamp, 1968, for searches with lies; one half approximates them). With one
/// expected bad member, every relevant set is weighted; with several, only a few hundred sets are sampled,
/// and a lower weight would scatter them too far.
fn weight_exponent(options: &PlanOptions) -> f64 {
    if options.expected <= 1.0 && options.max_tests.is_none() { 0.5 } else { 0.75 }
}

/// A running search for the bad members.
///
/// [`plan_groups`] and [`from_groups`] replay all outcomes into a search. A kept search avoids the replay.
#[derive(Debug)]
pub struct GroupSearch<'a> {
    members: Vec<&'a str>,
    number: BTreeMap<&'a str, usize>,
    belief: Belief,
    /// Belief for the choice of tests, if outcomes may be wrong.
    hedged: Option<Belief>,
    options: PlanOptions,
    /// Maximum number of tests.
    max_tests: usize,
    /// Number of tests run.
    tests: usize,
    /// Whether some member has a hardware finding.
    has_findings: bool,
}

impl<'a> GroupSearch<'a> {
    /// A search before any test.
    #[must_use]
    pub fn new(members: &'a [String], options: &PlanOptions) -> Self {
        let mut options = *options;
        // NaN options are replaced by their defaults.
        let usual = PlanOptions::default();
        let within = |value: f64, from: f64, to: f64, usual| {
            if value.is_nan() { usual } else { value.clamp(from, to) }
        };
        options.noise = within(options.noise, 0.0, MOST_NOISE, usual.noise);
        options.max_error = within(options.max_error, 1e-9, 0.5, usual.max_error);
        options.expected = within(options.expected, 1e-3, 1e6, usual.expected);
        options.min_confidence = within(options.min_confidence, 0.5, 1.0 - 1e-6, usual.min_confidence);
        // With less noise, certainty requires fewer tests, so the permitted error probability is smaller.
        options.max_error = (options.max_error * (options.noise / usual.noise).clamp(0.01, 1.0)).max(1e-9);
        let members = distinct(members);
        let number = members.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let believed = |noise| Belief::new(members.len(), noise, options.expected);
        let odds = (1.0 - options.noise) / options.noise;
        let hedged =
            (options.noise > 0.01).then(|| believed(1.0 / (1.0 + odds.powf(weight_exponent(&options)))));
        let belief = believed(options.noise);
        let max_tests =
            options.max_tests.unwrap_or_else(|| tests_for(members.len(), options.expected, options.noise));
        Self { members, number, belief, hedged, options, max_tests, tests: 0, has_findings: false }
    }

    /// Uses a hardware finding on a member as prior evidence, before the first test. Unknown members are ignored.
    ///
    /// The finding has the weight of several degraded tests of only this member: the largest number that keeps the odds of the member below
    /// 33 to 1, such as three tests with 232 members and one expected bad member. It does not count as a test, and names no member.
    pub fn suspect(&mut self, member: &str) {
        let Some(at) = self.number.get(member) else { return };
        self.has_findings = true;
        let mut group = vec![false; self.members.len()];
        group[*at] = true;
        let of_a_test = (1.0 - self.options.noise) / self.options.noise;
        let unlikely = (self.members.len() as f64 / self.options.expected).max(1.0);
        let weight = (PRIOR_ODDS * unlikely).ln() / of_a_test.ln();
        for _ in 0..weight as usize {
            self.belief.learn(&group, true);
            if let Some(hedged) = &mut self.hedged {
                hedged.learn(&group, true);
            }
        }
    }

    /// Adds one outcome, of a test planned here or of any other. Unknown members are ignored.
    pub fn learn(&mut self, outcome: &GroupOutcome) {
        let mut group = vec![false; self.members.len()];
        for member in outcome.members.iter().filter_map(|name| self.number.get(name.as_str())) {
            group[*member] = true;
        }
        self.belief.learn(&group, outcome.degraded);
        if let Some(hedged) = &mut self.hedged {
            hedged.learn(&group, outcome.degraded);
        }
        self.tests += 1;
    }

    /// Whether all bad members are known.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let likeliest = self.belief.sets.first().filter(|_| !self.rests_on_findings());
        likeliest.is_some_and(|(bad, likely)| 1.0 - likely < self.permitted_error(bad.len()))
    }

    /// Whether hardware findings are the only evidence, which does not suffice to name a member.
    const fn rests_on_findings(&self) -> bool {
        self.has_findings && self.tests == 0
    }

    /// The next test: the most informative one. Empty if the search is complete, no test could complete it,
    /// or the maximum is reached.
    #[must_use]
    pub fn plan(&self) -> TestPlan {
        let next = if self.is_done() || self.tests >= self.max_tests { None } else { self.next() };
        let named =
            |group: Vec<usize>| group.into_iter().map(|member| self.members[member].to_owned()).collect();
        TestPlan { groups: next.into_iter().map(named).collect() }
    }

    /// The bad members, with confidence. Reports the number of further tests.
    #[must_use]
    pub fn located(&self) -> Located {
        if self.members.is_empty() {
            return Located::open("the list of members to test is empty");
        }
        let done = self.is_done();
        let chances = self.belief.bad_probabilities();
        let (bad, likely) = self.belief.sets.first().cloned().unwrap_or_default();
        let suspect = |member: usize| -> Suspect {
            self.options.members.suspect(self.members[member], chances[member].clamp(0.0, 1.0))
        };
        let (named, suspected): (Vec<usize>, Vec<usize>) = bad
            .into_iter()
            .partition(|member| chances[*member] >= self.options.min_confidence && !self.rests_on_findings());
        let searched = Searched {
            sure: done && suspected.is_empty(),
            confidence: likely.clamp(0.0, 1.0),
            named_from: self.options.min_confidence,
            tests: self.tests,
            most: self.max_tests,
            more: if done { 0 } else { self.remaining_tests() },
        };
        let mut located = Located::named(named.into_iter().map(suspect).collect());
        located.suspected = suspected.into_iter().map(suspect).collect();
        located.suspected.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        located.undecided = (!searched.sure).then(|| searched.text(&located));
        located.healthy = located.suspects.is_empty() && searched.sure;
        located.search = Some(searched);
        located
    }

    /// Permitted error probability with this number of bad members.
    fn permitted_error(&self, bad: usize) -> f64 {
        self.options.max_error * (1 + bad).min(MAX_ERROR_FACTOR) as f64
    }

    /// The most informative test, regardless of the maximum.
    fn next(&self) -> Option<Vec<usize>> {
        let (group, degraded) = most_informative(self.hedged.as_ref().unwrap_or(&self.belief))?;
        // If one of two remaining members is bad, no test can decide which, because the outcome of every test is known in advance.
        (degraded.min(1.0 - degraded) > self.options.max_error / 16.0).then_some(group)
    }

    /// Estimated number of further tests; 0 if no further test would help.
    ///
    /// The unknown information in bits, divided by the information per test, plus the tests to reach
    /// certainty, which depend on the likelihood ratio of an outcome under two sets.
    fn remaining_tests(&self) -> usize {
        let Some((bad, _)) = self.belief.sets.first() else { return 0 };
        if self.next().is_none() {
            return 0;
        }
        let unknown: f64 =
            self.belief.sets.iter().map(|(_, likely)| -likely * likely.max(1e-300).log2()).sum();
        let noise = self.belief.evidence.noise;
        let proves = (1.0 - 2.0 * noise) * ((1.0 - noise) / noise).log2();
        let surer = -self.permitted_error(bad.len()).log2() / proves;
        (unknown / information_of_a_test(noise) + surer).ceil() as usize
    }
}

/// The next group test: the most informative one. Empty if the search is complete or [`PlanOptions::max_tests`]
/// tests were run.
///
/// Deterministic: the same outcomes give the same plan.
#[must_use]
pub fn plan_groups(members: &[String], outcomes: &[GroupOutcome], options: &PlanOptions) -> TestPlan {
    replay(members, outcomes, options).plan()
}

/// The bad members after these group tests, with confidence. Reports the number of further tests.
#[must_use]
pub fn from_groups(members: &[String], outcomes: &[GroupOutcome], options: &PlanOptions) -> Located {
    replay(members, outcomes, options).located()
}

fn replay<'a>(members: &'a [String], outcomes: &[GroupOutcome], options: &PlanOptions) -> GroupSearch<'a> {
    let mut search = GroupSearch::new(members, options);
    outcomes.iter().for_each(|outcome| search.learn(outcome));
    search
}
