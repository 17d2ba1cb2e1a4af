//! Concurrent facts in any order, to several conductors, over an unreliable store.

use crate::support::*;
use model::*;
use service::{Clock, Event};

const SEEDS: u64 = 50;

#[tokio::test]
async fn an_unreliable_store_neither_loses_nor_duplicates_records() {
    for seed in 0..SEEDS {
        let bed = Conductors::over(FaultyStore::new(StoreFaults::WrongResponses(SeededRandom::new(seed))));
        let conductor = bed.conductor();
        for event in [requested()].into_iter().chain(answers()) {
            deliver(&conductor, &event).await;
        }
        let records = bed.records().await;
        assert_eq!(records.len(), 12, "seed {seed}");
        assert_sound(&records);
        assert_eq!(bed.bus.commands(), COMMANDS, "seed {seed}");
        assert_eq!(bed.bus.closings().len(), 1, "seed {seed}");
        assert_eq!(bed.hints().await, [], "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_conductors_and_shuffled_facts_produce_one_ledger() {
    for seed in 0..SEEDS {
        check_shuffled_facts(seed, StoreFaults::Nothing).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_conductors_and_shuffled_facts_over_an_unreliable_store_produce_one_ledger() {
    for seed in 0..SEEDS {
        check_shuffled_facts(seed, StoreFaults::WrongResponses(SeededRandom::new(seed + SEEDS))).await;
    }
}

async fn check_shuffled_facts(seed: u64, faults: StoreFaults) {
    let bed = Conductors::over(FaultyStore::new(faults));
    let conductors = [bed.conductor(), bed.conductor()];
    // Facts that arrive before the run's request are parked, so the request is delivered first, to both conductors
    // concurrently.
    let request = requested();
    tokio::join!(deliver(&conductors[0], &request), deliver(&conductors[1], &request));

    let mut deliveries: Vec<(usize, Event)> =
        answers().into_iter().flat_map(|event| [(0, event.clone()), (1, event)]).collect();
    SeededRandom::new(seed).shuffle(&mut deliveries);
    let mut tasks = tokio::task::JoinSet::new();
    for (number, event) in deliveries {
        let conductor = conductors[number].clone();
        tasks.spawn(async move { deliver(&conductor, &event).await });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap_or_else(|panic| panic!("seed {seed}: {panic}"));
    }

    // A confirmation before the cluster exists does not count, so the command is sent again.
    for round in 0..20 {
        if bed.hints().await.is_empty() {
            break;
        }
        assert!(round < 19, "seed {seed}: timeout: the run is not closed: {:?}", bed.state().await);
        if !bed.state().await.leases_returned() {
            assert!(bed.bus.commands().contains(&"cluster.1.delete".to_owned()), "seed {seed}");
            bed.clock.advance(Span::from_millis(10));
            deliver(&conductors[round % 2], &event("provisioner", deleted(bed.clock.now()))).await;
        }
        for conductor in &conductors {
            conductor.tick().await.ok(); // an unreliable store may fail the tick; another tick follows
        }
    }

    let records = bed.records().await;
    assert_sound(&records);
    assert!(records.len() <= 14, "seed {seed}: expected at most 14 records, found {}", records.len());
    let state = bed.state().await;
    assert_eq!(state.verdict().map(|verdict| verdict.verdict), Some(Verdict::Pass), "seed {seed}");
    let closings = bed.bus.closings();
    assert!(!closings.is_empty(), "seed {seed}: the end was not published");
    assert!(
        closings.iter().all(|closing| *closing == closings[0]),
        "seed {seed}: the publications of the end differ"
    );
    let commands = bed.bus.commands();
    for command in &commands {
        // A cluster that reappears after its confirmed deletion is released again.
        let most = if command == "cluster.1.delete" { 2 * 3 } else { 2 };
        let times = commands.iter().filter(|other| *other == command).count();
        assert!(times <= most, "seed {seed}: two conductors sent {command} {times} times");
        assert!(
            COMMANDS.contains(&&**command) || command.ends_with(".observe"),
            "seed {seed}: unexpected command {command}"
        );
    }
}
