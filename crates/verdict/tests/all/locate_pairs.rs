//! Bad members and bad links, from pairs.

use proptest::prelude::*;
use verdict::locate::{Located, Members, PairOptions, PairResult, from_pairs};

fn result(a: usize, b: usize, busbw: f64) -> PairResult {
    PairResult { a: format!("n{a:03}"), b: format!("n{b:03}"), busbw, ok: true }
}

fn hosts(located: &Located) -> Vec<String> {
    let mut hosts: Vec<String> = located.suspects.iter().filter_map(|suspect| suspect.host.clone()).collect();
    hosts.sort();
    hosts
}

/// Every pair of `members` members; `busbw` returns the bandwidth of a pair.
fn all(members: usize, busbw: impl Fn(usize, usize) -> f64) -> Vec<PairResult> {
    let pairs = (0..members).flat_map(|a| (a + 1..members).map(move |b| (a, b)));
    pairs.map(|(a, b)| result(a, b, busbw(a, b))).collect()
}

fn locate(results: &[PairResult]) -> Located {
    from_pairs(results, &PairOptions::default())
}

/// The six pairs of a real host with four GPUs differ by several percent.
#[test]
fn good_pairs_are_healthy() {
    let located = locate(&all(4, |a, b| 330.0 + (a + b) as f64));
    assert!(located.healthy && located.suspects.is_empty() && located.links.is_empty());
}

#[test]
fn bad_members_are_named() {
    for bad in 0..4 {
        let located = locate(&all(4, |a, b| if a == bad || b == bad { 140.0 } else { 330.0 }));
        assert_eq!(hosts(&located), [format!("n{bad:03}")]);
        assert!(located.suspects[0].confidence > 0.9 && located.undecided.is_none());
    }
    let two = locate(&all(6, |a, b| if [1, 4].contains(&a) || [1, 4].contains(&b) { 140.0 } else { 330.0 }));
    assert_eq!(hosts(&two), ["n001", "n004"]);
}

#[test]
fn suspects_are_named_in_the_field_of_their_kind() {
    let mut results = all(5, |a, _| if a == 0 { 1.0 } else { 300.0 });
    for result in &mut results {
        result.a = result.a[3..].to_owned();
        result.b = result.b[3..].to_owned();
    }
    let named = |members| {
        from_pairs(&results, &PairOptions { members, ..PairOptions::default() }).suspects[0].clone()
    };
    assert_eq!(named(Members::Ranks).rank, Some(0));
    assert_eq!(named(Members::BusIds).bus_id.as_deref(), Some("0"));
    assert_eq!(named(Members::Hosts).host.as_deref(), Some("0"));
}

#[test]
fn a_bad_link_is_not_a_bad_member() {
    let mut results = all(6, |a, b| if (a, b) == (1, 3) { 90.0 } else { 330.0 });
    // A single degraded run may be chance.
    let once = locate(&results);
    assert!(!once.healthy && once.suspects.is_empty() && once.links.is_empty());
    assert!(once.undecided.expect("the undecided pair is named").contains("n001 with n003"));
    results.push(result(3, 1, 91.0));
    let twice = locate(&results);
    assert!(!twice.healthy && twice.suspects.is_empty() && twice.undecided.is_none());
    assert_eq!((twice.links[0].a.as_str(), twice.links[0].b.as_str()), ("n001", "n003"));
}

#[test]
fn one_pair_is_undecided() {
    let options = PairOptions { expected_busbw: Some(330.0), ..PairOptions::default() };
    let located = from_pairs(&[result(0, 1, 100.0)], &options);
    assert!(!located.healthy && located.suspects.is_empty() && located.undecided.is_some());
    let mut failed = result(0, 1, 330.0);
    failed.ok = false;
    let located = from_pairs(&[failed.clone(), failed], &options);
    assert!(!located.healthy && located.suspects.is_empty() && located.undecided.is_some());
    assert!(!locate(&[]).healthy);
    assert!(!locate(&[result(1, 1, 300.0)]).healthy);
}

/// Each of 48 nodes is paired with eight others; three nodes are bad, and one result in twenty is wrong.
#[test]
fn several_bad_members_are_named_under_noise() {
    let (mut right, mut wrong, seeds) = (0, 0, 300_u64);
    for seed in 0..seeds {
        let mut random = model::SplitMix64(seed);
        let mut next = || random.number();
        let bad: std::collections::BTreeSet<usize> = (0..3).map(|_| (next() % 48) as usize).collect();
        let mut results = Vec::new();
        for a in 0..48 {
            for step in [1, 5, 11, 17] {
                let b = (a + step) % 48;
                let degraded = (bad.contains(&a) || bad.contains(&b)) != next().is_multiple_of(20);
                results.push(result(a, b, if degraded { 140.0 } else { 330.0 }));
            }
        }
        let located = locate(&results);
        let truth: Vec<String> = bad.iter().map(|member| format!("n{member:03}")).collect();
        let named = hosts(&located);
        assert!(
            named.len() >= truth.len() || located.undecided.is_some(),
            "missed members are reported as undecided"
        );
        right += u64::from(named == truth);
        wrong += u64::from(named.iter().any(|name| !truth.contains(name)));
    }
    println!("3 bad of 48 in 192 noisy pairs: all named in {right} of {seeds}, a good node named in {wrong}");
    assert!(right * 100 >= 97 * seeds && wrong * 100 <= seeds);
}

#[test]
fn pairs_with_an_invalid_bandwidth_are_bad() {
    for nonsense in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -3.0] {
        let located = locate(&all(5, |a, b| if a == 2 || b == 2 { nonsense } else { 330.0 }));
        assert_eq!(hosts(&located), ["n002"]);
        assert!(!locate(&all(3, |_, _| nonsense)).healthy);
    }
}

#[test]
fn one_bad_node_of_five_hundred_is_named() {
    let located = locate(&all(500, |a, b| if a == 77 || b == 77 { 100.0 } else { 330.0 }));
    assert_eq!(hosts(&located), ["n077"]);
}

proptest! {
    #[test]
    fn random_pairs_never_cause_a_panic(
        pairs in prop::collection::vec((0_usize..9, 0_usize..9, any::<f64>(), any::<bool>()), 0..60),
        tolerance in any::<f64>(),
        noise in any::<f64>(),
    ) {
        let pair = |(a, b, busbw, ok)| PairResult { ok, ..result(a, b, busbw) };
        let results: Vec<_> = pairs.into_iter().map(pair).collect();
        let located = from_pairs(&results, &PairOptions { tolerance, noise, ..PairOptions::default() });
        prop_assert!(!located.healthy || located.suspects.is_empty());
        prop_assert!(located.suspects.iter().all(|suspect| (0.0..=1.0).contains(&suspect.confidence)));
    }
}
