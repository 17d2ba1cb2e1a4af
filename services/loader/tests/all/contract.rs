//! Each command of a fixture results in the fixture's facts.

use std::{io::Cursor, sync::Arc};

use ledger::{Artefacts, Committed, MemoryStore, Store};
use loader::Loader;
use model::{
    Class, CommandId, Conclusion, Fact, Failure, Money, NodeResult, NodeResultKind, RunId, RunUsed, Span,
    Stage, Timestamp, Verdict,
};
use service::{CommandError, Worker};
use test_support::contract::TestedService;
use warehouse::{Sqlite, Warehouse, memory::Memory};

const SERVICE: &str = "loader";

fn service(store: Arc<MemoryStore>) -> TestedService {
    loading_into(store, Arc::default())
}

fn loading_into(store: Arc<MemoryStore>, warehouse: Arc<Memory>) -> TestedService {
    TestedService::new(|_| Loader::new(Artefacts::new(store), warehouse))
}

/// A bucket with the committed logs of a case's command: one log with a table, one without.
async fn committed(case: &str) -> (Arc<MemoryStore>, Committed) {
    let id: CommandId =
        test_support::contract::command(SERVICE, case)["id"].as_str().unwrap().parse().unwrap();
    let id = CommandId { stage: Stage::Logs, ..id };
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let mut objects = Vec::new();
    for (name, body) in
        [("1/node-0.log", test_support::contract::log()), ("1/node-1.log", b"nothing to say\n".to_vec())]
    {
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
async fn every_measurement_of_the_logs_is_loaded_once() {
    let warehouse = Arc::<Memory>::default();
    loading_into(run_case("load").await, warehouse.clone()).honours_twice("load").await;
    let rows = warehouse.rows("quickstart-1").await.unwrap();
    assert_eq!(rows.len(), 14, "the log has seven sizes in two placements");
    let first = &rows[0];
    assert_eq!(
        (first.size_bytes, first.placement.as_str(), first.time_us),
        (1_048_576, "out_of_place", 7.11)
    );
    assert_eq!((first.log.as_str(), first.attempt, first.wrong), ("1/node-0.log", 1, Some(0)));
}

#[tokio::test]
async fn a_damaged_log_loads_nothing() {
    let warehouse = Arc::<Memory>::default();
    let store = run_case("log-damaged").await;
    // The second log is the damaged one: the first was read already.
    replace(&store, "artefacts/damaged-1/logs/1/1/node-1.log", one_byte_changed).await;
    let service = loading_into(store, warehouse.clone());
    let answer = service.deliver("log-damaged").await;
    assert_eq!(answer["facts"][0]["type"], "dev.burnin.results.failed.v1");
    assert_eq!(warehouse.rows("damaged-1").await.unwrap(), []);
}

#[tokio::test]
async fn events_for_other_services_are_parked_by_the_loader() {
    service(Arc::default()).foreign_events_are_parked().await;
}

#[tokio::test]
async fn cluster_usage_is_loaded_once_and_again_if_it_grew() {
    let folder = tempfile::tempdir().unwrap();
    let warehouse = Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap();
    let loader = Loader::new(Artefacts::new(Arc::new(MemoryStore::default())), Arc::new(warehouse.clone()));
    let run: RunId = "over-1".parse().unwrap();
    let used = RunUsed {
        workflow: "nightly".to_owned(),
        requested_at: Timestamp::from_millis(1_000),
        closed_at: Timestamp::from_millis(2_000_000),
        conclusion: Conclusion::Completed,
        verdict: Some(Verdict::Pass),
        nodes: 4,
        held: Span::from_secs(1800),
        busy: Span::from_secs(900),
        spent: Some(Money::from_micros(5_000_000)),
        currency: Some("EUR".to_owned()),
        cluster: Some("hall".to_owned()),
        node_results: vec![NodeResult {
            node: "n3".to_owned(),
            result: NodeResultKind::Drained,
            detail: "slow".to_owned(),
        }],
    };
    for _ in 0..2 {
        loader.on_fact(&run, &Fact::RunUsed(Box::new(used.clone()))).await.unwrap();
    }
    let [row] = &warehouse.runs("over-1").await.unwrap()[..] else { panic!("one row") };
    assert_eq!((row.workflow.as_str(), row.conclusion.as_str(), row.nodes), ("nightly", "completed", 4));
    assert_eq!((row.node_hours, row.busy_node_hours, row.cost), (2.0, 1.0, Some(5.0)));
    // A cluster that appeared later was released as well.
    let later = RunUsed { held: Span::from_secs(3600), ..used };
    loader.on_fact(&run, &Fact::RunUsed(Box::new(later))).await.unwrap();
    assert_eq!(warehouse.runs("over-1").await.unwrap().len(), 2);
    let [node] = &warehouse.node_results("over-1").await.unwrap()[..] else { panic!("one row") };
    assert_eq!((node.node.as_str(), node.result.as_str(), node.detail.as_str()), ("n3", "drained", "slow"));
    assert_eq!(node.cluster.as_deref(), Some("hall"));
    assert!(matches!(
        loader.on_fact(&run, &Fact::ResultsFailed(Failure::new(Class::Input, "X", ""))).await,
        Err(CommandError::Permanent(_))
    ));
}
