//! Number of group tests that find the bad members, in simulated searches.

use model::SplitMix64;
use verdict::locate::{
    GroupOutcome, GroupSearch, Located, PairOutcome, PlanOptions, Suspect, from_groups, plan_groups,
    plan_pairs, tests_for,
};

/// Results of many searches.
#[derive(Default)]
struct SearchStatistics {
    /// Number of tests of each search, ascending.
    counts: Vec<usize>,
    /// Searches whose most likely set is correct.
    right: usize,
    /// Searches that ended with certainty, and the number of wrong results among them.
    sure: usize,
    sure_and_wrong: usize,
    /// Searches that named a good member, and searches that neither named nor suspected a bad one.
    good_named: usize,
    bad_missed: usize,
    /// Sum of the reported confidences.
    confidence: f64,
}

impl SearchStatistics {
    fn mean(&self) -> f64 {
        self.counts.iter().sum::<usize>() as f64 / self.counts.len() as f64
    }

    fn at(&self, part: f64) -> usize {
        self.counts[((self.counts.len() - 1) as f64 * part) as usize]
    }

    fn part(&self, of: usize) -> f64 {
        of as f64 / self.counts.len() as f64
    }

    fn correct(&self) -> f64 {
        self.part(self.right)
    }
}

/// In a debug build a search for five members takes seconds, so only `cargo test --release` runs all of them.
const SEEDS: u64 = if cfg!(debug_assertions) { 3 } else { 200 };

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("node-{at:03}")).collect()
}

fn search(bad: usize, noise: f64, options: &PlanOptions, seeds: u64) -> SearchStatistics {
    let members = names(232);
    let mut statistics = SearchStatistics::default();
    for seed in 0..seeds {
        let mut random = SplitMix64(seed);
        let mut truth: Vec<String> = Vec::new();
        while truth.len() < bad {
            let name = &members[(random.number() % 232) as usize];
            if !truth.contains(name) {
                truth.push(name.clone());
            }
        }
        truth.sort();
        let mut going = GroupSearch::new(&members, options);
        let mut tests = 0;
        while let Some(group) = going.plan().groups.pop() {
            assert!(group.len() >= 2, "a collective needs two members");
            let degraded = group.iter().any(|name| truth.contains(name)) != (random.part() < noise);
            going.learn(&GroupOutcome { members: group, degraded });
            tests += 1;
            assert!(tests < 500, "timeout: the search has not ended");
        }
        statistics.add(&going.located(), &truth, tests);
    }
    statistics.counts.sort_unstable();
    let percent = |of: usize| 100.0 * statistics.part(of);
    println!(
        "| {bad} | {:.0} % | {} | {:.1} | {} | {} | {:.1} % | {:.1} % | {} of {} | {} | {} | {:.1} % |",
        100.0 * noise,
        options.expected,
        statistics.mean(),
        statistics.at(0.95),
        statistics.at(1.0),
        percent(statistics.right),
        percent(statistics.sure),
        statistics.sure_and_wrong,
        seeds,
        statistics.good_named,
        statistics.bad_missed,
        100.0 * statistics.confidence / seeds as f64,
    );
    statistics
}

impl SearchStatistics {
    fn add(&mut self, located: &Located, truth: &[String], tests: usize) {
        let hosts = |of: &[Suspect]| of.iter().filter_map(|one| one.host.clone()).collect::<Vec<String>>();
        let named = hosts(&located.suspects);
        let mut likeliest = [named.clone(), hosts(&located.suspected)].concat();
        likeliest.sort();
        let progress = located.search.as_ref().expect("a search reports its progress");
        assert!(located.suspects.iter().all(|suspect| suspect.confidence >= progress.named_from));
        assert!(located.suspected.iter().all(|suspect| suspect.confidence < progress.named_from));
        assert_eq!(progress.sure, located.undecided.is_none());
        assert_eq!(progress.tests, tests);
        let right = likeliest == truth;
        self.counts.push(tests);
        self.right += usize::from(right);
        self.sure += usize::from(progress.sure);
        self.sure_and_wrong += usize::from(progress.sure && !right);
        self.good_named += usize::from(named.iter().any(|name| !truth.contains(name)));
        self.bad_missed += usize::from(truth.iter().any(|name| !likeliest.contains(name)));
        self.confidence += progress.confidence;
    }
}

fn suspecting(expected: f64) -> PlanOptions {
    PlanOptions { expected, ..PlanOptions::default() }
}

/// Mean number of tests of searches for one bad member of 232 with 5 % wrong outcomes, and the number of correct results. `prior`:
/// the member with a hardware finding, if any.
fn with_prior(seeds: u64, prior: impl Fn(&mut SplitMix64, &str) -> Option<String>) -> (f64, usize) {
    let members = names(232);
    let (mut total, mut right) = (0, 0);
    for seed in 0..seeds {
        let mut random = SplitMix64(seed);
        let bad = members[(random.number() % 232) as usize].clone();
        let mut search = GroupSearch::new(&members, &PlanOptions::default());
        if let Some(suspect) = prior(&mut random, &bad) {
            search.suspect(&suspect);
        }
        while let Some(group) = search.plan().groups.pop() {
            let degraded = group.contains(&bad) != (random.part() < 0.05);
            search.learn(&GroupOutcome { members: group, degraded });
            total += 1;
        }
        let located = search.located();
        let named: Vec<_> = located.suspects.iter().filter_map(|suspect| suspect.host.as_deref()).collect();
        right += usize::from(named == [bad.as_str()]);
    }
    (total as f64 / seeds as f64, right)
}

#[test]
fn a_finding_on_the_bad_member_halves_the_tests_and_one_on_a_good_member_costs_two_at_most() {
    let seeds = if cfg!(debug_assertions) { 40 } else { 200 };
    let (without, right) = with_prior(seeds, |_, _| None);
    let (helped, helped_right) = with_prior(seeds, |_, bad| Some(bad.to_owned()));
    let (misled, misled_right) =
        with_prior(seeds, |random, _| Some(format!("node-{:03}", random.number() % 232)));
    println!(
        "prior evidence: none {without:.1} tests, on the bad member {helped:.1}, on any member {misled:.1}"
    );
    println!("correct of {seeds}: {right}, {helped_right}, {misled_right}");
    assert!(helped <= without / 2.0, "a finding on the bad member reduces {without} tests to {helped}");
    assert!(misled <= without + 2.0, "a finding on any member changes {without} tests to {misled}");
    for right in [right, helped_right, misled_right] {
        assert!(right as f64 >= 0.95 * seeds as f64, "{right} of {seeds}");
    }
}

#[test]
fn a_finding_without_tests_names_no_member() {
    for count in [2_u32, 3, 6, 20, 64, 232, 500] {
        for noise in [0.0, 0.001, 0.05, 0.3] {
            // If more than half of the members are expected to be bad, members are named without a finding, too.
            for expected in [1.0, 5.0].into_iter().filter(|expected| 2.0 * expected <= f64::from(count)) {
                let members = names(count as usize);
                let mut search = GroupSearch::new(&members, &PlanOptions { noise, ..suspecting(expected) });
                search.suspect("node-001");
                search.suspect("unknown");
                let located = search.located();
                assert!(located.suspects.is_empty(), "{count} members, noise {noise}, expected {expected}");
                assert!(!located.search.unwrap().sure);
            }
        }
    }
}

#[test]
fn the_default_limit_for_232_members_is_22_tests_for_one_bad_member_and_55_for_five() {
    assert_eq!([1.0, 2.0, 3.0, 5.0].map(|suspected| tests_for(232, suspected, 0.05)), [22, 31, 39, 55]);
    assert_eq!(tests_for(232, 1.0, 0.0), 22);
    assert!(tests_for(232, 1.0, 0.2) > 44);
    for (members, suspected, noise) in
        [(0, 1.0, 0.05), (1, 5.0, 0.0), (2, f64::NAN, f64::NAN), (9, 1e300, 0.5)]
    {
        assert!((12..10_000).contains(&tests_for(members, suspected, noise)), "{members}");
    }
}

/// The default options expect noise, although these outcomes have none.
#[test]
fn without_noise_one_bad_node_takes_at_most_22_tests_and_five_take_at_most_55() {
    for (bad, most) in [(0, 22), (1, 22), (2, 31), (3, 39), (5, 55)] {
        let statistics = search(bad, 0.0, &suspecting(bad.max(1) as f64), SEEDS);
        assert!(statistics.at(1.0) <= most && statistics.correct() == 1.0 && statistics.good_named == 0);
    }
}

/// Five of 232 members are 32 bits of information, and a test yields at most 0.71 bit: at least 45 tests on average,
/// and six more for each wrong outcome. No strategy finds all five in 55 tests in more than 95 of 100 searches: with
/// six wrong outcomes several sets agree with the results.
#[test]
fn with_one_wrong_outcome_in_twenty_every_search_stays_within_its_limit_and_most_are_correct() {
    for (bad, most, correct) in [(0, 22, 0.995), (1, 22, 0.98), (2, 31, 0.95), (3, 39, 0.92), (5, 55, 0.88)] {
        // One bad member is the usual case, and its searches are short: every build runs enough of them to count the correct ones.
        let seeds = match bad {
            0 => SEEDS.max(200),
            1 => 5 * SEEDS.max(40),
            _ => SEEDS,
        };
        let statistics = search(bad, 0.05, &suspecting(bad.max(1) as f64), seeds);
        assert!(
            statistics.at(1.0) <= most,
            "{bad} bad members: expected at most {most} tests, found {}",
            statistics.at(1.0)
        );
        if seeds >= 200 {
            assert!(
                statistics.correct() >= correct,
                "{bad} bad members: expected a share of {correct} correct searches, found {}",
                statistics.correct()
            );
            assert!(
                statistics.part(statistics.good_named) <= 0.005,
                "{bad} bad members: a good member was named in {} series",
                statistics.good_named
            );
            // The reported confidence is correct within four deviations.
            let reported = statistics.confidence / seeds as f64;
            assert!(
                (reported - statistics.correct()).abs() <= 0.09,
                "{bad} bad members: the reported confidence is {reported}"
            );
        }
    }
}

/// The prior expects one bad member, and the tests suffice for five: five bad members are found less often, because the wrong prior costs
/// six bits, or eight tests.
#[test]
fn with_enough_tests_the_number_of_bad_members_need_not_be_known() {
    for (bad, correct) in [(1, 0.98), (5, 0.65)] {
        let statistics =
            search(bad, 0.05, &PlanOptions { max_tests: Some(55), ..PlanOptions::default() }, SEEDS);
        assert!(statistics.at(1.0) <= 55);
        assert!(
            SEEDS < 200 || statistics.correct() >= correct,
            "{bad} bad members: expected a share of {correct} correct searches, found {}",
            statistics.correct()
        );
    }
}

/// With enough tests the search continues until it is certain.
#[test]
fn a_larger_limit_increases_the_confidence() {
    let options = PlanOptions { max_tests: Some(150), ..suspecting(5.0) };
    let statistics = search(5, 0.05, &options, SEEDS.div_ceil(3));
    assert!(statistics.correct() >= if SEEDS > 100 { 0.97 } else { 0.6 });
    let options = PlanOptions { max_tests: Some(7), ..suspecting(5.0) };
    let statistics = search(5, 0.05, &options, 2);
    assert_eq!(
        (statistics.at(0.0), statistics.at(1.0), statistics.sure, statistics.good_named),
        (7, 7, 0, 0)
    );
    let options = PlanOptions { max_tests: Some(0), ..suspecting(5.0) };
    assert_eq!(search(5, 0.05, &options, 1).at(1.0), 0);
}

#[test]
fn at_the_limit_likely_members_are_suspected_and_missing_tests_reported() {
    let members = names(232);
    let options = PlanOptions { max_tests: Some(9), ..PlanOptions::default() };
    let mut search = GroupSearch::new(&members, &options);
    while let Some(group) = search.plan().groups.pop() {
        let degraded = group.contains(&members[41]);
        search.learn(&GroupOutcome { members: group, degraded });
    }
    let located = search.located();
    let progress = located.search.clone().expect("the search reports its progress");
    assert!(!progress.sure && !located.healthy && located.suspects.is_empty());
    assert_eq!((progress.tests, progress.most), (9, 9));
    assert!((1..=8).contains(&progress.more), "{progress:?}");
    let why = located.undecided.expect("the search reports the reason");
    assert!(
        why.contains(", with a probability of ") && why.ends_with("the maximum number of tests is reached"),
        "{why}"
    );
}

#[test]
fn more_bad_members_than_expected_are_found() {
    let few = SEEDS.div_ceil(30);
    for (bad, expected, most) in [(0, 5.0, 30), (1, 20.0, 60), (5, 0.1, 120), (12, 1.0, 220)] {
        if few > 1 || bad < 12 {
            let options = PlanOptions { max_tests: Some(250), ..suspecting(expected) };
            let statistics = search(bad, 0.05, &options, few);
            assert!(statistics.at(1.0) <= most && statistics.correct() >= 0.9, "{bad}");
        }
    }
    if few > 1 {
        let statistics =
            search(20, 0.05, &PlanOptions { max_tests: Some(250), ..PlanOptions::default() }, few);
        assert!(statistics.correct() >= 0.8);
    }
}

#[test]
fn replayed_outcomes_give_the_same_state() {
    let members = names(40);
    let options = PlanOptions::default();
    let mut outcomes = Vec::new();
    let mut search = GroupSearch::new(&members, &options);
    for _ in 0..30 {
        let plan = plan_groups(&members, &outcomes, &options);
        assert_eq!(plan, search.plan());
        assert_eq!(from_groups(&members, &outcomes, &options), search.located());
        let Some(group) = plan.groups.into_iter().next() else { break };
        let degraded = group.contains(&members[7]) || group.contains(&members[8]);
        outcomes.push(GroupOutcome { members: group, degraded });
        search.learn(&outcomes[outcomes.len() - 1]);
    }
    let found: Vec<_> = search.located().suspects.into_iter().filter_map(|suspect| suspect.host).collect();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&members[7]) && found.contains(&members[8]));
}

#[test]
fn searches_in_small_clusters_end() {
    for count in 0..5 {
        for bad in 0..=count {
            let members = names(count);
            let options = PlanOptions::default();
            let mut search = GroupSearch::new(&members, &options);
            let mut tests = 0;
            while let Some(group) = search.plan().groups.pop() {
                let degraded = group.iter().any(|name| members[..bad].contains(name));
                search.learn(&GroupOutcome { members: group, degraded });
                tests += 1;
                assert!(tests < 100, "{bad} of {count}");
            }
            // In a bad pair the bad member cannot be determined; the pair must not count as healthy.
            assert!(bad == 0 || !search.located().healthy, "{bad} of {count}");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(if cfg!(debug_assertions) { 24 } else { 256 }))]
    #[test]
    fn contradictory_outcomes_are_tolerated(
        outcomes in proptest::collection::vec((proptest::collection::vec(0_usize..12, 0..12), proptest::bool::ANY), 0..40),
        noise in proptest::num::f64::ANY,
        doubt in proptest::num::f64::ANY,
    ) {
        let all = names(12);
        let outcome = |(group, degraded): (Vec<usize>, bool)| GroupOutcome {
            members: group.into_iter().map(|at| all[at].clone()).collect(),
            degraded,
        };
        let outcomes: Vec<_> = outcomes.into_iter().map(outcome).collect();
        let options = PlanOptions { noise, max_error: doubt, min_confidence: doubt, expected: noise, ..PlanOptions::default() };
        // The outcomes contain two members that the search does not have.
        let located = from_groups(&all[..10], &outcomes, &options);
        assert!(located.suspects.iter().all(|suspect| (0.0..=1.0).contains(&suspect.confidence)));
        for group in plan_groups(&all[..10], &outcomes, &options).groups {
            assert!(group.len() >= 2);
        }
    }
}

#[test]
fn suspects_are_confirmed_with_disjoint_good_partners() {
    let members = names(8);
    let suspects = vec!["node-001".to_owned(), "node-004".to_owned()];
    let first = plan_pairs(&members, &suspects, &[]);
    assert_eq!(first.len(), 2);
    let mut outcomes: Vec<PairOutcome> = Vec::new();
    outcomes.extend(first.iter().map(|(a, b)| PairOutcome { a: a.clone(), b: b.clone(), degraded: true }));
    let second = plan_pairs(&members, &suspects, &outcomes);
    assert_eq!(second.len(), 2);
    assert!(
        second.iter().all(|pair| !first.contains(pair)),
        "another partner distinguishes the member from the link"
    );
    outcomes.extend(second.iter().map(|(a, b)| PairOutcome { a: a.clone(), b: b.clone(), degraded: true }));
    assert_eq!(plan_pairs(&members, &suspects, &outcomes), []);
}
