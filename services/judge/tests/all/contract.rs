//! Each command of a fixture results in the fixture's facts.

use std::{io::Cursor, sync::Arc};

use crate::support::{four_gpus, log_of};
use judge::Judge;
use ledger::{Artefacts, Committed, Digest, MemoryStore, Store};
use model::{Attempt, CommandId, Stage, Timestamp, Verdict, VerdictReached};
use test_support::contract::TestedService;
use verdict::Fingerprint;
use warehouse::{Load, Warehouse, memory::Memory};

const SERVICE: &str = "judge";

fn service(store: Arc<MemoryStore>) -> TestedService {
    with_past(store, Arc::default())
}

fn with_past(store: Arc<MemoryStore>, past: Arc<Memory>) -> TestedService {
    TestedService::new(|_| Judge::new(Artefacts::new(store), past))
}

/// A bucket with the committed logs of a case's command: one log with a table, one without.
async fn committed(case: &str) -> (Arc<MemoryStore>, Committed) {
    let id: CommandId =
        test_support::contract::command(SERVICE, case)["id"].as_str().unwrap().parse().unwrap();
    let id = CommandId { stage: Stage::Logs, ..id };
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let mut objects = Vec::new();
    for (name, body) in [("1/node-0.log", log_of(case)), ("1/node-1.log", b"nothing to say\n".to_vec())] {
        objects.push(artefacts.put(&id, name, Box::new(Cursor::new(body))).await.unwrap());
    }
    let committed = artefacts.commit(&id, objects).await.unwrap();
    (store, committed)
}

/// The bucket of a case. Checks that the bucket contains the logs that the case's command names.
async fn run_case(case: &str) -> Arc<MemoryStore> {
    let (store, committed) = committed(case).await;
    let logs = &test_support::contract::command(SERVICE, case)["data"]["logs"];
    assert_eq!(logs["manifest"], committed.name);
    assert_eq!(logs["sha256"], committed.digest.sha256, "the fixture names another manifest");
    store
}

/// Replaces the bytes of an object.
async fn replace(store: &MemoryStore, name: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let before = store.read(name).await.unwrap().unwrap().to_vec();
    store.remove(name).await.unwrap();
    store.create(name, change(before).into()).await.unwrap();
}

fn one_byte_changed(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    bytes
}

#[tokio::test]
async fn a_changed_log_is_reported_as_damage() {
    let store = run_case("log-damaged").await;
    replace(&store, "artefacts/damaged-1/logs/1/1/node-0.log", one_byte_changed).await;
    service(store).honours_twice("log-damaged").await;
}

#[tokio::test]
async fn logs_without_their_manifest_are_reported_as_damage() {
    let store = run_case("manifest-missing").await;
    store.remove("artefacts/missing-1/logs/1/manifest.json").await.unwrap();
    service(store).honours_twice("manifest-missing").await;
}

#[tokio::test]
async fn a_replaced_manifest_is_reported_as_damage_even_if_it_matches_its_logs() {
    let store = run_case("manifest-replaced").await;
    let fewer = |bytes: Vec<u8>| {
        let mut manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        manifest["objects"].as_array_mut().unwrap().pop();
        serde_json::to_vec(&manifest).unwrap()
    };
    replace(&store, "artefacts/replaced-1/logs/1/manifest.json", fewer).await;
    service(store).honours_twice("manifest-replaced").await;
}

#[tokio::test]
async fn a_healthy_log_passes_and_the_complete_verdict_is_stored() {
    let store = run_case("pass").await;
    service(store.clone()).honours_twice("pass").await;
    let stored = store.read("artefacts/quickstart-1/verdict/1/verdict.json").await.unwrap().unwrap();
    let verdict: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!((&verdict["schema"], &verdict["verdict"]), (&"burnin/verdict/v1".into(), &"pass".into()));
    let expected = test_support::contract::facts(SERVICE, "pass");
    assert_eq!(
        expected["facts"][0]["data"]["log_sha256"],
        Digest::of(&test_support::contract::log()).sha256,
        "the verdict names the log with the table"
    );
    assert_eq!(verdict["reasons"], expected["facts"][0]["data"]["reasons"]);
}

#[tokio::test]
async fn a_slow_log_fails_and_a_log_with_missing_ranks_is_inconclusive() {
    service(run_case("fail").await).honours_twice("fail").await;
    service(run_case("inconclusive").await).honours_twice("inconclusive").await;
}

/// An earlier run with all times of the log multiplied by `slower`.
fn past_run(number: i64, slower: f64) -> Load {
    let facts = test_support::contract::facts(SERVICE, "own-past");
    let reached = serde_json::from_value(facts["facts"][0]["data"].clone()).unwrap();
    let run = format!("past-{number}").parse().unwrap();
    let mut load = Load::of(&run, ("four-gpus", None), Attempt::FIRST, Some(Timestamp::from_millis(number)));
    let mut reading = nccl::read_bytes(&four_gpus());
    for row in &mut reading.tables[0].rows {
        for half in row.out_of_place.iter_mut().chain(&mut row.in_place) {
            half.time_us *= slower;
        }
    }
    load.log("1/node-0.log", &reading);
    let reached = VerdictReached { verdict: Verdict::Pass, ..reached };
    let identity = Fingerprint(reached.fingerprint.clone()).identity();
    load.judged(Some(&reached), &identity)
}

#[tokio::test]
async fn five_passed_runs_form_a_baseline_and_a_slower_run_fails_against_it() {
    let past = Arc::<Memory>::default();
    // The times in the case's log are 5 % longer than those of each of these runs.
    for number in 0..5 {
        past.load(&number.to_string(), &past_run(number, 1.0 / 1.05)).await.unwrap();
    }
    let store = run_case("own-past").await;
    with_past(store.clone(), past.clone()).honours_twice("own-past").await;
    let stored = store.read("artefacts/past-9/verdict/1/verdict.json").await.unwrap().unwrap();
    let stored: judge::Stored = serde_json::from_slice(&stored).unwrap();
    assert_eq!(stored.judgement.reasons[0].code, "BELOW_BASELINE");
    assert_eq!(stored.judged_by.unwrap().runs, 5, "the baseline is stored with its verdict");

    past.set_unavailable(true);
    let repeated = with_past(store, past.clone()).deliver("own-past").await;
    assert_eq!(repeated["answer"], "done", "a stored verdict does not depend on the history");
    let fresh = with_past(run_case("own-past").await, past).deliver("own-past").await;
    assert!(
        fresh["answer"]["retry"].is_string() || fresh["facts"][0]["type"] == "dev.burnin.verdict.failed.v1"
    );
}

#[tokio::test]
async fn no_baseline_is_learned_from_four_passed_runs() {
    let past = Arc::<Memory>::default();
    for number in 0..4 {
        past.load(&number.to_string(), &past_run(number, 1.0 / 1.05)).await.unwrap();
    }
    let answer = with_past(run_case("own-past").await, past).deliver("own-past").await;
    assert_eq!(answer["facts"][0]["data"]["verdict"], "pass");
}

/// Verdict of the case after earlier runs. `past`: duration of each earlier run, relative to a fast run.
async fn after(past: &[f64]) -> (String, Vec<(String, String)>) {
    let history = Arc::<Memory>::default();
    let runs = past.iter().zip(0..);
    for (times, number) in runs {
        history.load(&number.to_string(), &past_run(number, times / 1.05)).await.unwrap();
    }
    let answer = with_past(run_case("own-past").await, history).deliver("own-past").await;
    let data = &answer["facts"][0]["data"];
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let reasons = data["reasons"].as_array().unwrap().iter();
    let reasons = reasons.map(|reason| (text(&reason["code"]), text(&reason["text"]))).collect();
    (text(&data["verdict"]), reasons)
}

fn text_of<'a>(reasons: &'a [(String, String)], code: &str) -> Option<&'a str> {
    reasons.iter().find(|reason| reason.0 == code).map(|reason| reason.1.as_str())
}

#[tokio::test]
async fn earlier_runs_on_another_level_are_dropped_and_named() {
    let (verdict, reasons) = after(&[1.0, 1.0, 2.0, 1.0, 1.0, 1.0]).await;
    assert_eq!((verdict.as_str(), reasons[0].0.as_str()), ("fail", "BELOW_BASELINE"));
    let text = text_of(&reasons, "OUTLIERS_LEFT_OUT").unwrap();
    assert!(text.starts_with("1 of 6 earlier runs") && text.contains("past-2 ("), "{text}");
    let (_, reasons) = after(&[1.0; 6]).await;
    assert_eq!(text_of(&reasons, "OUTLIERS_LEFT_OUT"), None);
}

#[tokio::test]
async fn slow_first_runs_neither_define_nor_prevent_a_baseline() {
    // The first runs pass at half speed, and later runs follow a repair.
    for beginning in [1, 2, 3, 4, 5, 8] {
        let past: Vec<_> = [2.0; 8].into_iter().take(beginning).chain([1.0; 6]).collect();
        let (verdict, reasons) = after(&past).await;
        assert_eq!(
            (verdict.as_str(), reasons[0].0.as_str()),
            ("fail", "BELOW_BASELINE"),
            "{beginning}: {reasons:?}"
        );
    }
}

#[tokio::test]
async fn a_faster_cluster_keeps_its_baseline_until_the_new_level_repeats() {
    for (faster, slower) in [(0, "5.0 %"), (1, "5.0 %"), (4, "5.0 %"), (5, "16.7 %"), (12, "16.7 %")] {
        let past: Vec<_> = [1.0; 6].into_iter().chain([0.9; 12].into_iter().take(faster)).collect();
        let (verdict, reasons) = after(&past).await;
        assert_eq!((verdict.as_str(), reasons[0].0.as_str()), ("fail", "BELOW_BASELINE"), "{faster}");
        assert!(reasons[0].1.contains(&format!("takes {slower} longer")), "{faster}: {}", reasons[0].1);
    }
}

#[tokio::test]
async fn no_baseline_is_learned_from_runs_that_do_not_repeat() {
    let flapping = |runs: usize| [1.0, 2.0].into_iter().cycle().take(runs).collect::<Vec<_>>();
    // Nine runs are below the minimum.
    let (verdict, reasons) = after(&flapping(9)).await;
    assert_eq!((verdict.as_str(), reasons.len()), ("pass", 1), "{reasons:?}");
    for runs in [10, 20, 30] {
        let (verdict, reasons) = after(&flapping(runs)).await;
        assert_eq!((verdict.as_str(), reasons[0].0.as_str()), ("inconclusive", "UNSTABLE_BASELINE"));
        let text = &reasons[0].1;
        assert!(text.contains("do not repeat") && text.contains("burnin baseline pin"), "{text}");
        assert!(text.contains(&format!("{} at ", runs.min(20) / 2)), "{text}");
    }
}

#[tokio::test]
async fn another_judge_reaches_the_same_verdict() {
    let store = run_case("pass").await;
    let first = service(store.clone()).deliver("pass").await;
    let second = service(store).deliver("pass").await;
    assert_eq!(first, second);
}

#[tokio::test]
async fn events_for_other_services_are_parked_by_the_judge() {
    service(Arc::default()).foreign_events_are_parked().await;
}
