//! A whole run on Kubernetes: `workflows/kubernetes-cpu.yaml` and the quickstart's benchmark, on the stand-in for the
//! API server. Its pods are local processes.

use std::{path::Path, process::Command};

use crate::support::serving::ServerProcess;
use kubernetes_standin::{Api, ControllerSettings, KubernetesControllers};
use serde_json::{Value, json};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The first of `count` consecutive ports without a listener.
fn free_ports(count: u16) -> u16 {
    (20_000..32_000)
        .step_by(64)
        .skip(std::process::id() as usize % 100)
        .find(|first| {
            (*first..first + count).all(|port| std::net::TcpListener::bind(("0.0.0.0", port)).is_ok())
        })
        .expect("free ports")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_benchmark_in_pods_reaches_a_verdict_and_leaves_no_objects() {
    let root = tempfile::tempdir().unwrap();
    let source = repository().join("workflows/quickstart/collective_perf.rs");
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2024", "-O", "-o"]).arg(root.path().join("all_reduce_perf")).arg(source);
    assert!(compiler.status().unwrap().success());

    let api = Api::serve().await.unwrap();
    for node in ["n1", "n2"] {
        api.node(node, &json!({}), &json!({}), &json!({"cpu": "4", "memory": "16Gi"}));
    }
    let wants = ControllerSettings {
        endpoint: api.endpoint.clone(),
        programs: root.path().to_owned(),
        ..ControllerSettings::default()
    };
    let _world = KubernetesControllers::start(wants, api.logs());
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": api.endpoint}}], "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
    let kubeconfig = root.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();

    let settings = "cluster.existing.system.kubernetes";
    let run = |data: &str, more: Vec<String>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command.arg("run").arg(repository().join("workflows/kubernetes-cpu.yaml"));
        command.arg("--data").arg(root.path().join(data)).args(["--output", "json"]);
        command.args(["--set", &format!("{settings}.access.kubeconfig.path={}", kubeconfig.display())]);
        for set in more {
            command.args(["--set", &set]);
        }
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let port = format!("{settings}.rank_port={}", free_ports(8));
    let quick = [format!("{settings}.nodes=2"), port];
    let output = run("data", quick.to_vec()).await.unwrap();
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let logs = Command::new("sh")
        .arg("-c")
        .arg("cat $(find . -name *.log)")
        .current_dir(root.path())
        .output()
        .unwrap();
    let printed = printed + &String::from_utf8_lossy(&logs.stdout);
    assert_eq!(document["verdict"], "pass", "{printed}");
    assert_eq!(output.status.code(), Some(0), "{printed}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    let nodes = command.args(["nodes", "--all", "--output", "json", "--data"]).arg(root.path().join("data"));
    let nodes = nodes.output().unwrap();
    let listed: Value = serde_json::from_slice(&nodes.stdout).unwrap();
    assert_eq!((nodes.status.code(), &listed["runs"]), (Some(0), &json!(1)), "{listed}");
    let states = listed["nodes"].as_array().unwrap().iter();
    let states: Vec<_> = states.map(|node| json!([node["node"], node["state"]])).collect();
    assert_eq!(states, [json!(["n1", "good"]), json!(["n2", "good"])], "{listed}");
    for kind in ["jobset.x-k8s.io/jobsets", "batch/jobs", "/pods", "/services"] {
        assert!(api.list(kind).is_empty(), "{kind}: {:?}", api.list(kind));
    }

    // A run of this workflow requested over HTTP, with kubectl's kubeconfig.
    let workflows = root.path().join("workflows");
    let port = format!("2\n        rank_port: {}", free_ports(8));
    crate::support::workflows_for_kubernetes(&workflows, &[("nodes", &port)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.arg("--data").arg(root.path().join("served")).args(["up", "--port", "0", "--workflows"]);
    command.arg(workflows).env("KUBECONFIG", &kubeconfig);
    let shown = tokio::task::spawn_blocking(move || {
        let up = ServerProcess::new(command);
        let run = up.begin("kubernetes-cpu", "first");
        up.follow(&run);
        (up.get(&format!("/api/v1/runs/{run}")), up)
    });
    let (shown, up) = shown.await.unwrap();
    assert_eq!((&shown["verdict"], &shown["conclusion"]), (&json!("pass"), &json!("completed")), "{shown}");
    // The run ends when its output is stored; its objects are deleted afterwards.
    let gone = || api.list("jobset.x-k8s.io/jobsets").is_empty();
    tokio::task::block_in_place(|| crate::support::wait_for("the objects of the run to be deleted", gone));
    up.end("-TERM");

    // A pod's termination message is the reason of the failure.
    std::fs::write(
        root.path().join("all_reduce_perf"),
        "#!/bin/sh\necho \"libc.so.6: version 'GLIBC_2.38' not found\" >&2; exit 1\n",
    )
    .unwrap();
    let output = run("data-2", quick.to_vec()).await.unwrap();
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("GLIBC_MISMATCH"), "{printed}");
}
