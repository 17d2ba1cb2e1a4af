//! Notifications of Cloud Build publish the polled state of a deployment and of its teardown.

use std::sync::{Arc, Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use cluster_api::{ClusterProvider, ClusterStatus, LeaseRequest};
use cluster_deployed::{Deployed, DeployedClusters};
use model::{Attempt, BuildSpec, CommandId, Span, Stage, System, Verb};
use provisioner::{Providers, Provisioner, notification::NotificationHandler};
use serde_json::{Value, json};
use service::{
    Bus, BusError, Clock, Disposition, Event, Handler, PortError, Publisher, WorkerHandler,
    push::{Headers, decode},
};
use test_support::cloud_build::CloudBuildBed;

#[derive(Default)]
struct RecordingBus(Mutex<Vec<Value>>);

#[service::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        self.0.lock().unwrap().push(serde_json::to_value(&event).unwrap());
        Ok(())
    }
}

impl RecordingBus {
    /// Type and id of each published fact, without repetitions.
    fn take(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut facts: Vec<_> = (std::mem::take(&mut *self.0.lock().unwrap()).iter())
            .map(|event| (text(&event["type"]), text(&event["id"])))
            .collect();
        facts.dedup();
        facts
    }
}

fn steps(leaves: &str, content: &Value) -> BuildSpec {
    let config = json!({
        "steps": [{"name": "bash", "script": "true"}],
        "substitutions": {"_CLUSTER": "", "_EXPIRES": ""},
        "artifacts": {"objects": {"location": "gs://anywhere/", "paths": [leaves]}},
        "options": {"substitutionOption": "ALLOW_LOOSE"},
    });
    let values = [("_ENDS", "SUCCESS".to_owned()), ("_LEAVES", content.to_string())];
    let substitutions = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    BuildSpec { config, source: None, repository: None, substitutions }
}

fn system() -> System {
    let made = json!({"nodes": [{"name": "a3-0", "slots": 8}], "slurm": {"partition": "a3mega"}});
    let slurm = json!({"nodes": 1, "ranks_per_node": 8, "shared_folder": "/home/burnin"});
    let deployed = Deployed {
        keep: Default::default(),
        deploy: steps("cluster.json", &made),
        destroy: steps("gone.json", &json!({"left": [], "evidence": "the lists are empty"})),
        system: System::new("slurm", slurm),
    };
    deployed.to_system()
}

/// A message of the topic `cloud-builds`, as its subscription pushes it.
fn notification(build: &Value) -> Value {
    let message = json!({"attributes": {"buildId": build["id"], "status": build["status"]},
        "data": STANDARD.encode(build.to_string()), "messageId": "1", "message_id": "1"});
    json!({"message": message, "subscription": "projects/p/subscriptions/cluster-builds--provisioner"})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ends_of_deployment_and_teardown_are_published() {
    let bed = CloudBuildBed::new().await;
    let builds = Arc::new(bed.another());
    let deployed =
        DeployedClusters::new(&clusters::KINDS, builds.clone(), bed.store.clone(), bed.clock.clone());
    let clusters = Arc::new(Providers { deployed, local: None });
    let bus = Arc::<RecordingBus>::default();
    let worker = Provisioner::new(clusters.clone(), Span::from_secs(3600));
    let commands = Arc::new(WorkerHandler::new(worker, bus.clone(), bed.clock.clone()));
    let publisher = Publisher::new("provisioner", bus.clone(), bed.clock.clone());
    let service = NotificationHandler::new(builds, clusters.clone(), publisher, commands);
    let push = async |body: &Value| {
        service.handle(&decode(&Headers::new(), body.to_string().as_bytes()).unwrap()).await
    };

    let run = "night-1".parse().unwrap();
    let id = CommandId { run, stage: Stage::Cluster, attempt: Attempt::FIRST, verb: Verb::Start };
    let name = id.resource_name();
    let expires_at = bed.clock.now() + Span::from_secs(3600);
    clusters.create(&LeaseRequest { id, name: name.clone(), system: system(), expires_at }).await.unwrap();
    while clusters.poll(&name).await.unwrap() == ClusterStatus::Starting {}
    for pushed in bed.cloud.notifications() {
        assert_eq!(push(&pushed).await, Disposition::Done);
    }
    let ready = bus.take();
    assert_eq!(ready.len(), 1, "{ready:?}");
    assert_eq!(ready[0].0, "dev.burnin.cluster.ready.v1");

    while let Err(PortError::Transient(_)) = clusters.delete(&name).await {}
    let builds = bed.cloud.builds();
    let teardown = builds.last().unwrap();
    assert_eq!(push(&notification(teardown)).await, Disposition::Done);
    let deleted = bus.take();
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    assert_eq!(deleted[0].0, "dev.burnin.cluster.deleted.v1");

    // Builds that neither deploy nor tear down a cluster of Burnin have no effect.
    bed.start(&test_support::cloud_build::spec("SUCCESS")).await.unwrap();
    bed.end().await;
    for build in bed.cloud.builds().iter().filter(|build| !build["tags"].to_string().contains(".cluster.")) {
        assert_eq!(push(&notification(build)).await, Disposition::Done);
    }
    let mut foreign = teardown.clone();
    foreign["tags"] = json!(["nightly"]);
    assert_eq!(push(&notification(&foreign)).await, Disposition::Done);
    assert_eq!(bus.take(), []);
    assert!(matches!(
        push(&notification(&json!({"id": "", "status": "SUCCESS"}))).await,
        Disposition::Park(_)
    ));
}
