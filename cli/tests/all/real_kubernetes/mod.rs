//! Whole runs on a real Kubernetes of three nodes, with the real JobSet, Kueue, scheduler, kubelets and containers:
//! `workflows/kubernetes-cpu.yaml` unchanged. `.ci/kubernetes.sh` starts the bed.

mod bed;
mod evidence;
mod retest;
mod yields;

use std::{path::Path, process::Command};

use bed::{HANGS, KubernetesBed, MOST_OF_A_NODE, passed, printed};
use serde_json::Value;

use crate::support::{self, serving::ServerProcess};

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_run_with_queue_and_topology_passes_and_leaves_no_objects() {
    let bed = KubernetesBed::new();
    let output = bed.burnin(&["queue=bed", "topology.required=bed/block", MOST_OF_A_NODE]).output().unwrap();
    passed(&output);
    let log = bed.kept("benchmark.log");
    assert!(log.contains("DNS resolves every pod name") && log.contains("Avg bus bandwidth"), "{log}");
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn mpirun_ranks_use_the_network_plugin() {
    let bed = KubernetesBed::new();
    let near = Path::new("tests/testbed/kubernetes/mpi.yaml");
    passed(&bed.mpi("gib", near));
    let log = bed.kept("benchmark.log");
    for expected in ["pod 1 answers: ", "Using network gIB", "Rank 15 ", "Avg bus bandwidth"] {
        assert!(log.contains(expected), "{expected} is not in {log}");
    }
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
    // The same run on named nodes of two blocks: each pod has its own job, and the first pod decides the result.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/testbed/kubernetes");
    let text = std::fs::read_to_string(folder.join("mpi.yaml")).unwrap();
    let far = text.replace("{required: bed/block}", "unconstrained\n        only_nodes: [n1, n3]");
    assert_ne!(text, far);
    std::fs::write(bed.data.path().join("far.yaml"), far).unwrap();
    std::fs::copy(folder.join("mpi-criteria.yaml"), bed.data.path().join("mpi-criteria.yaml")).unwrap();
    passed(&bed.mpi("gib", &bed.data.path().join("far.yaml")));
    let nodes: String = bed.kept("nodes.json").split_whitespace().collect();
    assert!(nodes.contains(r#"["n1","n3"]"#), "{nodes}");
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
    // A plugin that makes NCCL use sockets instead of the fast network; all other settings are equal.
    let output = bed.mpi("gib-sockets", near);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let judged = bed.kept("verdict.json");
    assert!(judged.contains("WRONG_NETWORK"), "{judged}");
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_run_requested_over_http_uses_the_servers_kubeconfig() {
    let bed = KubernetesBed::new();
    let workflows = bed.data.path().join("workflows");
    let settings = [("nodes", "2"), ("namespace", "burnin"), ("image", &bed.read("image"))];
    support::workflows_for_kubernetes(&workflows, &settings);
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.arg("--data").arg(bed.data.path()).args(["up", "--port", "0", "--workflows"]).arg(workflows);
    command.env("KUBECONFIG", bed.folder.join("kubeconfig"));
    let up = ServerProcess::new(command);
    let run = up.begin("kubernetes-cpu", "first");
    up.follow(&run);
    let shown = up.get(&format!("/api/v1/runs/{run}"));
    assert_eq!(shown["verdict"], "pass", "{shown}");
    bed.wait_for("no object is left", || bed.remaining_objects().is_empty());
    up.end("-TERM");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn output_rotated_by_the_kubelet_is_complete() {
    let bed = KubernetesBed::new();
    let talk = format!("image={}", bed.read("image-talk"));
    let output = bed.burnin(&[&talk]).output().unwrap();
    // The verdict is ignored, because the run has no measurement.
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    for log in ["benchmark.log", "node-1.log"] {
        let log = bed.kept(log);
        let mut numbers = log.lines().filter_map(|line| line.strip_prefix("line ")?.split(' ').next());
        assert!((0..60_000).all(|n| numbers.next() == Some(&n.to_string())) && numbers.next().is_none());
    }
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_missing_image_is_reported() {
    let bed = KubernetesBed::new();
    let none = format!("image=registry.bed/burnin/none@sha256:{}", "0".repeat(64));
    let output = bed.burnin(&[&none]).output().unwrap();
    bed.failed(&output, "IMAGE_PULL", &["registry.bed/burnin/none@sha256:0", "not found"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn unschedulable_jobs_are_reported_with_the_reason() {
    let bed = KubernetesBed::new();
    // The probe reports nodes that are too small before the job is submitted.
    let output = bed.burnin(&["cpu_millis=100000"]).output().unwrap();
    bed.failed(&output, "UNSCHEDULABLE", &["less than cpu_millis requires", "n1 and 2 more: has"]);
    // With autoscaling, the scheduler reports nodes that are too small, with its own message.
    let output = bed.burnin(&["cpu_millis=100000", "autoscaled=true", "begin_within=10s"]).output().unwrap();
    bed.failed(&output, "UNSCHEDULABLE", &["Insufficient cpu"]);
    let output = bed.burnin(&["queue=bed", "nodes=3", "cpu_millis=1900"]).output().unwrap();
    bed.failed(&output, "QUOTA", &["cpu", "maximum capacity"]);
    let apart = ["queue=bed", "nodes=3", MOST_OF_A_NODE, "topology.required=bed/block", "begin_within=15s"];
    let output = bed.burnin(&apart).output().unwrap();
    bed.failed(&output, "TOPOLOGY", &["topology \"bed\""]);
    let output = bed.burnin(&["queue=bed", "topology.required=bed/block"]).output().unwrap();
    bed.failed(&output, "TOPOLOGY", &["a node with another pod of the job", "more than half of a node"]);
    let output = bed.burnin(&["queue=none"]).output().unwrap();
    bed.failed(&output, "QUEUE", &["no LocalQueue none in namespace burnin"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn pods_over_the_quota_of_the_namespace_are_reported() {
    let bed = KubernetesBed::new();
    bed.kubectl("create quota none -n burnin --hard=pods=0");
    let output = bed.burnin(&["begin_within=8s"]).output().unwrap();
    bed.kubectl("delete quota none -n burnin");
    bed.failed(&output, "QUOTA", &["exceeded quota: none"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn an_evicted_pod_is_reported() {
    let bed = KubernetesBed::new();
    let output = bed.disturbed(&[HANGS], |_| {
        let pod = bed.kubectl("get pods -n burnin -o jsonpath={.items[0].metadata.name}");
        let eviction = serde_json::json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "burnin"}});
        let file = bed.data.path().join("eviction.json");
        std::fs::write(&file, eviction.to_string()).unwrap();
        bed.kubectl(&format!("create --raw /api/v1/namespaces/burnin/pods/{pod}/eviction -f {}", file.display()));
    });
    bed.failed(&output, "EVICTED", &["pod ", " on node n"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_job_preempted_by_kueue_is_reported() {
    let bed = KubernetesBed::new();
    let output = bed.disturbed(&[HANGS, "queue=bed", MOST_OF_A_NODE], |_| {
        bed.create(&bed.jobset_of_another_user(Some("urgent")));
    });
    bed.failed(&output, "PREEMPTED", &[]);
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_container_out_of_memory_is_reported() {
    let bed = KubernetesBed::new();
    let output =
        bed.burnin(&["memory_mib=12"]).args(["--set", "benchmark.workload.max_bytes=64M"]).output().unwrap();
    let text = printed(&output);
    assert!(text.contains("OUT_OF_MEMORY") && text.contains("137"), "{text}");
    bed.wait_for("no object is left", || bed.remaining_objects().is_empty());
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_node_with_a_dead_kubelet_is_reported() {
    let bed = KubernetesBed::new();
    let mut number = String::new();
    let output = bed.disturbed(&[HANGS], |_| {
        let node = bed.kubectl("get pods -n burnin -o jsonpath={.items[0].spec.nodeName}");
        number = node.trim_start_matches('n').to_owned();
        let pid = bed.read(&format!("n{number}/kubelet.pid"));
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
        // The kubelet is restarted after the run has reported the node.
        bed.wait_for("its node is declared unreachable", || bed.kubectl("get nodes").contains("NotReady"));
        let deleted = "get jobsets -n burnin -o jsonpath={.items[*].metadata.deletionTimestamp}";
        bed.wait_for("its run has ended, although its pods never end", || !bed.kubectl(deleted).is_empty());
        bed.script("node.sh", &[&number]);
    });
    bed.failed(&output, "NODE_LOST", &[&format!("on node n{number}")]);
    bed.wait_for("the node is ready again", || !bed.kubectl("get nodes").contains("NotReady"));
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn cancelling_a_run_deletes_its_pods() {
    let bed = KubernetesBed::new();
    let output = bed.disturbed(&[HANGS, "queue=bed", MOST_OF_A_NODE], |run| {
        assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    });
    assert_eq!(output.status.code(), Some(4), "{}", printed(&output));
    bed.wait_for("no object is left", || bed.remaining_objects().is_empty());
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_killed_run_resumes_with_the_same_pods() {
    let bed = KubernetesBed::new();
    let mut pods = String::new();
    bed.disturbed(&["environment.BURNIN_FAULT=slow:1:40000"], |run| {
        pods = bed.kubectl("get pods -n burnin -o jsonpath={.items[*].metadata.uid}");
        assert!(Command::new("kill").args(["-KILL", &run.id().to_string()]).status().unwrap().success());
    });
    assert_eq!(
        bed.kubectl("get pods -n burnin -o jsonpath={.items[*].metadata.uid}"),
        pods,
        "the pods were not replaced"
    );
    let output = bed.resume();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", printed(&output)));
    assert_eq!(document["conclusion"], "completed", "{}", printed(&output));
    assert_eq!(bed.remaining_objects(), "");
}
