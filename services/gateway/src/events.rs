//! Runs requested by messages: `run.request`, and builds of Cloud Build triggers.

use std::collections::BTreeMap;

use events::{CLUSTER_OFFERED, RUN_REQUEST, RunAnswer, RunRequest};
use model::{EventKey, Image, Origin, Trigger};
use serde::Deserialize;
use service::{AttributesReader, Disposition, Event, Handler, push::BUILD_CHANGED};
use tracing::warn;

use crate::{Gateway, StartError, StartRequest};

/// Event types that the gateway handles.
pub const HANDLED_EVENTS: [&str; 3] = [RUN_REQUEST, CLUSTER_OFFERED, BUILD_CHANGED];

#[async_trait::async_trait]
impl Handler for Gateway {
    async fn handle(&self, event: &Event) -> Disposition {
        match event.ty() {
            RUN_REQUEST => self.on_run_request(event).await,
            CLUSTER_OFFERED => self.on_cluster_offer(event).await,
            BUILD_CHANGED => self.on_build_change(event).await,
            other => Disposition::Park(format!("the gateway does not handle `{other}`")),
        }
    }
}

impl Gateway {
    async fn on_run_request(&self, event: &Event) -> Disposition {
        let key = EventKey { source: event.source().as_str().to_owned(), id: event.id().to_owned() };
        let started = match RunRequest::of(event) {
            Err(why) => Err((why, true)),
            Ok(RunRequest { workflow, set, image }) => {
                let request = StartRequest {
                    // A separate source, so that no sender can imitate another kind of key.
                    key: EventKey { source: format!("//burnin/messages/{}", key.source), id: key.id.clone() },
                    workflow,
                    set,
                    image,
                    cluster: None,
                    trigger: Trigger { kind: "message".to_owned(), by: key.source.clone() },
                    origin: Some(Origin::Message(key.clone())),
                };
                let started = self.starter.start(&request).await;
                started.map_err(|refused| (refused.to_string(), refused.is_permanent()))
            }
        };
        let answer = match &started {
            Err((why, false)) => return Disposition::Retry(why.clone()),
            Ok(started) => {
                RunAnswer { request: key, run: Some(started.run.clone()), problem: None, ended: None }
            }
            Err((why, true)) => {
                RunAnswer { request: key, run: None, problem: Some(why.clone()), ended: None }
            }
        };
        if let Err(error) = self.bus.publish(answer.to_event("gateway", self.clock.now())).await {
            return Disposition::Retry(error.to_string());
        }
        match started {
            Ok(_) => Disposition::Done,
            Err((why, _)) => Disposition::Park(why),
        }
    }

    async fn on_build_change(&self, event: &Event) -> Disposition {
        let build: BuildMessage = match events::payload(event) {
            Ok(build) => build,
            Err(why) => return Disposition::Park(format!("not a build: {why}")),
        };
        if build.status != "SUCCESS" {
            return Disposition::Done;
        }
        let read = match self.catalogue.read().await {
            Ok(read) => read,
            Err(error) => return Disposition::Retry(error.to_string()),
        };
        // A refused workflow does not prevent the others from starting.
        let mut refusals = Vec::new();
        for (name, entry) in &read.workflows {
            let Some(on) = entry.offered.on.build.iter().find(|on| build.is_of(&on.trigger)) else {
                continue;
            };
            let image = on.image.as_ref().map(|image| build.image(image));
            if let Some(None) = image {
                warn!(workflow = name, build = build.id, image = ?on.image, "the build pushed no image of this name");
                continue;
            }
            let request = StartRequest {
                key: EventKey { source: "//cloudbuild.googleapis.com".to_owned(), id: build.id.clone() },
                workflow: name.clone(),
                set: BTreeMap::new(),
                image: image.flatten(),
                cluster: None,
                trigger: Trigger {
                    kind: "message".to_owned(),
                    by: format!("the build trigger {}", on.trigger),
                },
                origin: None,
            };
            match self.starter.start(&request).await {
                Ok(_) => {}
                Err(StartError::Transient(why)) => return Disposition::Retry(why),
                Err(refused) => refusals.push(format!("{name}: {refused}")),
            }
        }
        if refusals.is_empty() { Disposition::Done } else { Disposition::Park(refusals.join("; ")) }
    }
}

/// Fields of a build, in Cloud Build's terms.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuildMessage {
    id: String,
    status: String,
    #[serde(default)]
    build_trigger_id: String,
    #[serde(default)]
    substitutions: BTreeMap<String, String>,
    #[serde(default)]
    results: BuildResults,
}

#[derive(Debug, Default, Deserialize)]
struct BuildResults {
    #[serde(default)]
    images: Vec<PushedImage>,
}

#[derive(Debug, Deserialize)]
struct PushedImage {
    name: String,
    digest: String,
}

impl BuildMessage {
    fn is_of(&self, trigger: &str) -> bool {
        self.build_trigger_id == trigger
            || self.substitutions.get("TRIGGER_NAME").is_some_and(|name| name == trigger)
    }

    /// The image of this name, by digest.
    fn image(&self, name: &str) -> Option<Image> {
        let untagged = |pushed: &str| match pushed.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => name.to_owned(),
            _ => pushed.to_owned(),
        };
        let pushed = self.results.images.iter().find(|pushed| untagged(&pushed.name) == name)?;
        let reference = format!("{name}@{}", pushed.digest);
        Some(Image { reference, digest: pushed.digest.clone(), files: Vec::new(), manifest_sha256: None })
    }
}
