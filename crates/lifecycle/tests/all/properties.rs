//! Properties of every run, for any order and repetition of its facts.

use crate::support::*;
use lifecycle::{fold, wake};
use model::*;
use proptest::prelude::*;

/// A workflow with a single benchmark or several checks, then up to 40 expected facts in order and up to 60 random facts, for any of three
/// attempts and checks, with time passing between them.
fn random_run() -> impl Strategy<Value = RandomRun> {
    let fact = 0..every_fact().len();
    let number = prop_oneof![3 => Just(1u32), 1 => 2..=3u32];
    let attempt = (0..3u16, number).prop_map(|(check, number)| Attempt { check: CheckIndex(check), number });
    let facts = prop::collection::vec((fact, attempt, prop_oneof![Just(0u64), 1..4000u64]), 0..60);
    let workflow = prop_oneof![
        Just(workflow()),
        Just(searching()),
        Just(with_checks(&["", "", "a"])),
        Just(Workflow { locate: Some(Locate::default()), ..with_checks(&["", "a", ""]) }),
    ];
    // Without a sequence of expected facts, a run with several checks would not advance.
    let expected =
        prop::collection::vec((0..successful_facts().len() - 1, 0..3u16), 0..40).prop_map(|picks| {
            let at = |fact: &Fact| every_fact().iter().position(|other| other == fact).expect("a known fact");
            let (facts, mut picks) = (successful_facts(), picks);
            picks.sort_by_key(|(fact, check)| if *fact < 4 { (0, *fact) } else { (1 + check, *fact) });
            let fact = |(fact, check): (usize, u16)| {
                let check = CheckIndex(if fact < 4 { 0 } else { check });
                (at(&facts[fact]), Attempt::first_of(check), 0u64)
            };
            picks.into_iter().map(fact).collect::<Vec<_>>()
        });
    (workflow, expected, facts).prop_map(|(workflow, expected, facts)| RandomRun {
        workflow,
        facts: expected.into_iter().chain(facts).collect(),
    })
}

#[derive(Clone, Debug)]
struct RandomRun {
    workflow: Workflow,
    facts: Vec<(usize, Attempt, u64)>,
}

fn drive(random_run: &RandomRun) -> TestLedger {
    let facts = every_fact();
    let mut ledger = TestLedger::open(random_run.workflow.clone());
    for (fact, attempt, seconds) in &random_run.facts {
        ledger.tick(*seconds);
        let fact = match &facts[*fact] {
            Fact::ClusterDeleted(_) => deleted(ledger.now),
            fact => fact.clone(),
        };
        ledger.feed_at(*attempt, fact);
    }
    ledger
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_the_facts_of_one_attempt_folds_to_the_same_state(
        order in Just((0..successful_facts().len() - 1).collect::<Vec<_>>()).prop_shuffle()
    ) {
        let facts = successful_facts();
        let (gone, work) = facts.split_last().unwrap();
        let mut in_order = TestLedger::open(workflow());
        let mut shuffled = TestLedger::open(workflow());
        for fact in work {
            in_order.deliver(1, fact.clone());
        }
        for index in order {
            shuffled.deliver(1, work[index].clone());
        }
        // The deletion can be confirmed only for a cluster that was created.
        in_order.deliver(1, gone.clone());
        shuffled.deliver(1, gone.clone());
        prop_assert_eq!(in_order.state, shuffled.state);
    }

    #[test]
    fn duplicated_facts_fold_to_the_same_state(copies in prop::collection::vec(1..4usize, successful_facts().len())) {
        let mut once = TestLedger::open(workflow());
        let mut often = TestLedger::open(workflow());
        for (fact, copies) in successful_facts().into_iter().zip(copies) {
            once.deliver(1, fact.clone());
            for _ in 0..copies {
                often.deliver(1, fact.clone());
            }
        }
        prop_assert_eq!(&once.records, &often.records);
        prop_assert_eq!(once.state, often.state);
    }

    #[test]
    fn no_fact_causes_a_panic_and_a_replay_results_in_the_same_state(random_run in random_run()) {
        let ledger = drive(&random_run);
        let folded = fold(&ledger.records).unwrap();
        prop_assert_eq!(&folded, &ledger.state);
        let text = serde_json::to_string(&ledger.records).unwrap();
        let read: Vec<Record> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(fold(&read).unwrap(), ledger.state);
    }

    #[test]
    fn an_unfinished_run_has_a_pending_command_or_a_wake_time(random_run in random_run()) {
        let ledger = drive(&random_run);
        let idle = ledger.owes().is_empty();
        let waits = wake(&ledger.state, ledger.now).is_some();
        let done = ledger.state.closed.is_some() && ledger.state.leases_returned();
        prop_assert!(!idle || waits || done, "{:#?}", ledger.state);
        prop_assert!(!(done && (!idle || waits)) || ledger.state.abandoned().next().is_some());
    }

    #[test]
    fn an_undisturbed_run_always_closes(random_run in random_run()) {
        let mut ledger = drive(&random_run);
        // The workers confirm teardowns and send no other facts.
        for _ in 0..200 {
            for owed in ledger.owes() {
                let attempt: Attempt = owed.split('.').nth(1).unwrap().parse().unwrap();
                match owed.split('.').next().unwrap() {
                    "cluster" if owed.ends_with("delete") => ledger.feed_at(attempt, deleted(ledger.now)),
                    "image" if owed.ends_with("cancel") => {
                        ledger.feed_at(attempt, Fact::ImageFailed(failure(Class::Cancelled)))
                    }
                    "job" if owed.ends_with("cancel") => {
                        ledger.feed_at(attempt, Fact::JobFailed(failure(Class::Cancelled)))
                    }
                    "locate" if owed.ends_with("cancel") => {
                        ledger.feed_at(attempt, Fact::NodesFailed(failure(Class::Cancelled)))
                    }
                    _ => None,
                };
            }
            ledger.tick(3600);
        }
        prop_assert!(ledger.state.closed.is_some(), "owes {:?}", ledger.owes());
        prop_assert!(ledger.state.leases_returned());
        prop_assert_eq!(ledger.owes(), Vec::<String>::new());
    }

    #[test]
    fn a_lease_is_never_lost_or_duplicated(random_run in random_run()) {
        let ledger = drive(&random_run);
        // At most one cluster is requested at a time: that of the current attempt.
        let wanted = ledger.state.leases.keys().filter(|attempt| ledger.state.needs_lease(**attempt)).count();
        prop_assert!(wanted <= 1);
        let start_owed = ledger.owes().iter().any(|owed| owed.starts_with("cluster") && owed.ends_with("start"));
        if start_owed {
            let others = ledger.state.leases.iter().filter(|(attempt, lease)| {
                **attempt != ledger.state.attempt(Stage::Cluster) && lease.state != lifecycle::LeaseState::Returned
            });
            prop_assert_eq!(others.count(), 0, "a second cluster would be requested");
        }
    }
}
