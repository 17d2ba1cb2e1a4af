//! The steps as in Cloud Build: `_STATE` is in a bucket without overwrites.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;
use toolkit::{Cloud, DIGEST, repository};

use crate::parameters::valid;

struct Steps {
    cloud: Cloud,
    substitutions: BTreeMap<String, String>,
    workspaces: Vec<TempDir>,
}

impl Steps {
    fn new() -> Self {
        let cloud = Cloud::new().unwrap();
        fs::create_dir_all(cloud.path().join("gcs/artefacts")).unwrap();
        let mut substitutions = valid();
        substitutions
            .insert("_STATE".to_owned(), "gs://artefacts/clusters/nightly-1a2b-cluster-1/state".to_owned());
        substitutions.insert("_CONTAINER_DIGEST".to_owned(), DIGEST.to_owned());
        Self { cloud, substitutions, workspaces: Vec::new() }
    }

    /// Creates a new workspace without the files of earlier workspaces.
    fn workspace(&mut self) {
        let folder = TempDir::new().unwrap();
        let from = repository("workflows/a3-mega");
        let copied = Command::new("cp").arg("-rT").arg(from).arg(folder.path()).status().unwrap();
        assert!(copied.success());
        self.workspaces.push(folder);
    }

    fn folder(&self) -> &Path {
        self.workspaces.last().unwrap().path()
    }

    /// Runs a step. Returns its success and its output.
    fn run(&self, step: &str) -> (bool, String) {
        let mut command = Command::new("python3");
        command.args(step.split(' ')).current_dir(self.folder()).envs(&self.substitutions);
        let environment = self.cloud.environment();
        command.envs(environment.iter().filter_map(|variable| variable.split_once('=')));
        let output = command.output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }

    fn stored(&self) -> Vec<String> {
        let folder = self.cloud.path().join("gcs/artefacts/clusters/nightly-1a2b-cluster-1/state");
        let entries = fs::read_dir(folder).into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_teardown_in_another_workspace_uses_the_folders_stored_in_the_bucket() {
    let mut steps = Steps::new();
    steps.workspace();
    for step in ["parameters.py", "deploy.py base", "deploy.py image"] {
        let (good, text) = steps.run(step);
        assert!(good, "{step}: {text}");
    }
    steps.cloud.fault("deploy-cluster", "Error: ZONE_RESOURCE_POOL_EXHAUSTED").unwrap();
    let (good, text) = steps.run("deploy.py cluster");
    assert!(!good && text.contains("FAILED: gcluster deploy failed with exit status 1: STOCKOUT"), "{text}");
    let all = ["base", "cluster", "image"].map(|part| [1, 2].map(|number| format!("{part}-{number}.tar.gz")));
    assert_eq!(
        steps.stored(),
        [vec!["asked.json".to_owned()], all.concat()].concat(),
        "the folder is stored before and after the deployment"
    );

    steps.workspace();
    // The teardown reads the deployment's parameters from the bucket.
    for name in ["_PROJECT", "_REGION", "_ZONE", "_STATE_BUCKET"] {
        steps.substitutions.remove(name);
    }
    for step in ["parameters.py destroy", "destroy.py"] {
        let (good, text) = steps.run(step);
        assert!(good, "{step}: {text}");
    }
    let gone: Value = serde_json::from_slice(&fs::read(steps.folder().join("gone.json")).unwrap()).unwrap();
    assert_eq!(gone["left"], serde_json::json!([]));
    assert_eq!(steps.cloud.resources(), [""; 0]);
}

#[test]
fn parameters_reach_the_toolkit_unchanged() {
    let mut steps = Steps::new();
    let exact = [
        ("_STORAGE", "lustre", "base", "/lustre_name"),
        ("_LUSTRE_NAME", "ex4scale", "base", "/lustre_name"),
        ("_LUSTRE_MOUNT", "/data_1/b.c-d", "base", "/lustre_mount"),
        ("_SYSTEM_RANGE", "172.20.0.0/14", "base", "/system_range"),
        ("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240904", "image", "/source_image"),
        ("_TCPXO_FROM", "ar+https://apt.example/projects/t_c.p-x/o", "image", "/tcpxo_apt"),
        ("_RESERVATION", "eight-gpus", "cluster", "/reservation_name"),
        ("_MAINTENANCE", "PERIODIC", "cluster", "/instance_properties/scheduling/maintenanceInterval"),
        ("_PARTITION", "p9", "cluster", "/partition_name"),
        ("_GPU_RANGE", "10.128.0.0/10", "cluster", "/gpu_range"),
        ("_GCS_BUCKET", "my_data.example", "cluster", "/more_storage/0/remote_mount"),
        ("_CLUSTER", "nightly_1a2b-cluster-1", "cluster", "/labels/burnin-cluster"),
        ("_RUN", "nightly_1a2b", "image", "/labels/burnin-run"),
    ];
    for (name, value, ..) in exact {
        steps.substitutions.insert(name.to_owned(), value.to_owned());
    }
    steps.workspace();
    for step in ["parameters.py", "deploy.py base", "deploy.py image", "deploy.py cluster"] {
        let (good, text) = steps.run(step);
        assert!(good, "{step}: {text}");
    }
    for (name, value, part, at) in &exact[1..] {
        let file = steps.folder().join(format!("{part}.deployment.yaml"));
        let given: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(given["vars"].pointer(at).and_then(Value::as_str), Some(*value), "{name}");
    }
    let file = steps.folder().join("cluster.deployment.yaml");
    let given: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(given["vars"]["server_ip"], "172.16.0.9@tcp");
    assert_eq!(given["vars"]["remote_mount"], "/ex4scale");
}
