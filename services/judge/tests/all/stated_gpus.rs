//! A node that lost a GPU before the run: the judge compares the logs with the GPUs that the cluster's settings state.

use std::{
    io::Cursor,
    sync::{Arc, Mutex},
};

use judge::Judge;
use ledger::{Artefacts, MemoryStore, Store};
use model::{
    Attempt, Body, Cluster, ClusterAccess, Command, CommandId, CommandLine, Criteria, Every, JobEnd, Logs,
    MetricCriterion, Node, OutputFormat, Program, Timestamp, metric::Better,
};
use serde_json::{Value, json};
use service::{Bus, BusError, Event, ManualClock, Publisher, Worker};
use warehouse::memory::Memory;

#[derive(Default)]
struct Published(Mutex<Vec<Event>>);

#[service::async_trait]
impl Bus for Published {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

/// The judge's answer for one node whose log has these GPUs.
async fn judged(node: Node, gpus: std::ops::Range<u32>, criterion: MetricCriterion) -> Value {
    judged_in(Arc::default(), "higher", (node, gpus, criterion)).await
}

/// The answer, with the artefacts in `store`. `better`: the direction that the declaration of the format states.
async fn judged_in(
    store: Arc<MemoryStore>,
    better: &str,
    (node, gpus, criterion): (Node, std::ops::Range<u32>, MetricCriterion),
) -> Value {
    let artefacts = Artefacts::new(store.clone());
    let id: CommandId = "gpus-1.logs.1.start".parse().unwrap();
    let rows: String = gpus.map(|gpu| format!("gpu {gpu}: 100.5 GB/s\n")).collect();
    let log = format!("burnin node: {}\n{rows}done\n", node.name);
    let object = artefacts.put(&id, "1/n1.log", Box::new(Cursor::new(log.into_bytes()))).await.unwrap();
    let committed = artefacts.commit(&id, vec![object]).await.unwrap();
    let read = json!({
        "row": r"^gpu (?P<gpu>\d+): (?P<value>\S+) GB/s$", "end": "^done$", "name": "copy", "unit": "GB/s",
        "better": better, "scope": "gpu",
    });
    let body = Body::RunJudge {
        workflow: "gpus".to_owned(),
        check: Some("memory".to_owned()),
        requested_at: Some(Timestamp::from_millis(0)),
        logs: Logs { manifest: committed.name, sha256: committed.digest.sha256, objects: 1, size_bytes: 0 },
        job_attempt: Attempt::FIRST,
        job: JobEnd {
            state: "COMPLETED".to_owned(),
            exit_code: Some(0),
            signal: None,
            started_at: None,
            ended_at: None,
            nodes: Vec::new(),
        },
        program: Program::Command(CommandLine {
            argv: vec!["./copy".to_owned()],
            every: Every::Node,
            rounds: None,
            image: None,
            read: OutputFormat::Declared(read),
        }),
        spec: None,
        cluster: Cluster {
            name: "hall".to_owned(),
            nodes: vec![node],
            access: ClusterAccess::processes("/tmp"),
        },
        image: None,
        criteria: Box::new(Criteria { metrics: vec![criterion], ..Criteria::named("memory") }),
        baseline: None,
        soak: None,
    };
    let command = Command { id: "gpus-1.verdict.1.start".parse().unwrap(), body };
    let published = Arc::<Published>::default();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let judge = Judge::new(Artefacts::new(store), Arc::<Memory>::default());
    judge.perform(&command, &Publisher::new("judge", published.clone(), clock)).await.unwrap();
    let published = published.0.lock().unwrap();
    serde_json::to_value(&published[0]).unwrap()["data"].clone()
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
    // The check measures fewer GPUs on purpose, or the settings state none.
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
