//! Pairs of nodes.

use std::collections::BTreeSet;

use model::pair_rounds;

#[test]
fn every_pair_is_measured_once_and_a_node_is_in_one_pair_at_a_time() {
    for nodes in 0..20 {
        let rounds = pair_rounds(nodes, None);
        let mut seen = BTreeSet::new();
        for round in &rounds {
            let mut busy = BTreeSet::new();
            for (a, b) in round {
                assert!(busy.insert(*a) && busy.insert(*b), "{nodes} {rounds:?}");
                assert!(seen.insert((*a.min(b), *a.max(b))), "{nodes} {rounds:?}");
            }
        }
        assert_eq!(seen.len(), nodes * nodes.saturating_sub(1) / 2);
        assert_eq!(pair_rounds(nodes, Some(2)), rounds[..rounds.len().min(2)]);
    }
}
