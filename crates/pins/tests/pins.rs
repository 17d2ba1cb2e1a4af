//! Pins stay readable after concurrent writes.

use std::sync::Arc;

use ledger::{MemoryStore, Store};
use model::Timestamp;
use pins::{DecidedBy, NewPin, PinError, PinOutcome, Pins};
use verdict::{Baseline, Fingerprint, pin::PinSource};

fn baseline(runs: u32) -> Baseline {
    Baseline {
        schema: "burnin/baseline/v1".to_owned(),
        fingerprint: Fingerprint([("ranks".to_owned(), "16".to_owned())].into()),
        runs,
        plateau_spread: 0.002,
        levels: vec![0.0],
        repeats_within: None,
        metrics: Vec::new(),
        fleets: Vec::new(),
        points: Vec::new(),
    }
}

fn pinned(run: &str) -> NewPin {
    NewPin { run: run.parse().unwrap(), source: PinSource::Run, baseline: baseline(1) }
}

fn who(by: &str, at: i64) -> DecidedBy {
    DecidedBy { by: by.to_owned(), at: Timestamp::from_millis(at), why: "new firmware".to_owned() }
}

async fn objects(store: &MemoryStore) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in store.list("baselines/").await.unwrap() {
        found.push((name.clone(), store.read(&name).await.unwrap().unwrap().to_vec()));
    }
    found.sort();
    found
}

#[tokio::test]
async fn the_newest_decision_is_in_force_and_the_others_are_unchanged() {
    let store = Arc::new(MemoryStore::default());
    let pins = Pins::new(store.clone());
    assert_eq!(pins.active_pin("w").await.unwrap(), None);
    assert_eq!(pins.history("w").await.unwrap(), None);
    assert_eq!(pins.release("w", who("ann", 1)).await.unwrap(), PinOutcome::Never);

    assert_eq!(pins.pin("w", pinned("w-1"), who("ann", 1)).await.unwrap(), PinOutcome::Now);
    let first = objects(&store).await;
    assert_eq!(pins.pin("w", pinned("w-1"), who("bob", 2)).await.unwrap(), PinOutcome::Before);
    assert_eq!(objects(&store).await, first, "the same pin again writes no entry");
    let in_force = pins.active_pin("w").await.unwrap().unwrap();
    assert_eq!((in_force.pin.number, in_force.pin.by.as_str(), in_force.baseline), (1, "ann", baseline(1)));
    assert_eq!(in_force.pin.to_string(), "w-1, which ann pinned on 1970-01-01 (number 1): new firmware");

    let learned = NewPin { source: PinSource::Learned, baseline: baseline(7), ..pinned("w-1") };
    assert_eq!(pins.pin("w", learned, who("bob", 3)).await.unwrap(), PinOutcome::Now, "another reference");
    assert_eq!(pins.active_pin("w").await.unwrap().unwrap().baseline.runs, 7);
    assert_eq!(pins.release("w", who("eve", 4)).await.unwrap(), PinOutcome::Now);
    assert_eq!(pins.release("w", who("eve", 5)).await.unwrap(), PinOutcome::Before);
    assert_eq!(pins.active_pin("w").await.unwrap(), None);
    assert_eq!(pins.pin("w", pinned("w-1"), who("ann", 6)).await.unwrap(), PinOutcome::Now);

    let history = pins.history("w").await.unwrap().unwrap();
    let changes: Vec<_> = history
        .history
        .iter()
        .map(|noted| (noted.number, noted.change.as_str(), noted.by.as_str()))
        .collect();
    assert_eq!(
        changes,
        [(1, "pinned", "ann"), (2, "pinned", "bob"), (3, "released", "eve"), (4, "pinned", "ann")]
    );
    assert_eq!(history.pin.as_ref(), history.history.last());
    assert_eq!(objects(&store).await[0], first[0], "no entry was rewritten");
    assert_eq!(pins.all().await.unwrap(), [history]);
}

#[tokio::test]
async fn concurrent_decisions_are_both_recorded() {
    let store = Arc::new(MemoryStore::default());
    let runs: Vec<String> = (0..8).map(|number| format!("w-{number}")).collect();
    let pins = Pins::new(store.clone());
    let mut rivals = tokio::task::JoinSet::new();
    for run in &runs {
        let (pins, run) = (pins.clone(), pinned(run));
        rivals.spawn(async move { pins.pin("w", run, who("ann", 1)).await.unwrap() });
    }
    while let Some(decided) = rivals.join_next().await {
        assert_eq!(decided.unwrap(), PinOutcome::Now);
    }
    let history = pins.history("w").await.unwrap().unwrap().history;
    assert_eq!(history.iter().map(|noted| noted.number).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
    let mut kept: Vec<_> = history.iter().map(|noted| noted.run.as_ref().unwrap().to_string()).collect();
    kept.sort();
    assert_eq!(kept, runs);
}

#[tokio::test]
async fn an_invalid_entry_is_reported() {
    let store = Arc::new(MemoryStore::default());
    let pins = Pins::new(store.clone());
    pins.pin("w", pinned("w-1"), who("ann", 1)).await.unwrap();
    for (number, body) in [
        (2, "{".to_owned()),
        (
            3,
            r#"{"format":2,"number":3,"by":"a","at":"2026-01-01T00:00:00Z","why":"","change":"released"}"#
                .to_owned(),
        ),
    ] {
        let name = format!("baselines/w/{number:010}.json");
        store.create(&name, body.into()).await.unwrap();
        let refused = pins.active_pin("w").await.unwrap_err();
        assert!(matches!(&refused, PinError::Damaged { name: damaged, .. } if *damaged == name), "{refused}");
    }
}
