//! A bucket, the stand-in for Cloud Build, and the builder's adapter that uses both.

use std::{sync::Arc, time::Duration};

use build_service::{
    BuildKey, BuildPhase, Builds,
    cloud_build::{CloudBuilds, client::CloudBuildClient, submissions::Timing},
};
use cloudbuild_standin::CloudBuild;
use ledger::{MemoryStore, Store};
use model::{Attempt, BuildSpec, CommandId, Image, Span, Stage, Timestamp, Verb};
use serde_json::{Value, json};
use service::{Clock, ManualClock};

pub const BUCKET: &str = "burnin-artefacts";
pub const SETTLE: Span = Span::from_secs(120);
pub const LIMIT: Span = Span::from_secs(600);

pub struct CloudBuildBed {
    pub cloud: CloudBuild,
    pub store: Arc<MemoryStore>,
    pub clock: Arc<ManualClock>,
    pub builds: CloudBuilds,
}

impl CloudBuildBed {
    pub async fn new() -> Self {
        let store = Arc::new(MemoryStore::default());
        let cloud = CloudBuild::serve(store.clone(), BUCKET).await.unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        let builds = adapter(&cloud.endpoint, store.clone(), clock.clone());
        Self { cloud, store, clock, builds }
    }

    /// Another builder with the same bucket and stand-in.
    pub fn another(&self) -> CloudBuilds {
        self.at(&self.cloud.endpoint)
    }

    /// A builder that uses Cloud Build at this URL.
    pub fn at(&self, endpoint: &str) -> CloudBuilds {
        adapter(endpoint, self.store.clone(), self.clock.clone())
    }

    pub async fn start(&self, build: &BuildSpec) -> Result<String, service::PortError> {
        self.builds.start(&id(), build, LIMIT).await
    }

    /// Waits for the end of the build.
    pub async fn end(&self) -> BuildPhase {
        for _ in 0..20 {
            match self.builds.poll(&id()).await.unwrap() {
                Some(BuildPhase::Running) => {}
                Some(ended) => return ended,
                None => panic!("the build is absent"),
            }
        }
        panic!("timeout: the build has not ended")
    }

    pub async fn image(&self) -> Image {
        match self.end().await {
            BuildPhase::Built(image) => image,
            other => panic!("{other:?}"),
        }
    }

    /// Statuses of all builds, oldest first.
    pub fn statuses(&self) -> Vec<String> {
        self.cloud.builds().iter().map(|build| build["status"].as_str().unwrap().to_owned()).collect()
    }
}

fn adapter(endpoint: &str, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> CloudBuilds {
    let client = CloudBuildClient::new("proj", "us-central1", Some(endpoint.to_owned()));
    // No pause between two reads of the list, because only the tests advance the clock.
    let timing = Timing { settle: SETTLE, pause: Span(Duration::ZERO), readings: 3 };
    CloudBuilds::new(client, store, BUCKET, clock, timing)
}

pub fn id() -> BuildKey {
    BuildKey::of(&CommandId {
        run: "a-run".parse().unwrap(),
        stage: Stage::Image,
        attempt: Attempt::FIRST,
        verb: Verb::Start,
    })
}

/// A build that ends with this status.
pub fn spec(ends: &str) -> BuildSpec {
    with(json!({}), ends)
}

/// A build with additional fields.
pub fn with(more: Value, ends: &str) -> BuildSpec {
    let mut config = json!({
        "steps": [{"name": "bash", "script": "echo made > made"}],
        "artifacts": {"objects": {"location": "gs://anywhere/", "paths": ["made"]}},
        "options": {"substitutionOption": "ALLOW_LOOSE"},
    });
    for (name, value) in more.as_object().unwrap() {
        config[name] = value.clone();
    }
    BuildSpec {
        config,
        source: None,
        repository: None,
        substitutions: [("_ENDS".to_owned(), ends.to_owned())].into_iter().collect(),
    }
}
