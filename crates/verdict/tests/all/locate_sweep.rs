//! Simulated sweeps in pairs over clusters with bad nodes and bad links.

use std::collections::BTreeSet;

use proptest::prelude::*;
use verdict::locate::{Located, PairOptions, SweepOutcome, Tried, best_of, from_tried, next_pairs};

fn cluster(nodes: usize) -> Vec<String> {
    (0..nodes).map(|node| format!("n{node:03}")).collect()
}

/// Runs all pairs. `busbw` returns the bandwidth of a pair by its number and members; `None`: wrong
/// results, negative: no measurement.
fn sweep(nodes: usize, busbw: impl Fn(usize, usize, usize) -> Option<f64>) -> (Located, Vec<Tried>) {
    sweep_with_prior(nodes, &[], busbw)
}

/// Like [`sweep`], with evidence against these members.
fn sweep_with_prior(
    nodes: usize,
    suspected: &[usize],
    busbw: impl Fn(usize, usize, usize) -> Option<f64>,
) -> (Located, Vec<Tried>) {
    let members = cluster(nodes);
    let suspected: Vec<String> = suspected.iter().map(|node| members[*node].clone()).collect();
    let number = |name: &str| name[1..].parse().unwrap();
    let mut tried: Vec<Tried> = Vec::new();
    loop {
        let pairs = next_pairs(&members, &suspected, &tried, &PairOptions::default(), 4 * nodes);
        assert_eq!(pairs, next_pairs(&members, &suspected, &tried, &PairOptions::default(), 4 * nodes));
        if pairs.is_empty() {
            return (from_tried(&members, &tried, &PairOptions::default()), tried);
        }
        let distinct: BTreeSet<_> = pairs.iter().flat_map(|(a, b)| [a, b]).collect();
        assert_eq!(distinct.len(), 2 * pairs.len(), "the pairs of a round are disjoint");
        for (a, b) in pairs {
            let outcome = match busbw(tried.len(), number(&a), number(&b)) {
                Some(busbw) if busbw < 0.0 => SweepOutcome::Void { why: "PREEMPTED".to_owned() },
                Some(busbw) => SweepOutcome::Measured { busbw },
                None => SweepOutcome::Broken { why: "wrong".to_owned() },
            };
            tried.push(Tried { a, b, outcome });
        }
    }
}

fn named(located: &Located) -> Vec<usize> {
    let hosts = located.suspects.iter().filter_map(|suspect| suspect.host.as_deref());
    let mut nodes: Vec<usize> = hosts.map(|host| host[1..].parse().unwrap()).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn one_bad_node_is_named_in_clusters_of_any_size() {
    for nodes in 3..40 {
        for bad in 0..nodes {
            let slow = |_, a, b| Some(if a == bad || b == bad { 40.0 } else { 90.0 });
            let (located, tried) = sweep(nodes, slow);
            assert_eq!(named(&located), [bad], "node {bad} of {nodes} is bad: {located:?}");
            assert_eq!(located.undecided, None);
            assert!(nodes < 4 || located.suspects[0].confidence > 0.95, "of {nodes}: {located:?}");
            assert!(tried.len() <= nodes * 3 / 2 + 8, "{} tests for {nodes} nodes", tried.len());
        }
    }
}

#[test]
fn a_node_with_wrong_data_is_named() {
    let (located, _) = sweep(8, |_, a, b| (a != 5 && b != 5).then_some(90.0));
    assert_eq!(named(&located), [5]);
}

#[test]
fn a_healthy_cluster_is_confirmed_after_two_rounds() {
    let (located, tried) = sweep(16, |number, _, _| Some(90.0 + (number % 3) as f64));
    assert!(located.healthy);
    assert_eq!(tried.len(), 16);
    assert_eq!(best_of(&tried), Some(92.0));
}

#[test]
fn a_bad_link_is_distinguished_from_its_members() {
    // The bad link is between the members of a pair of the first round.
    let (first, second) = (0, 7);
    let (located, _) = sweep(8, |_, a, b| Some(if (a, b) == (first, second) { 20.0 } else { 90.0 }));
    assert_eq!(named(&located), [] as [usize; 0]);
    assert_eq!(located.links.len(), 1, "{located:?}");
    assert_eq!((&*located.links[0].a, &*located.links[0].b), ("n000", "n007"));
}

#[test]
fn a_single_noisy_pair_gives_no_suspect() {
    let (located, _) = sweep(8, |number, _, _| Some(if number == 2 { 20.0 } else { 90.0 }));
    assert!(located.suspects.is_empty() && located.links.is_empty(), "{located:?}");
}

#[test]
fn a_slow_node_is_named_although_good_pairs_differ_more_than_slow_ones() {
    // Values from four hosts with other load on their processors; one host has a link of 10 Mbit/s. With seven results or more, two good
    // pairs must have reached the expected bandwidth. Here only slow values agree with each other.
    let busbw = [0.515, 0.00117, 0.813, 0.00117, 0.00118, 0.21, 0.34, 0.00117];
    let pairs = [(0, 3), (1, 2), (1, 3), (0, 2), (2, 3), (0, 1), (0, 3), (1, 2)];
    let name = |node: usize| cluster(4)[node].clone();
    let tried: Vec<_> = pairs
        .iter()
        .zip(busbw)
        .map(|((a, b), busbw)| Tried { a: name(*a), b: name(*b), outcome: SweepOutcome::Measured { busbw } })
        .collect();
    let options = PairOptions { tolerance: 0.7, ..PairOptions::default() };
    for count in 5..=8 {
        let located = from_tried(&cluster(4), &tried[..count], &options);
        assert_eq!((named(&located), located.healthy), (vec![2], false), "{count} results: {located:?}");
    }
}

#[test]
fn a_cluster_of_two_nodes_and_pairs_that_could_not_run_are_undecided() {
    let (located, _) = sweep(2, |_, _, _| Some(40.0));
    assert!(located.suspects.is_empty());
    let void = SweepOutcome::Void { why: "no time".to_owned() };
    let tried: Vec<_> = next_pairs(&cluster(4), &[], &[], &PairOptions::default(), 99)
        .into_iter()
        .map(|(a, b)| Tried { a, b, outcome: void.clone() })
        .collect();
    let located = from_tried(&cluster(4), &tried, &PairOptions::default());
    assert!(!located.healthy && located.undecided.is_some());
}

#[test]
fn an_unmeasured_member_is_undecided() {
    // Two nodes cannot run pairs, because another job uses them.
    let taken = |a: usize, b: usize| [a, b].iter().any(|end| [2, 5].contains(end));
    let (located, tried) = sweep(8, |_, a, b| Some(if taken(a, b) { -1.0 } else { 90.0 }));
    assert_eq!((named(&located), located.healthy), (vec![], false));
    let undecided = located.undecided.unwrap();
    assert_eq!(undecided, "unknown: n002, n005; no pair of these members was measured (PREEMPTED)");
    let of = |node: &str| tried.iter().filter(|pair| pair.a == node || pair.b == node).count();
    assert_eq!((of("n002"), of("n005")), (6, 6), "no further pair is planned for them");
    // Both nodes work again later, and one of them is slow.
    let (located, _) = sweep(8, |number, a, b| {
        let slow = if a == 5 || b == 5 { 40.0 } else { 90.0 };
        Some(if taken(a, b) && number < 9 { -1.0 } else { slow })
    });
    assert_eq!((named(&located), located.undecided), (vec![5], None));
    // The maximum of two pairs leaves the other members without a measured pair.
    let few = next_pairs(&cluster(8), &[], &[], &PairOptions::default(), 2);
    let measured = |(a, b): (String, String)| Tried { a, b, outcome: SweepOutcome::Measured { busbw: 90.0 } };
    let tried: Vec<_> = few.into_iter().map(measured).collect();
    let located = from_tried(&cluster(8), &tried, &PairOptions::default());
    assert!(!located.healthy && located.undecided.is_some_and(|why| why.contains("n002, n003, n004, n005")));
}

#[test]
fn the_number_of_tests_is_limited() {
    let members = cluster(100);
    assert_eq!(next_pairs(&members, &[], &[], &PairOptions::default(), 7).len(), 7);
}

proptest! {
    /// Named nodes are bad, and few bad nodes are missed without a report.
    #[test]
    fn several_bad_nodes_are_named(nodes in 8usize..64, bad in proptest::collection::btree_set(0usize..64, 1..4)) {
        let bad: BTreeSet<usize> = bad.into_iter().filter(|bad| *bad < nodes).collect();
        let (located, _) = sweep(nodes, |_, a, b| Some(if bad.contains(&a) || bad.contains(&b) { 30.0 } else { 90.0 }));
        let named: BTreeSet<usize> = named(&located).into_iter().collect();
        prop_assert!(named.is_subset(&bad), "{named:?} of {bad:?}");
        prop_assert!(named == bad || located.undecided.is_some() || !located.links.is_empty(), "{located:?}");
    }
}

/// Mean number of pairs, and the number of correct results, of 100 sweeps with one bad node and 5 % wrong outcomes.
fn noisy_sweeps(nodes: usize, prior: impl Fn(usize) -> Vec<usize>) -> (f64, usize) {
    let (mut pairs, mut right) = (0, 0);
    for seed in 0..100 {
        let bad = (seed * 37 + 11) % nodes;
        let busbw = |test: usize, a: usize, b: usize| {
            let mut random = model::SplitMix64((seed * 100_003 + test) as u64);
            let is_wrong = random.part() < 0.05;
            Some(if (a == bad || b == bad) != is_wrong { 40.0 } else { 90.0 })
        };
        let (located, tried) = sweep_with_prior(nodes, &prior(bad), busbw);
        pairs += tried.len();
        right += usize::from(named(&located) == [bad]);
    }
    (pairs as f64 / 100.0, right)
}

#[test]
fn evidence_on_the_bad_node_saves_a_third_of_the_pairs_and_on_a_good_node_costs_two_at_most() {
    for nodes in [24, 61, 232] {
        let (without, right) = noisy_sweeps(nodes, |_| Vec::new());
        let (helped, helped_right) = noisy_sweeps(nodes, |bad| vec![bad]);
        let (misled, misled_right) = noisy_sweeps(nodes, |bad| vec![(bad + nodes / 3) % nodes]);
        let text = format!(
            "{nodes} nodes: {without} pairs without, {helped} with, {misled} with wrong evidence; {right}, {helped_right}, {misled_right} right"
        );
        println!("{text}");
        assert!(helped <= 2.0 * without / 3.0 && misled <= without + 2.0, "{text}");
        assert!(nodes != 61 || helped <= without / 2.0, "{text}");
        assert!(helped_right + 3 >= right && misled_right + 3 >= right, "{text}");
    }
    // These sweeps have no wrong outcomes.
    for nodes in [24, 61, 232] {
        let pairs = |suspected: &[usize]| {
            let slow = |_, a, b| Some(if a == 7 || b == 7 { 40.0 } else { 90.0 });
            let (located, tried) = sweep_with_prior(nodes, suspected, slow);
            assert_eq!((named(&located), located.undecided), (vec![7], None));
            tried.len()
        };
        assert!(pairs(&[7]) <= pairs(&[]).div_ceil(2) + 2, "{nodes}: {} {}", pairs(&[7]), pairs(&[]));
        assert!(pairs(&[3]) <= pairs(&[]) + 2 && pairs(&[1, 3, 5]) <= pairs(&[]) + 2);
        // Evidence against most members is no evidence about a single one.
        assert_eq!(pairs(&(0..nodes).collect::<Vec<_>>()), pairs(&[]));
    }
    // A second bad node without evidence is located as well.
    let slow = |_, a, b| Some(if [a, b].iter().any(|it| [5, 12].contains(it)) { 40.0 } else { 90.0 });
    assert_eq!(named(&sweep_with_prior(24, &[5], slow).0), [5, 12]);
}
