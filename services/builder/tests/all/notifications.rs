//! Notifications in any order publish the polled state.

use std::sync::{Arc, Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use build_service::{BuildKey, BuildPhase, Builds, cloud_build::CloudBuilds};
use builder::{Builder, notification::NotificationHandler};
use cloudbuild_standin::Fault;
use model::{Attempt, Class, CommandId, Span, Stage};
use serde_json::{Value, json};
use service::{
    Bus, BusError, Disposition, Event, Handler, Publisher, WorkerHandler,
    push::{Headers, decode},
};

use test_support::cloud_build::{CloudBuildBed, LIMIT, SETTLE, id, spec};

#[derive(Default)]
struct RecordingBus(Mutex<Vec<Value>>);

#[service::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        let event = serde_json::to_value(&event).unwrap();
        self.0.lock().unwrap().push(json!([event["type"], event["id"]]));
        Ok(())
    }
}

impl RecordingBus {
    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct BuilderBed {
    bed: CloudBuildBed,
    bus: Arc<RecordingBus>,
    handler: NotificationHandler,
}

impl BuilderBed {
    async fn new() -> Self {
        let bed = CloudBuildBed::new().await;
        let builds: Arc<CloudBuilds> = Arc::new(bed.another());
        let bus = Arc::<RecordingBus>::default();
        let publisher = Publisher::new("builder", bus.clone(), bed.clock.clone());
        let worker = Builder::new(builds.clone(), Span::from_secs(10));
        let commands = WorkerHandler::new(worker, bus.clone(), bed.clock.clone());
        Self { bed, bus, handler: NotificationHandler::new(builds, publisher, Arc::new(commands)) }
    }

    async fn push(&self, body: &Value) -> Disposition {
        let event = decode(&Headers::new(), body.to_string().as_bytes()).unwrap();
        assert_eq!(event_type(&event), NotificationHandler::HANDLED_EVENT);
        self.handler.handle(&event).await
    }
}

fn event_type(event: &Event) -> String {
    service::AttributesReader::ty(event).to_owned()
}

fn notification(build: &Value) -> Value {
    json!({
        "message": {
            "attributes": {"buildId": build["id"], "status": build["status"]},
            "data": STANDARD.encode(build.to_string()), "messageId": "1", "message_id": "1",
        },
        "subscription": "projects/p/subscriptions/cloud-builds--builder",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn reordered_and_repeated_notifications_publish_one_end() {
    for (ends, fact) in [("SUCCESS", "dev.burnin.image.built.v1"), ("FAILURE", "dev.burnin.image.failed.v1")]
    {
        let mut published = Vec::new();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let service = BuilderBed::new().await;
            service.bed.start(&spec(ends)).await.unwrap();
            service.bed.end().await;
            let pushes = service.bed.cloud.notifications();
            assert_eq!(pushes.len(), 3, "the states queued, working and ended have one notification each");
            for at in order.into_iter().chain(order) {
                assert_eq!(service.push(&pushes[at]).await, Disposition::Done);
            }
            let mut facts = service.bus.take();
            assert_eq!(facts.len(), 6, "the polled state is published, regardless of the message");
            facts.dedup();
            assert_eq!(facts.len(), 1, "{facts:?}");
            assert_eq!(facts[0][0], fact);
            published.push(facts.remove(0));
        }
        // Failures quote the build's id, so only the kind of the fact is equal.
        assert!(published.iter().all(|entry| entry[0] == published[0][0]), "{published:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_of_running_builds_publish_nothing() {
    let service = BuilderBed::new().await;
    service.bed.cloud.pause_builds(true);
    service.bed.start(&spec("SUCCESS")).await.unwrap();
    let pushes = service.bed.cloud.notifications();
    assert_eq!(service.push(&pushes[0]).await, Disposition::Done);
    let build = &service.bed.cloud.builds()[0];
    let mut later = build.clone();
    for status in ["SUCCESS", "ON_HOLIDAY", "STATUS_UNKNOWN"] {
        later["status"] = status.into();
        assert_eq!(service.push(&notification(&later)).await, Disposition::Done, "{status}");
    }
    assert_eq!(service.bus.take(), Vec::<Value>::new(), "a message alone does not end a build");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_reveals_a_build_missing_in_the_list() {
    let service = BuilderBed::new().await;
    service.bed.cloud.stale_lists(1000);
    service.bed.cloud.next_create(Fault::LandsAndTears);
    assert!(service.bed.start(&spec("SUCCESS")).await.is_err());
    let pushes = service.bed.cloud.notifications();
    assert_eq!(service.push(&pushes[0]).await, Disposition::Done);
    service.bed.start(&spec("SUCCESS")).await.unwrap();
    service.bed.image().await;
    assert_eq!(service.bed.cloud.request_counts().0, 1, "no other build was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_appears_after_its_cancel_is_cancelled() {
    let service = BuilderBed::new().await;
    let bed = &service.bed;
    bed.cloud.pause_builds(true);
    bed.cloud.stale_lists(1000);
    bed.cloud.next_create(Fault::LandsAndTears);
    assert!(bed.start(&spec("SUCCESS")).await.is_err());
    bed.builds.cancel(&id()).await.unwrap();
    bed.clock.advance(SETTLE);
    let BuildPhase::Failed(failure) = bed.end().await else { panic!("the build was cancelled") };
    assert_eq!(
        failure.class,
        Class::Cancelled,
        "the build was missing in the lists for longer than the settle time"
    );
    assert_eq!(bed.statuses(), ["QUEUED"]);
    assert_eq!(service.push(&bed.cloud.notifications()[0]).await, Disposition::Done);
    assert_eq!(bed.statuses(), ["CANCELLED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_builds_are_acknowledged() {
    let service = BuilderBed::new().await;
    let theirs = json!({"id": "b1", "status": "SUCCESS", "tags": ["nightly"], "projectId": "proj"});
    assert_eq!(service.push(&notification(&theirs)).await, Disposition::Done);
    let forged =
        json!({"id": "none", "status": "SUCCESS", "tags": ["burnin.a-run.image.1", "burnin.claim.1"]});
    assert_eq!(service.push(&notification(&forged)).await, Disposition::Done);
    let clusters = CommandId { stage: Stage::Cluster, attempt: Attempt::new(2), ..id().command().clone() };
    service.bed.builds.start(&BuildKey::of(&clusters), &spec("SUCCESS"), LIMIT).await.unwrap();
    let pushes = service.bed.cloud.notifications();
    assert_eq!(service.push(&pushes[0]).await, Disposition::Done, "the provisioner's");
    assert_eq!(service.bus.take(), Vec::<Value>::new());
    assert_eq!(service.bed.builds.poll(&id()).await.unwrap(), None, "a forged build is not recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_notifications_are_parked() {
    let service = BuilderBed::new().await;
    for data in ["", "[]", "{}", "not json", r#"{"id": 5}"#] {
        let push = json!({"message": {"attributes": {"buildId": "b", "status": "SUCCESS"}, "data": STANDARD.encode(data)}});
        let disposition = service.push(&push).await;
        assert!(matches!(disposition, Disposition::Park(_)), "{data:?}: {disposition:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_passed_to_the_command_handler() {
    let service = BuilderBed::new().await;
    let command = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/contract/builder/observe-unknown.command.json"
    ));
    let event: Event = serde_json::from_slice(&command.unwrap()).unwrap();
    assert_eq!(service.handler.handle(&event).await, Disposition::Done);
    let facts = service.bus.take();
    assert_eq!(
        (facts.len(), &facts[0][0]),
        (1, &json!("dev.burnin.image.failed.v1")),
        "the absent build is reported"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_pushed_over_http_end_an_unpolled_build() {
    let service = BuilderBed::new().await;
    let BuilderBed { bed, bus, handler } = service;
    let dead_letters = Arc::new(service::StoredDeadLetters::new(bed.store.clone(), bed.clock.clone()));
    let router = service::serve::router(service::serve::Service {
        name: "builder",
        version: "0",
        revision: None,
        handled_events: vec![NotificationHandler::HANDLED_EVENT],
        handler: Arc::new(handler),
        dead_letters,
        periodic_tasks: vec![],
        authenticator: None,
        telemetry: None,
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    bed.cloud.push_to(&format!("http://{}/", listener.local_addr().unwrap()));
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(service::serve::serve(listener, router, stop.clone()));
    bed.start(&spec("SUCCESS")).await.unwrap();
    // Each push causes a poll, each poll advances the build, and each change is pushed.
    let end = async {
        while bus.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), end).await.expect("the end is published");
    assert_eq!(bus.take()[0][0], "dev.burnin.image.built.v1");
    stop.cancel();
    serving.await.unwrap().unwrap();
    assert_eq!(ledger::Store::list(&*bed.store, "parked/").await.unwrap(), Vec::<String>::new());
}
