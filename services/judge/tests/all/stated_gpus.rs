//! A node that lost a GPU before the run: the judge compares the logs with the GPUs that the cluster's settings state.

use std::sync::Arc;

use ledger::{MemoryStore, Store};
use model::{Criteria, Every, MetricCriterion, Node, metric::Better};
use serde_json::{Value, json};

use crate::support::{JudgedLogs, declared};

/// The fact that the judge publishes for one node whose log has these GPUs.
async fn judged(node: Node, gpus: std::ops::Range<u32>, criterion: MetricCriterion) -> Value {
    judged_in(Arc::default(), "higher", (node, gpus, criterion)).await
}

/// The same fact, with the artefacts in `store`. `better`: the direction that the declaration of the format states.
async fn judged_in(
    store: Arc<MemoryStore>,
    better: &str,
    (node, gpus, criterion): (Node, std::ops::Range<u32>, MetricCriterion),
) -> Value {
    let rows: String = gpus.map(|gpu| format!("gpu {gpu}: 100.5 GB/s\n")).collect();
    let log = format!("burnin node: {}\n{rows}done\n", node.name);
    let read = json!({
        "row": r"^gpu (?P<gpu>\d+): (?P<value>\S+) GB/s$", "end": "^done$", "name": "copy", "unit": "GB/s",
        "better": better, "scope": "gpu",
    });
    let case = JudgedLogs {
        logs: vec![("1/n1.log".to_owned(), log.into_bytes())],
        nodes: vec![node],
        program: declared(Every::Node, read),
        criteria: Criteria { metrics: vec![criterion], ..Criteria::named("memory") },
    };
    case.answer(store).await
}

#[tokio::test]
async fn a_node_with_fewer_gpus_than_its_settings_state_never_passes() {
    let floor =
        || MetricCriterion { metric: "copy".to_owned(), floor: Some(90.0), ..MetricCriterion::default() };
    let eight = || Node { gpus: Some(8), ..Node::new("n1", 8) };
    let lost = judged(eight(), 0..7, floor()).await;
    assert_eq!(
        (&lost["verdict"], &lost["reasons"][0]["code"]),
        (&"inconclusive".into(), &"NOT_MEASURED".into())
    );
    let text = lost["reasons"][0]["text"].as_str().unwrap();
    assert!(text.contains("7 of 8 GPUs of node n1"), "{text}");
    assert_eq!(judged(eight(), 0..8, floor()).await["verdict"], "pass");
    // The criteria expect fewer GPUs, or the settings state no GPUs.
    let seven = MetricCriterion { subjects: Some(7), ..floor() };
    assert_eq!(judged(eight(), 0..7, seven).await["verdict"], "pass");
    assert_eq!(judged(Node::new("n1", 8), 0..7, floor()).await["verdict"], "pass");
}

/// Reports, hand-over documents and the warehouse read the stored measurements.
#[tokio::test]
async fn the_stored_measurements_have_the_direction_of_the_criteria() {
    let peers = MetricCriterion {
        metric: "copy".to_owned(),
        floor: Some(90.0),
        better: Some(Better::Higher),
        ..MetricCriterion::default()
    };
    let store = Arc::<MemoryStore>::default();
    let fact = judged_in(store.clone(), "none", (Node::new("n1", 8), 0..8, peers)).await;
    let object = fact["measurements"]["object"].as_str().unwrap();
    let stored: Value = serde_json::from_slice(&store.read(object).await.unwrap().unwrap()).unwrap();
    assert_eq!(stored["logs"][0]["reading"]["metrics"][0]["better"], "higher", "{stored}");
}
