//! Clusters deployed by steps on Cloud Build.

use std::sync::Arc;

use build_service::cloud_build::{CloudBuilds, client::CloudBuildClient, submissions::Timing};
use cloudbuild_standin::{CloudBuild, Fault};
use cluster_api::{ClusterProvider, ClusterStatus, LeaseRequest, provider_conformance};
use cluster_deployed::{Deployed, DeployedClusters};
use ledger::MemoryStore;
use model::{Attempt, BuildSpec, CommandId, Span, Stage, System, Verb};
use serde_json::{Value, json};
use service::{Clock, ManualClock, PortError, SystemClock};

const BUCKET: &str = "burnin-artefacts";
const LIFE: Span = Span::from_secs(3600);
const SETTLE: Span = Span::from_secs(60);

struct CloudBuildDeployment {
    cloud: CloudBuild,
    clock: Arc<ManualClock>,
    clusters: DeployedClusters,
}

impl CloudBuildDeployment {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        let cloud = CloudBuild::serve(store.clone(), BUCKET).await.unwrap();
        let client = CloudBuildClient::new("proj", "us-central1", Some(cloud.endpoint.clone()));
        let timing = Timing { settle: SETTLE, pause: Span::from_secs(0), readings: 3 };
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let builds = CloudBuilds::new(client, store.clone(), BUCKET, clock.clone(), timing);
        let clusters = DeployedClusters::new(&clusters::KINDS, Arc::new(builds), store, clock.clone());
        Self { cloud, clock, clusters }
    }

    /// All builds: tag of the command, cluster, status.
    fn builds(&self) -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = |build: &Value| {
            let tags = build["tags"].as_array().unwrap().iter().map(text);
            tags.filter(|tag| tag.contains(".cluster.")).collect()
        };
        let builds = self.cloud.builds();
        let described = builds
            .iter()
            .map(|build| (key(build), text(&build["substitutions"]["_CLUSTER"]), text(&build["status"])));
        described.collect()
    }
}

fn steps(leaves: &str, content: &Value, ends: &str) -> BuildSpec {
    let config = json!({
        "steps": [{"name": "bash", "script": "true"}],
        "substitutions": {"_CLUSTER": "", "_EXPIRES": ""},
        "artifacts": {"objects": {"location": "gs://anywhere/", "paths": [leaves]}},
        "options": {"substitutionOption": "ALLOW_LOOSE"},
    });
    let values = [("_ENDS", ends.to_owned()), ("_LEAVES", content.to_string())];
    let substitutions = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    BuildSpec { config, source: None, repository: None, substitutions }
}

fn system(destroy_ends: &str) -> System {
    let made = json!({"nodes": [{"name": "a3-0", "slots": 8}], "slurm": {"partition": "a3mega"}});
    let slurm = json!({"nodes": 1, "ranks_per_node": 8, "shared_folder": "/home/burnin"});
    let deployed = Deployed {
        keep: Default::default(),
        deploy: steps("cluster.json", &made, "SUCCESS"),
        destroy: steps("gone.json", &json!({"left": [], "evidence": "the lists are empty"}), destroy_ends),
        system: System::new("slurm", slurm),
    };
    deployed.to_system()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_deployed_by_cloud_build_conform() {
    let bed = CloudBuildDeployment::new().await;
    provider_conformance::clusters(&bed.clusters, &system("SUCCESS"), SystemClock.now() + LIFE).await;
    let builds = bed.builds();
    let tags: Vec<_> = builds.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(
        tags,
        ["burnin.conformance.cluster.1", "burnin.conformance.cluster.1.destroy-1"],
        "expected one deployment and one teardown, and no deployment of a name released before its creation"
    );
    assert!(builds.iter().all(|(_, cluster, _)| cluster == "conformance-cluster-1"), "{builds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_responses_cause_no_second_deployment_or_teardown() {
    for fault in [Fault::LandsAndAnswers(503), Fault::LandsAndTears, Fault::Refused(503)] {
        let bed = CloudBuildDeployment::new().await;
        let run = "lossy".parse().unwrap();
        let id = CommandId { run, stage: Stage::Cluster, attempt: Attempt::FIRST, verb: Verb::Start };
        let (name, expires_at) = (id.resource_name(), SystemClock.now() + LIFE);
        let order = LeaseRequest { name: name.clone(), id, system: system("SUCCESS"), expires_at };
        bed.cloud.next_create(fault);
        while let Err(PortError::Transient(_)) = bed.clusters.create(&order).await {
            bed.clock.advance(SETTLE);
        }
        while bed.clusters.poll(&name).await.unwrap() == ClusterStatus::Starting {}
        assert!(matches!(bed.clusters.poll(&name).await.unwrap(), ClusterStatus::Ready(_)), "{fault:?}");
        bed.cloud.next_create(fault);
        while let Err(PortError::Transient(_)) = bed.clusters.delete(&name).await {
            bed.clock.advance(SETTLE);
        }
        let ended: Vec<_> = bed.builds().into_iter().map(|(key, _, status)| (key, status)).collect();
        let expected = ["burnin.lossy.cluster.1", "burnin.lossy.cluster.1.destroy-1"]
            .map(|key| (key.to_owned(), "SUCCESS".to_owned()));
        assert_eq!(ended, expected, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_ended_by_cloud_build_is_retried() {
    let bed = CloudBuildDeployment::new().await;
    let run = "stuck".parse().unwrap();
    let id = CommandId { run, stage: Stage::Cluster, attempt: Attempt::FIRST, verb: Verb::Start };
    let (name, expires_at) = (id.resource_name(), SystemClock.now() + LIFE);
    let order = LeaseRequest { name: name.clone(), id, system: system("TIMEOUT"), expires_at };
    bed.clusters.create(&order).await.unwrap();
    let reason = loop {
        match bed.clusters.delete(&name).await {
            Err(PortError::Transient(why)) if why.contains("failed teardowns") => break why,
            Err(PortError::Transient(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(
        reason.contains("the build ended with status TIMEOUT") && reason.contains("next attempt at"),
        "{reason}"
    );
    assert_eq!(
        bed.clusters.list().await.unwrap().clusters.len(),
        1,
        "the cluster is listed until it is deleted"
    );
}
