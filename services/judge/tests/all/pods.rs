//! Hosts whose names differ from those of their nodes, such as pods: measurements, evidence and settings name the nodes.

use std::{fs, path::Path, sync::Arc};

use judge::read_with_clues;
use ledger::{MemoryStore, Store};
use measurements::Measurements;
use model::{
    Attempt, Collective, Criteria, Every, MetricCriterion, Node, Program, RunId, Workload,
    measurement::{NodesOfHosts, Reading},
};
use serde_json::{Value, json};
use warehouse::{Load, Warehouse, memory::Memory};

use crate::support::{JudgedLogs, declared};

/// A real log of two GPUs, as the two pods of a job print it: the first has the table, and each has the evidence of its node.
fn pods() -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/evidence/h100-all-reduce.log");
    let log = fs::read_to_string(path).unwrap();
    let first = log
        .replace("on         vm device  0", "on accept-1-w-0-0 device  0")
        .replace("on         vm device  1 [0000:00:07]", "on accept-1-w-0-1 device  0 [0000:00:06]")
        .replace("burnin evidence: vm ", "burnin evidence: n1 ");
    let of_node = |line: &&str| line.starts_with("burnin evidence: ");
    let second: String = log
        .lines()
        .filter(of_node)
        .map(|line| line.replacen("evidence: vm ", "evidence: n2 ", 1) + "\n")
        .collect();
    vec![
        ("1/pod-0.log".to_owned(), format!("burnin host: accept-1-w-0-0 n1\n{first}").into_bytes()),
        ("1/pod-1.log".to_owned(), format!("burnin host: accept-1-w-0-1 n2\n{second}").into_bytes()),
    ]
}

fn all_reduce() -> Program {
    Program::NcclTests(Workload {
        collective: Collective::AllReduce,
        min_bytes: 8,
        max_bytes: 4 << 30,
        step_factor: 8,
        iterations: 50,
        warmup_iterations: 5,
        check: true,
        datatype: None,
        extra_args: Default::default(),
    })
}

async fn stored(store: &MemoryStore, fact: &Value) -> Vec<Reading> {
    let object = fact["measurements"]["object"].as_str().unwrap();
    let body = store.read(object).await.unwrap().unwrap();
    let stored: Measurements = serde_json::from_slice(&body).unwrap();
    stored.logs.into_iter().map(|log| log.reading).collect()
}

#[tokio::test]
async fn the_table_of_nccl_tests_names_the_nodes_of_the_pods() {
    let store = Arc::<MemoryStore>::default();
    let case = JudgedLogs {
        logs: pods(),
        nodes: vec![Node::new("n1", 1), Node::new("n2", 1)],
        program: all_reduce(),
        criteria: Criteria::named("any"),
    };
    let fact = case.answer(store.clone()).await;
    let readings = stored(&store, &fact).await;
    let devices = readings.iter().flat_map(|reading| &reading.tables).flat_map(|table| &table.devices);
    let hosts: Vec<_> = devices.map(|device| device.host.as_str()).collect();
    assert_eq!(hosts, ["n1", "n2"]);
    let evidence: Vec<_> =
        readings.iter().flat_map(|reading| &reading.evidence).map(|node| node.node.as_str()).collect();
    assert_eq!(evidence, ["n1", "n2"]);

    let run: RunId = "gpus-1".parse().unwrap();
    let mut load = Load::of(&run, ("gpus", None), Attempt::FIRST, None);
    for (number, reading) in (0..).zip(&readings) {
        load.log(&format!("1/pod-{number}.log"), reading);
    }
    let warehouse = Memory::default();
    warehouse.load("gpus-1.1", &load).await.unwrap();
    let rows = serde_json::to_string(&warehouse.metrics("gpus-1").await.unwrap()).unwrap();
    assert!(rows.contains("nccl_tests.bus_bandwidth") && !rows.contains("accept-1"), "{rows}");
}

/// Clues contain the name of a host; suspects and diagnoses need the name of its node.
#[test]
fn the_clues_of_a_pod_name_its_node() {
    let log = "burnin host: accept-1-w-0-1 n2\n\
               accept-1-w-0-1:1:1 [0] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out\n";
    let (_, mut clues) = read_with_clues(log.as_bytes()).unwrap();
    let nodes = NodesOfHosts::of_logs([&clues.nodes_of_hosts]);
    clues.name_nodes(&nodes);
    let hosts: Vec<_> = clues.signs.values().flat_map(|sign| &sign.hosts).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| *host == "n2"), "{hosts:?}");
}

/// A program that a launcher starts for each rank prints the names of the hosts.
#[tokio::test]
async fn a_pod_is_compared_with_the_gpus_that_the_settings_state_for_its_node() {
    let read = json!({
        "row": r"^(?P<node>\S+) gpu (?P<gpu>\d+): (?P<value>\S+) GB/s$", "end": "^done$", "name": "copy", "unit": "GB/s",
        "better": "higher", "scope": "gpu",
    });
    let node = |name: &str, gpus| Node { gpus: Some(gpus), ..Node::new(name, gpus) };
    let answer = |marks: &str| {
        let rows = [("p0", 0), ("p0", 1), ("p1", 0), ("p1", 1)]
            .map(|(pod, gpu)| format!("accept-{pod} gpu {gpu}: 100.5 GB/s\n"));
        let log = format!("{marks}{}done\n", rows.concat());
        let floor =
            MetricCriterion { metric: "copy".to_owned(), floor: Some(90.0), ..MetricCriterion::default() };
        JudgedLogs {
            logs: vec![("1/p0.log".to_owned(), log.into_bytes())],
            nodes: vec![node("n1", 2), node("n2", 3)],
            program: declared(Every::Rank, read.clone()),
            criteria: Criteria { metrics: vec![floor], ..Criteria::named("memory") },
        }
        .answer(Arc::default())
    };
    let fact = answer("burnin host: accept-p0 n1\nburnin host: accept-p1.example.org n2\n").await;
    assert_eq!(fact["verdict"], "inconclusive", "{fact}");
    let text = fact["reasons"][0]["text"].as_str().unwrap();
    assert!(text.contains("2 of 3 GPUs of node n2") && !text.contains("n1"), "{text}");
}
