//! The bed of `.ci/kubernetes.sh`, and runs on it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Two pods that wait for each other until they are killed.
pub const HANGS: &str = "environment.BURNIN_FAULT=hang:1";
/// CPU request above half of a node: only one pod fits, as with all GPUs of a node. Kueue counts requests and ignores
/// anti-affinity.
pub const MOST_OF_A_NODE: &str = "cpu_millis=1100";

pub struct KubernetesBed {
    pub folder: PathBuf,
    pub data: TempDir,
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

impl KubernetesBed {
    pub fn new() -> Self {
        let folder =
            std::env::var("BURNIN_KUBERNETES_BED").expect(".ci/kubernetes.sh sets the variable").into();
        let bed = Self { folder, data: tempfile::tempdir().unwrap() };
        // Deletes the objects that a failed test left.
        bed.kubectl("delete jobsets --all -n burnin --cascade=foreground");
        bed.wait_for("the bed is empty", || bed.remaining_objects().is_empty());
        bed
    }

    /// The setting of an image of the bed: `image`, `image-mpi`, ...
    pub fn image(&self, name: &str) -> String {
        format!("image={}", self.read(name))
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).unwrap().trim().to_owned()
    }

    pub fn burnin(&self, settings: &[&str]) -> Command {
        let image = format!("image={}", self.read("image"));
        let ours = [&image, "namespace=burnin", "nodes=2"];
        self.run("workflows/kubernetes-cpu.yaml", &[&ours[..], settings].concat())
    }

    /// Runs a workflow with the A4 test bed's images: mpirun starts the ranks over ssh, and each pod has a plugin.
    pub fn mpi(&self, plugin: &str, workflow: &Path) -> Output {
        self.script("gpus.sh", &[]);
        let (image, plugin) = (self.read("image-mpi"), self.read(&format!("image-{plugin}")));
        let images = [format!("image={image}"), format!("plugin.image={plugin}")];
        let settings = images.each_ref().map(String::as_str);
        self.run(&workflow.display().to_string(), &settings).output().unwrap()
    }

    pub fn script(&self, name: &str, arguments: &[&str]) {
        let folder = repository().join("tests/testbed/kubernetes");
        let mut command = Command::new("bash");
        let status =
            command.arg(folder.join(name)).args(arguments).env("BED_DIR", &self.folder).status().unwrap();
        assert!(status.success(), "{name}: {status}");
    }

    pub fn run(&self, workflow: &str, settings: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command.arg("run").arg(repository().join(workflow));
        self.add_settings(&mut command, settings);
        command
    }

    /// Re-tests a node with the checks of this workflow, and returns it after a pass.
    pub fn retest(&self, node: &str, workflow: &str, settings: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command.args(["retest", node, "--return", "--workflow"]).arg(repository().join(workflow));
        self.add_settings(&mut command, settings);
        command.output().unwrap()
    }

    fn add_settings(&self, command: &mut Command, settings: &[&str]) {
        command.arg("--data").arg(self.data.path()).args(["--output", "json"]);
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
    }

    /// The document that a command of `burnin` prints about the runs on this bed.
    pub fn document(&self, words: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        let output =
            command.args(words).args(["--output", "json", "--data"]).arg(self.data.path()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(&output)))
    }

    /// Pods in a namespace, as the API server returns them.
    pub fn pods(&self, namespace: &str) -> Vec<Value> {
        let list = self.kubectl(&format!("get pods -n {namespace} -o json"));
        serde_json::from_str::<Value>(&list).unwrap()["items"].as_array().unwrap().clone()
    }

    pub fn node(&self, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("get node {name} -o json"))).unwrap()
    }

    /// Creates the objects of a YAML or JSON text.
    pub fn create(&self, text: &str) {
        let file = self.data.path().join("created.yaml");
        std::fs::write(&file, text).unwrap();
        self.kubectl(&format!("create -f {}", file.display()));
    }

    /// Content of all files with this name in the data folder.
    pub fn kept(&self, name: &str) -> String {
        let mut command = Command::new("sh");
        let output = command
            .args(["-c", &format!("cat $(find . -name {name})")])
            .current_dir(self.data.path())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn resume(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command.args(["run", "--resume", "--output", "json", "--data"]).arg(self.data.path());
        command.output().unwrap()
    }

    /// Calls `what` when both pods run, and then waits for the end of the run.
    pub fn disturbed(&self, settings: &[&str], what: impl FnOnce(&Child)) -> Output {
        let run = self.burnin(settings).spawn().unwrap();
        let end = End(run.id());
        self.wait_for("both pods run", || self.running() == 2);
        what(&run);
        let output = run.wait_with_output().unwrap();
        std::mem::forget(end);
        output
    }

    pub fn running(&self) -> usize {
        self.kubectl("get pods -n burnin --field-selector=status.phase=Running -o name").lines().count()
    }

    pub fn kubectl(&self, words: &str) -> String {
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
    pub fn remaining_objects(&self) -> String {
        self.kubectl("get jobsets,jobs,pods,services,secrets,pvc,workloads -n burnin -o name")
    }

    /// A JobSet in the queue with two pods that need most of a node each.
    pub fn jobset_of_another_user(&self, priority_class: Option<&str>) -> String {
        let pod = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{"name": "user",
            "image": self.read("image"), "command": ["sleep", "1"], "resources": {"requests": {"cpu": "1900m"}}}]});
        let job = json!({"name": "n", "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2,
            "template": {"spec": pod}}}});
        let mut labels = json!({"kueue.x-k8s.io/queue-name": "bed"});
        if let Some(class) = priority_class {
            labels["kueue.x-k8s.io/priority-class"] = json!(class);
        }
        let jobset = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "user", "namespace": "burnin", "labels": labels},
            "spec": {"suspend": true, "ttlSecondsAfterFinished": 0, "replicatedJobs": [job]}});
        jobset.to_string()
    }

    pub fn wait_for(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "timeout: {what}; {}",
                self.remaining_objects()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Checks that the run failed with this code and text, and left no object.
    pub fn failed(&self, output: &Output, code: &str, words: &[&str]) {
        let text = printed(output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        for expected in [code].iter().chain(words) {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        self.wait_for("no object is left", || self.remaining_objects().is_empty());
    }
}

/// Kills a run whose test has failed.
struct End(u32);

impl Drop for End {
    fn drop(&mut self) {
        _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).status();
    }
}

pub fn printed(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

pub fn passed(output: &Output) {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(output)));
    assert_eq!(
        (output.status.code(), &document["verdict"]),
        (Some(0), &"pass".into()),
        "{}",
        printed(output)
    );
}
