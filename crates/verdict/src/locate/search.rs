//! A search for the bad members that is under way.

use std::collections::BTreeMap;

use super::belief::Belief;
use super::choose::most_telling;
use super::plan::{GroupOutcome, MOST_NOISE, PlanOptions, TestPlan, distinct, tests_for, told_by_a_test};
use super::{Located, Searched, Suspect};

/// However many are bad, the doubt in all of them together is not more than this many times that in one.
const MOST_DOUBTS: usize = 4;

/// Tests are chosen as if an outcome proved this part of what it does, as logarithms of odds go.
///
/// Who asks by what is likely now ends soonest in the mean, and is lost when several outcomes in a row were wrong. Where
/// tests are limited the unlikely sets deserve more questions: those that a few wrong outcomes more would make
/// likely (the weights of Berlekamp, 1968, for searches with lies; one half is about what they come to). Where one is
/// suspected, every set that counts is weighed; of several only some hundred sets are carried, and less than this
/// scatters them so far that the few that count are not told apart.
fn hedge(options: &PlanOptions) -> f64 {
    if options.expected <= 1.0 && options.most.is_none() { 0.5 } else { 0.75 }
}

/// A search for the bad members that is under way.
///
/// [`plan_groups`](super::plan_groups) and [`from_groups`](super::from_groups) replay the outcomes into one; who holds
/// on to it saves that.
#[derive(Debug)]
pub struct Search<'a> {
    members: Vec<&'a str>,
    number: BTreeMap<&'a str, usize>,
    /// What is believed.
    belief: Belief,
    /// By what tests are chosen, where outcomes may be wrong.
    hedged: Option<Belief>,
    options: PlanOptions,
    /// No more tests than this.
    most: usize,
    /// So many were run.
    tests: usize,
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
        options.noise = within(options.noise, 0.0, MOST_NOISE, usual.noise);
        options.doubt = within(options.doubt, 1e-9, 0.5, usual.doubt);
        options.expected = within(options.expected, 1e-3, 1e6, usual.expected);
        options.sure = within(options.sure, 0.5, 1.0 - 1e-6, usual.sure);
        // Where outcomes are not wrong, being sure costs next to nothing.
        options.doubt = (options.doubt * (options.noise / usual.noise).clamp(0.01, 1.0)).max(1e-9);
        let members = distinct(members);
        let number = members.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let believed = |noise| Belief::new(members.len(), noise, options.expected);
        let odds = (1.0 - options.noise) / options.noise;
        let hedged = (options.noise > 0.01).then(|| believed(1.0 / (1.0 + odds.powf(hedge(&options)))));
        let belief = believed(options.noise);
        let most = options.most.unwrap_or_else(|| tests_for(members.len(), options.expected, options.noise));
        Self { members, number, belief, hedged, options, most, tests: 0 }
    }

    /// Takes one outcome into account, of a test planned here or of any other. Members unknown to the search are
    /// ignored.
    pub fn learn(&mut self, outcome: &GroupOutcome) {
        let mut group = vec![false; self.members.len()];
        for member in outcome.members.iter().filter_map(|name| self.number.get(name.as_str())) {
            group[*member] = true;
        }
        self.belief.hear(&group, outcome.degraded);
        if let Some(hedged) = &mut self.hedged {
            hedged.hear(&group, outcome.degraded);
        }
        self.tests += 1;
    }

    /// The bad members are known, and known to be all.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let likeliest = self.belief.sets.first();
        likeliest.is_some_and(|(bad, likely)| 1.0 - likely < self.doubt(bad.len()))
    }

    /// The next test: the one that tells most. Empty when the search is done, when no test could end it, or when no more
    /// are allowed.
    #[must_use]
    pub fn plan(&self) -> TestPlan {
        let next = if self.is_done() || self.tests >= self.most { None } else { self.next() };
        let named =
            |group: Vec<usize>| group.into_iter().map(|member| self.members[member].to_owned()).collect();
        TestPlan { groups: next.into_iter().map(named).collect() }
    }

    /// Who is bad, and how sure that is. When more tests are needed to tell, that is said.
    #[must_use]
    pub fn located(&self) -> Located {
        if self.members.is_empty() {
            return Located::open("there are no members to test");
        }
        let done = self.is_done();
        let chances = self.belief.bad();
        let (bad, likely) = self.belief.sets.first().cloned().unwrap_or_default();
        let suspect = |member: usize| -> Suspect {
            self.options.members.suspect(self.members[member], chances[member].clamp(0.0, 1.0))
        };
        let (named, suspected): (Vec<usize>, Vec<usize>) =
            bad.into_iter().partition(|member| chances[*member] >= self.options.sure);
        let searched = Searched {
            sure: done && suspected.is_empty(),
            confidence: likely.clamp(0.0, 1.0),
            named_from: self.options.sure,
            tests: self.tests,
            most: self.most,
            more: if done { 0 } else { self.more() },
        };
        let mut located = Located::named(named.into_iter().map(suspect).collect());
        located.suspected = suspected.into_iter().map(suspect).collect();
        located.suspected.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        located.undecided = (!searched.sure).then(|| searched.told(&located));
        located.healthy = located.suspects.is_empty() && searched.sure;
        located.search = Some(searched);
        located
    }

    /// Doubt that may remain when so many are bad.
    fn doubt(&self, bad: usize) -> f64 {
        self.options.doubt * (1 + bad).min(MOST_DOUBTS) as f64
    }

    /// The test that tells most, whether or not it is allowed.
    fn next(&self) -> Option<Vec<usize>> {
        let (group, degraded) = most_telling(self.hedged.as_ref().unwrap_or(&self.belief))?;
        // Of two who are left, one of them bad, no test tells which: its outcome is known before.
        (degraded.min(1.0 - degraded) > self.options.doubt / 16.0).then_some(group)
    }

    /// How many tests more would be wanted, about; 0 when none would help.
    ///
    /// What is unknown, in bits, over what a test tells; and then to be sure of it, which goes by how much likelier an
    /// outcome is under one set than under another.
    fn more(&self) -> usize {
        let Some((bad, _)) = self.belief.sets.first() else { return 0 };
        if self.next().is_none() {
            return 0;
        }
        let unknown: f64 =
            self.belief.sets.iter().map(|(_, likely)| -likely * likely.max(1e-300).log2()).sum();
        let noise = self.belief.evidence.noise;
        let proves = (1.0 - 2.0 * noise) * ((1.0 - noise) / noise).log2();
        let surer = -self.doubt(bad.len()).log2() / proves;
        (unknown / told_by_a_test(noise) + surer).ceil() as usize
    }
}
