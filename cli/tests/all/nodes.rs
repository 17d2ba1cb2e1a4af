//! `burnin nodes` over ledgers with more runs than it reads.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

/// Writes the ledger of a closed run on these nodes of the cluster `hall`. `drained`: the node that the run drained.
fn write_run(data: &Path, run: &str, minute: i64, nodes: &[&str], drained: Option<&str>) {
    let limits = serde_json::to_value(model::Limits::default()).unwrap();
    let locate = drained.map(|_| serde_json::to_value(model::Locate::default()).unwrap());
    let workflow = json!({
        "name": "nightly", "image": null, "limits": limits, "locate": locate,
        "cluster": {"existing": {"system": {"processes": {"nodes": nodes.len()}}, "name": "hall"}},
        "benchmark": {
            "workload": {"collective": "all_reduce", "min_bytes": 8, "max_bytes": 1024, "step_factor": 2, "iterations": 20,
                         "warmup_iterations": 5, "check": true},
            "criteria": {"name": "any"}, "baseline": null,
        },
    });
    let workflow: model::Workflow = serde_json::from_value(workflow).unwrap();
    let trigger = model::Trigger { kind: "manual".to_owned(), by: "test".to_owned() };
    let cluster = model::Cluster {
        name: "hall".to_owned(),
        nodes: nodes.iter().map(|name| model::Node::new(*name, 1)).collect(),
        access: model::ClusterAccess::processes("e"),
    };
    let job =
        json!({"state": "COMPLETED", "exit_code": 0, "signal": null, "started_at": null, "ended_at": null});
    let verdict = if drained.is_some() { "fail" } else { "pass" };
    let reached = json!({"verdict": verdict, "reasons": [], "criteria": "c", "baseline": null, "log_sha256": null, "object": "v"});
    let located = drained.map(|node| model::Suspects {
        nodes: vec![model::SuspectNode {
            node: node.to_owned(),
            confidence: 0.9,
            drained: model::Drained::Applied { reason: format!("burnin {run}: slow or wrong in pairs") },
        }],
        links: vec![],
        undecided: None,
        tests: 3,
        best_busbw: None,
        object: "o".to_owned(),
        retested: vec![],
    });
    let requested = model::RunRequested { workflow, trigger, origin: None };
    let facts = [
        model::Fact::RunRequested(Box::new(requested)),
        model::Fact::ClusterReady(cluster),
        model::Fact::JobDone(serde_json::from_value(job).unwrap()),
        model::Fact::LogsCollected(model::Logs {
            manifest: "m".into(),
            sha256: "s".into(),
            objects: 1,
            size_bytes: 1,
        }),
        model::Fact::VerdictReached(serde_json::from_value(reached).unwrap()),
    ];
    let accepted = |(number, fact): (usize, model::Fact)| model::RecordEntry::Accepted {
        event: model::EventKey { source: "//test".to_owned(), id: format!("{run}-{number}") },
        attempt: model::Attempt::FIRST,
        fact: Box::new(fact),
    };
    let facts = facts.into_iter().chain(located.map(model::Fact::NodesLocated)).enumerate().map(accepted);
    let closed = model::RecordEntry::Closed { conclusion: model::Conclusion::Completed };
    let folder = data.join("ledger").join(run);
    fs::create_dir_all(&folder).unwrap();
    for (seq, entry) in (1..).zip(facts.chain([closed])) {
        let record = model::Record {
            format: model::RECORD_FORMAT,
            run: run.parse().unwrap(),
            seq,
            nonce: "n".to_owned(),
            recorded_at: model::Timestamp::from_millis(1_795_122_600_000 + minute * 60_000),
            entry,
        };
        fs::write(folder.join(format!("{seq:010}.json")), serde_json::to_vec(&record).unwrap()).unwrap();
    }
}

#[test]
fn a_drained_node_stays_listed_beyond_the_maximum_number_of_read_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    write_run(&data, "old-1", 0, &["n0", "n1"], Some("n1"));
    for number in 0..520 {
        write_run(&data, &format!("new-{number}"), 1 + number, &["n0"], None);
    }
    let nodes = |last: &[&str]| -> (Option<i32>, Value) {
        let mut burnin = Command::new(env!("CARGO_BIN_EXE_burnin"));
        let output = burnin
            .args(["nodes", "--all", "--output", "json", "--data"])
            .arg(&data)
            .args(last)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        let document = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text} {error}"));
        (output.status.code(), document)
    };
    for last in [&[][..], &["--last", "3"]] {
        let (code, document) = nodes(last);
        let states: Vec<_> = document["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["node"].as_str().unwrap(), node["state"].as_str().unwrap()))
            .collect();
        assert_eq!(states, [("n1", "drained"), ("n0", "good")], "{last:?}");
        assert_eq!(code, Some(1));
        assert!(document["nodes"][0]["changes"][0]["evidence"][1].as_str().unwrap().starts_with("drained: "));
    }
}
