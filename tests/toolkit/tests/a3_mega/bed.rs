//! A provisioner with a simulated cloud.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use build_service::LocalBuilds;
use cluster_api::{ClusterProvider, ClusterStatus, LeaseRequest};
use cluster_deployed::{Deployed, DeployedClusters};
use ledger::{FolderStore, Store};
use model::{Attempt, CommandId, Deleted, Span, Stage, Verb};
use serde_json::json;
use service::{Clock, ManualClock, PortError, SystemClock};
use supervisor::OwnProgram;
use tempfile::TempDir;
use toolkit::{Cloud, DIGEST, registry, repository};

/// Starts this binary again, as a build's supervisor.
fn program() -> OwnProgram {
    test_support::processes::program("bed::be_host")
}

/// Runs a build's supervisor if started with a supervisor's arguments; has no effect as a test.
#[test]
fn be_host() {
    test_support::processes::host();
}

pub struct ToolkitHost {
    pub cloud: Cloud,
    pub clock: Arc<ManualClock>,
    pub order: LeaseRequest,
    pub clusters: DeployedClusters,
    _root: TempDir,
}

/// A user's parameters of a3-mega-slurm.
pub fn wanted() -> BTreeMap<String, String> {
    let values = [
        ("_PROJECT", "my-project"),
        ("_REGION", "us-central1"),
        ("_ZONE", "us-central1-a"),
        ("_STATE_BUCKET", "tfstate"),
        ("_RESERVATION", "eight-gpus"),
        ("_READY_MINUTES", "0"),
        ("_HEADERS_FROM", "https://archive.example/debian/20240515T205635Z"),
        ("_CONTAINER_TOOLKIT_FROM", "https://toolkit.example/libnvidia-container"),
        ("_TCPXO_FROM", "ar+https://apt.example/projects/tcpxo"),
        ("_GVNIC_SHA256", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("_CONTAINER_DIGEST", DIGEST),
    ];
    values.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

impl ToolkitHost {
    /// Requests the cluster of a workflow, with the user's parameters and these additional values.
    pub fn new(workflow: &str, more: &[(&str, &str)]) -> Self {
        let (root, cloud) = (tempfile::tempdir().unwrap(), Cloud::new().unwrap());
        let path = repository("workflows").join(workflow);
        // Disables the check of the workflow, so that the steps' own check is tested.
        let unchecked = "cluster.rent.deployed.parameters=".parse().unwrap();
        let resolved = workflow::resolve(&path, &[unchecked]).unwrap_or_else(|problems| panic!("{problems}"));
        let cluster = resolved.workflow.cluster.expect("a cluster");
        let Some(mut deployed) = Deployed::of(cluster.system()) else {
            panic!("{workflow}: expected a cluster that build steps deploy")
        };
        let store: Arc<dyn Store> = Arc::new(FolderStore::open(root.path().join("bucket")).unwrap());
        for build in [&mut deployed.deploy, &mut deployed.destroy] {
            build.config["options"] = json!({"env": cloud.environment()});
            let container = format!("{}#nvidia/pytorch:24.04-py3", registry().unwrap());
            let mut values = wanted();
            values.insert("_CONTAINER".to_owned(), container);
            values.insert("_LUSTRE_MOUNT".to_owned(), cloud.path().join("data").display().to_string());
            values.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            let declared = build.config["substitutions"].as_object().unwrap();
            values.retain(|name, _| declared.contains_key(name));
            build.substitutions.extend(values);
        }
        for archive in &resolved.archives {
            let file = root.path().join("bucket").join(&archive.object);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, &archive.bytes).unwrap();
        }
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let builds = supervisor::BuildFolder::new(root.path().join("builds"), program());
        let builds = Arc::new(LocalBuilds::new(builds, Arc::clone(&store), None));
        let clusters = DeployedClusters::new(&clusters::KINDS, builds, store, clock.clone());
        let id = CommandId {
            run: "nightly-1a2b".parse().unwrap(),
            stage: Stage::Cluster,
            attempt: Attempt::FIRST,
            verb: Verb::Start,
        };
        let system = deployed.to_system();
        let expires_at = clock.now() + Span::from_secs(36_000);
        let order = LeaseRequest { name: id.resource_name(), id, system, expires_at };
        Self { cloud, clock, order, clusters, _root: root }
    }

    /// Keeps these parts for later runs.
    pub fn keep(&mut self, parts: &[&str], span: Span) {
        let mut deployed: Deployed = self.order.system.read().unwrap();
        deployed.keep = parts.iter().map(|part| ((*part).to_owned(), span)).collect();
        self.order.system = deployed.to_system();
    }

    pub async fn create(&self) {
        self.clusters.create(&self.order).await.unwrap();
    }

    pub async fn status_after_start(&self) -> ClusterStatus {
        for _ in 0..6000 {
            match self.clusters.poll(&self.order.name).await.unwrap() {
                ClusterStatus::Starting => tokio::time::sleep(Duration::from_millis(10)).await,
                other => return other,
            }
        }
        panic!("timeout: the cluster is still being deployed")
    }

    /// Reason why the deployment failed.
    pub async fn broken(&self) -> String {
        match self.status_after_start().await {
            ClusterStatus::Broken(why) => why,
            other => panic!("{other:?}\n{}", self.cloud.calls()),
        }
    }

    /// Repeats the deletion until it succeeds or a teardown fails.
    pub async fn delete(&self) -> Result<Deleted, String> {
        for _ in 0..6000 {
            match self.clusters.delete(&self.order.name).await {
                Ok(deleted) => return Ok(deleted),
                Err(PortError::Transient(why))
                    if ["teardown is running", "teardown started", "being stopped"]
                        .iter()
                        .any(|word| why.contains(word)) =>
                {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(PortError::Transient(why)) => return Err(why),
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("timeout: the cluster is not deleted")
    }

    /// Deletes the cluster; no resource may remain.
    pub async fn delete_and_check(&self) {
        let deleted = self.delete().await.unwrap();
        assert!(deleted.evidence.contains("by the label burnin-cluster"), "{deleted:?}");
        assert_eq!(self.cloud.resources(), [""; 0], "remaining resources");
    }
}
