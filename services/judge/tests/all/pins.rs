//! Pinned baselines.

use std::{io::Cursor, sync::Arc};

use judge::{Judge, Stored};
use ledger::{Artefacts, MemoryStore, Store};
use model::{CommandId, Stage, Timestamp};
use pins::{DecidedBy, NewPin, Pins};
use serde_json::Value;
use test_support::contract::TestedService;
use verdict::{
    Baseline, Fingerprint,
    baseline::{Healthy, learn},
    pin::PinSource,
};
use warehouse::memory::Memory;

/// A bucket with the logs of the case, and a judge without history.
async fn judge() -> (Arc<MemoryStore>, TestedService) {
    let id: CommandId =
        test_support::contract::command("judge", "own-past")["id"].as_str().unwrap().parse().unwrap();
    let id = CommandId { stage: Stage::Logs, ..id };
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let mut objects = Vec::new();
    for (name, body) in
        [("1/node-0.log", crate::support::four_gpus()), ("1/node-1.log", b"nothing to say\n".to_vec())]
    {
        objects.push(artefacts.put(&id, name, Box::new(Cursor::new(body))).await.unwrap());
    }
    artefacts.commit(&id, objects).await.unwrap();
    let judge = Judge::new(artefacts, Arc::<Memory>::default());
    (store, TestedService::new(|_| judge))
}

/// Baseline of the sample log with all times multiplied by `slower`, for a cluster with these fields.
fn curve(slower: f64, fields: &[(&str, &str)]) -> Baseline {
    let mut reading = nccl::read_bytes(&crate::support::four_gpus());
    for half in
        reading.tables[0].rows.iter_mut().flat_map(|row| row.out_of_place.iter_mut().chain(&mut row.in_place))
    {
        // Rounded to the printed number of digits: JSON preserves such values exactly.
        half.time_us = (100.0 * half.time_us * slower).round() / 100.0;
    }
    let fingerprint =
        Fingerprint(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
    learn(&[Healthy { reading: &reading, fingerprint }]).unwrap()
}

async fn pin(store: &Arc<MemoryStore>, run: &str, baseline: Baseline) {
    let pinned = NewPin { run: run.parse().unwrap(), source: PinSource::Run, baseline };
    let who =
        DecidedBy { by: "ann".to_owned(), at: Timestamp::from_millis(0), why: "after the repair".to_owned() };
    Pins::new(store.clone()).pin("four-gpus", pinned, who).await.unwrap();
}

async fn stored(store: &MemoryStore) -> Stored {
    let body = store.read("artefacts/past-9/verdict/1/verdict.json").await.unwrap().unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn codes(answer: &Value) -> Vec<&str> {
    let reasons = answer["facts"][0]["data"]["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason["code"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_run_is_judged_by_the_pin_and_the_verdict_names_it() {
    let (store, judge) = judge().await;
    pin(&store, "four-gpus-1", curve(1.0, &[])).await;
    pin(&store, "four-gpus-2", curve(1.0 / 1.05, &[])).await;
    let answer = judge.deliver("own-past").await;
    assert_eq!(answer["facts"][0]["data"]["verdict"], "fail", "{answer}");
    assert!(codes(&answer).contains(&"BELOW_BASELINE") && codes(&answer).contains(&"PINNED"), "{answer}");
    let first = stored(&store).await;
    let pin_used = first.pin.clone().unwrap();
    assert_eq!((pin_used.number, pin_used.run.as_str(), pin_used.by.as_str()), (2, "four-gpus-2", "ann"));
    assert_eq!(
        first.judged_by,
        Some(curve(1.0 / 1.05, &[])),
        "the complete baseline is stored with the verdict"
    );

    // A verdict is final: later pins do not change it.
    pin(&store, "four-gpus-3", curve(1.0, &[])).await;
    assert_eq!(judge.deliver("own-past").await, answer);
    assert_eq!(stored(&store).await, first);
}

#[tokio::test]
async fn a_released_pin_is_not_used() {
    let (store, judge) = judge().await;
    pin(&store, "four-gpus-2", curve(1.0 / 1.05, &[])).await;
    let who = DecidedBy { by: "eve".to_owned(), at: Timestamp::from_millis(1), why: String::new() };
    Pins::new(store.clone()).release("four-gpus", who).await.unwrap();
    let answer = judge.deliver("own-past").await;
    assert_eq!((&answer["facts"][0]["data"]["verdict"], stored(&store).await.pin), (&"pass".into(), None));
}

#[tokio::test]
async fn a_pin_with_another_fingerprint_is_inconclusive() {
    let (store, judge) = judge().await;
    pin(&store, "four-gpus-2", curve(1.0, &[("ranks", "4096")])).await;
    let answer = judge.deliver("own-past").await;
    assert_eq!(answer["facts"][0]["data"]["verdict"], "inconclusive", "{answer}");
    let text = answer["facts"][0]["data"]["reasons"][0]["text"].as_str().unwrap();
    assert!(text.contains("was 4096 when the baseline was learned: release its pin"), "{text}");
}

#[tokio::test]
async fn an_unreadable_pin_is_an_error() {
    let (store, judge) = judge().await;
    store.create("baselines/four-gpus/0000000001.json", "{}".into()).await.unwrap();
    let answer = judge.deliver("own-past").await;
    let failure = &answer["facts"][0]["data"];
    assert_eq!(
        (&failure["code"], &failure["class"]),
        (&"BASELINE_UNREADABLE".into(), &"input".into()),
        "{answer}"
    );
}
