//! Whole runs on a real Kubernetes of three nodes, with the real JobSet, Kueue, scheduler, kubelets and containers:
//! `workflows/kubernetes-cpu.yaml` unchanged. `.ci/kubernetes.sh` starts the bed.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::support::serving::Up;
use serde_json::Value;
use tempfile::TempDir;

/// Two pods that wait for each other until they are killed.
const HANGS: &str = "environment.BURNIN_FAULT=hang:1";
/// More than half of a node: only one pod fits, as with all GPUs of a node. Kueue counts requests and ignores
/// anti-affinity.
const MOST_OF_A_NODE: &str = "cpu_millis=1100";

struct KubernetesBed {
    folder: PathBuf,
    data: TempDir,
}

impl KubernetesBed {
    fn new() -> Self {
        let folder = std::env::var("BURNIN_KUBERNETES_BED").expect("a variable of .ci/kubernetes.sh").into();
        let bed = Self { folder, data: tempfile::tempdir().unwrap() };
        // Deletes the objects that a failed test left.
        bed.kubectl("delete jobsets --all -n burnin --cascade=foreground");
        bed.until("the bed is empty", || bed.left().is_empty());
        bed
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap().trim().to_owned()
    }

    fn burnin(&self, settings: &[&str]) -> Command {
        let image = format!("image={}", self.read("image"));
        let ours = [&image, "namespace=burnin", "nodes=2"];
        self.run("workflows/kubernetes-cpu.yaml", &[&ours[..], settings].concat())
    }

    /// Runs a workflow with the A4 test bed's images: mpirun starts the ranks over ssh, and each pod has a plugin.
    fn mpi(&self, plugin: &str, workflow: &Path) -> Output {
        self.script("gpus.sh", &[]);
        let (image, plugin) = (self.read("image-mpi"), self.read(&format!("image-{plugin}")));
        let images = [format!("image={image}"), format!("plugin.image={plugin}")];
        let settings = images.each_ref().map(String::as_str);
        self.run(&workflow.display().to_string(), &settings).output().unwrap()
    }

    fn script(&self, name: &str, arguments: &[&str]) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/testbed/kubernetes");
        let mut command = Command::new("bash");
        let status =
            command.arg(folder.join(name)).args(arguments).env("BED_DIR", &self.folder).status().unwrap();
        assert!(status.success(), "{name}: {status}");
    }

    fn run(&self, workflow: &str, settings: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(workflow);
        command.arg("run").arg(workflow).arg("--data").arg(self.data.path()).args(["--output", "json"]);
        let access = format!("access.kubeconfig.path={}", self.folder.join("kubeconfig").display());
        for setting in settings.iter().chain([&access.as_str()]) {
            command.args(["--set", &format!("cluster.existing.system.kubernetes.{setting}")]);
        }
        // Infrastructure failures are reported, not retried.
        command
            .args(["--set", "limits.attempts=1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Files with this name that the runs left.
    fn kept(&self, name: &str) -> String {
        let mut command = Command::new("sh");
        let output = command
            .args(["-c", &format!("cat $(find . -name {name})")])
            .current_dir(self.data.path())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn resume(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command.args(["run", "--resume", "--output", "json", "--data"]).arg(self.data.path());
        command.output().unwrap()
    }

    /// Calls `what` when the pods are running, and then waits for the end of the run.
    fn disturbed(&self, settings: &[&str], what: impl FnOnce(&Child)) -> Output {
        let run = self.burnin(settings).spawn().unwrap();
        let end = End(run.id());
        self.until("both pods run", || self.running() == 2);
        what(&run);
        let output = run.wait_with_output().unwrap();
        std::mem::forget(end);
        output
    }

    fn running(&self) -> usize {
        self.kubectl("get pods -n burnin --field-selector=status.phase=Running -o name").lines().count()
    }

    fn kubectl(&self, words: &str) -> String {
        let mut command = Command::new("kubectl");
        let output = command
            .arg("--kubeconfig")
            .arg(self.folder.join("admin"))
            .args(words.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "kubectl {words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// All objects in the namespace that a job may leave.
    fn left(&self) -> String {
        self.kubectl("get jobsets,jobs,pods,services,secrets,pvc,workloads -n burnin -o name")
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(120), "timeout: {what}; {}", self.left());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Checks that the run failed with this code and text, and left no object.
    fn failed(&self, output: &Output, code: &str, words: &[&str]) {
        let text = printed(output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        for expected in [code].iter().chain(words) {
            assert!(text.contains(expected), "no {expected} in {text}");
        }
        self.until("no object is left", || self.left().is_empty());
    }
}

/// Kills a run whose test has failed.
struct End(u32);

impl Drop for End {
    fn drop(&mut self) {
        _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).status();
    }
}

fn printed(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn passed(output: &Output) {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(output)));
    assert_eq!(
        (output.status.code(), &document["verdict"]),
        (Some(0), &"pass".into()),
        "{}",
        printed(output)
    );
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_run_with_queue_and_topology_passes_and_leaves_no_objects() {
    let bed = KubernetesBed::new();
    let output = bed.burnin(&["queue=bed", "topology.required=bed/block", MOST_OF_A_NODE]).output().unwrap();
    passed(&output);
    let log = bed.kept("benchmark.log");
    assert!(log.contains("every pod has a name") && log.contains("Avg bus bandwidth"), "{log}");
    assert_eq!(bed.left(), "", "after the end of the run");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn mpirun_ranks_use_the_network_plugin() {
    let bed = KubernetesBed::new();
    let near = Path::new("tests/testbed/kubernetes/mpi.yaml");
    passed(&bed.mpi("gib", near));
    let log = bed.kept("benchmark.log");
    for expected in ["pod 1 answers: ", "Using network gIB", "Rank 15 ", "Avg bus bandwidth"] {
        assert!(log.contains(expected), "no {expected} in {log}");
    }
    assert_eq!(bed.left(), "", "after the end of the run");
    // The same run on named nodes of two blocks: each pod has its own job, and the first pod decides the result.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/testbed/kubernetes");
    let text = std::fs::read_to_string(folder.join("mpi.yaml")).unwrap();
    let far = text.replace("{required: bed/block}", "unconstrained\n        only_nodes: [n1, n3]");
    assert_ne!(text, far);
    std::fs::write(bed.data.path().join("far.yaml"), far).unwrap();
    std::fs::copy(folder.join("mpi-criteria.yaml"), bed.data.path().join("mpi-criteria.yaml")).unwrap();
    passed(&bed.mpi("gib", &bed.data.path().join("far.yaml")));
    assert!(bed.kept("nodes.json").contains(r#"["n1","n3"]"#), "{}", bed.kept("nodes.json"));
    assert_eq!(bed.left(), "", "after the end of the run");
    // A plugin that makes NCCL use sockets: only the fast network is not used.
    let output = bed.mpi("gib-sockets", near);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let judged = bed.kept("verdict.json");
    assert!(judged.contains("WRONG_NETWORK"), "{judged}");
    assert_eq!(bed.left(), "", "after the end of the run");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_run_requested_over_http_uses_the_servers_kubeconfig() {
    let bed = KubernetesBed::new();
    let workflows = bed.data.path().join("workflows");
    let settings = [("nodes", "2"), ("namespace", "burnin"), ("image", &bed.read("image"))];
    crate::support::workflows_for_kubernetes(&workflows, &settings);
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.arg("--data").arg(bed.data.path()).args(["up", "--port", "0", "--workflows"]).arg(workflows);
    command.env("KUBECONFIG", bed.folder.join("kubeconfig"));
    let up = Up::new(command);
    let run = up.begin("kubernetes-cpu", "first");
    up.follow(&run);
    let shown = up.get(&format!("/api/v1/runs/{run}"));
    assert_eq!(shown["verdict"], "pass", "{shown}");
    bed.until("no object is left", || bed.left().is_empty());
    up.end("-TERM");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn output_rotated_by_the_kubelet_is_complete() {
    let bed = KubernetesBed::new();
    let talk = format!("image={}", bed.read("image-talk"));
    let output = bed.burnin(&[&talk]).output().unwrap();
    // The verdict is ignored, because the run measured nothing.
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    for log in ["benchmark.log", "node-1.log"] {
        let log = bed.kept(log);
        let mut numbers = log.lines().filter_map(|line| line.strip_prefix("line ")?.split(' ').next());
        assert!((0..60_000).all(|n| numbers.next() == Some(&n.to_string())) && numbers.next().is_none());
    }
    assert_eq!(bed.left(), "", "after the end of the run");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_slow_node_is_located_by_pairs_and_drained() {
    let bed = KubernetesBed::new();
    let slow = Slow::new(&bed);
    let image = format!("image={}", bed.read("image"));
    let output = bed.run("tests/testbed/kubernetes/slow.yaml", &[&image]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let judged = bed.kept("verdict.json");
    assert!(judged.contains("BELOW_FLOOR"), "{judged}");
    let located: Value = serde_json::from_str(&bed.kept("located.json")).unwrap();
    let named = located["suspects"]["nodes"].as_array().unwrap();
    assert_eq!((named.len(), &named[0]["node"]), (1, &Value::from("n2")), "{located}");
    let reason = named[0]["drained"]["applied"]["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("burnin ") && reason.ends_with("slow or wrong in pairs"), "{located}");
    let node: Value = serde_json::from_str(&bed.kubectl("get node n2 -o json")).unwrap();
    assert_eq!(
        (&node["spec"]["unschedulable"], &node["metadata"]["annotations"]["burnin.dev/drained"]),
        (&Value::from(true), &Value::from(reason))
    );
    assert_eq!(bed.kubectl("get nodes").matches("SchedulingDisabled").count(), 1);
    assert_eq!(bed.left(), "", "after the end of the run");
    drop(slow);
}

/// Limits the second node's links to 40 Mbit/s and grants the drain permission, until dropped.
struct Slow<'a>(&'a KubernetesBed);

impl<'a> Slow<'a> {
    fn new(bed: &'a KubernetesBed) -> Self {
        let slow = Self(bed);
        let rate = "root tbf rate 40mbit burst 64kb latency 1s";
        slow.links(&format!("replace dev {{}} {rate}"));
        bed.kubectl(
            "create clusterrolebinding drain --clusterrole=burnin-drain --serviceaccount=burnin:burnin",
        );
        slow
    }

    /// Applies a setting to both ends of its cable.
    fn links(&self, what: &str) {
        let space = self.0.read("namespace");
        for (at, link) in [(space.clone(), "n2"), (format!("{space}-n2"), "eth0")] {
            let words = format!("-n {at} qdisc {}", what.replace("{}", link));
            let status = Command::new("tc").args(words.split_whitespace()).status().unwrap();
            assert!(status.success(), "tc {words}");
        }
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.links("del dev {} root");
        self.0.kubectl("delete clusterrolebinding drain");
        self.0.kubectl("uncordon n2");
        self.0.kubectl("annotate node n2 burnin.dev/drained-");
    }
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
    // The probe reports it before the job is submitted.
    let output = bed.burnin(&["cpu_millis=100000"]).output().unwrap();
    bed.failed(&output, "UNSCHEDULABLE", &["less than cpu_millis requires", "n1, as 2 more, has"]);
    // The scheduler reports it with its own message.
    let output = bed.burnin(&["cpu_millis=100000", "autoscaled=true", "begin_within=10s"]).output().unwrap();
    bed.failed(&output, "UNSCHEDULABLE", &["Insufficient cpu"]);
    let output = bed.burnin(&["queue=bed", "nodes=3", "cpu_millis=1900"]).output().unwrap();
    bed.failed(&output, "QUOTA", &["cpu", "maximum capacity"]);
    let apart = ["queue=bed", "nodes=3", MOST_OF_A_NODE, "topology.required=bed/block", "begin_within=15s"];
    let output = bed.burnin(&apart).output().unwrap();
    bed.failed(&output, "TOPOLOGY", &["topology \"bed\""]);
    let output = bed.burnin(&["queue=bed", "topology.required=bed/block"]).output().unwrap();
    bed.failed(&output, "TOPOLOGY", &["has another pod of the job", "more than half of a node"]);
    let output = bed.burnin(&["queue=none"]).output().unwrap();
    bed.failed(&output, "QUEUE", &["no LocalQueue none in namespace burnin"]);
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
        let urgent = bed.data.path().join("urgent.json");
        let pod = serde_json::json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{"name": "urgent",
            "image": bed.read("image"), "command": ["sleep", "1"], "resources": {"requests": {"cpu": "1900m"}}}]});
        let job = serde_json::json!({"name": "n", "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2,
            "template": {"spec": pod}}}});
        let jobset = serde_json::json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "urgent", "namespace": "burnin", "labels": {"kueue.x-k8s.io/queue-name": "bed", "kueue.x-k8s.io/priority-class": "urgent"}},
            "spec": {"suspend": true, "ttlSecondsAfterFinished": 0, "replicatedJobs": [job]}});
        std::fs::write(&urgent, jobset.to_string()).unwrap();
        bed.kubectl(&format!("create -f {}", urgent.display()));
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
    bed.until("no object is left", || bed.left().is_empty());
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
        bed.until("its node is declared unreachable", || bed.kubectl("get nodes").contains("NotReady"));
        let deleted = "get jobsets -n burnin -o jsonpath={.items[*].metadata.deletionTimestamp}";
        bed.until("its run has ended, although its pods never end", || !bed.kubectl(deleted).is_empty());
        bed.script("node.sh", &[&number]);
    });
    bed.failed(&output, "NODE_LOST", &[&format!("on node n{number}")]);
    bed.until("the node is ready again", || !bed.kubectl("get nodes").contains("NotReady"));
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn cancelling_a_run_deletes_its_pods() {
    let bed = KubernetesBed::new();
    let output = bed.disturbed(&[HANGS, "queue=bed", MOST_OF_A_NODE], |run| {
        assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap().success());
    });
    assert_eq!(output.status.code(), Some(4), "{}", printed(&output));
    bed.until("no object is left", || bed.left().is_empty());
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
    assert_eq!(bed.left(), "");
}
