//! What others say to the gateway and hear from it: the only events that no run is the subject of.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use cloudevents::{Data, Event, EventBuilder, EventBuilderV10};
use model::{EventKey, Image, Kubernetes, RunClosed, RunId, Slurm, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// The type of [`RunRequest`].
pub const RUN_REQUEST: &str = "dev.burnin.run.request.v1";
/// The type of [`ClusterOffer`].
pub const CLUSTER_OFFERED: &str = "dev.burnin.cluster.offered.v1";
/// The type of [`RunAnswer`].
pub const RUN_ANSWERED: &str = "dev.burnin.run.answered.v1";

/// Asks for a run. The event's `source` and `id` are known for ever: sent again, it is the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The workflow's name.
    pub workflow: String,
    /// Fields of the workflow to replace, as far as it lets them be replaced.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// An image that was built already, in place of the workflow's own.
    #[serde(default)]
    pub image: Option<Image>,
}

/// A cluster of another system that can take jobs now. Workflows that want it run on it and leave it alone. The event's
/// `source` and `id` are known for ever: sent again, it starts nothing more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterOffer {
    /// Its name in its own world.
    pub name: String,
    /// How it is reached: what a workflow says under `cluster.existing.system`.
    pub system: OfferedSystem,
}

/// The connection settings of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OfferedSystem {
    /// A Slurm.
    Slurm(Box<Slurm>),
    /// A Kubernetes.
    Kubernetes(Box<Kubernetes>),
}

impl ClusterOffer {
    /// Reads an offer.
    ///
    /// # Errors
    /// What is wrong with its payload. What the settings say is checked with the workflow that uses them.
    pub fn of(event: &Event) -> Result<Self, String> {
        payload(event).map_err(|why| format!("payload of `{CLUSTER_OFFERED}`: {why}"))
    }

    /// The kind of cluster, as it is spelt in the offer.
    pub const fn kind(&self) -> &'static str {
        match self.system {
            OfferedSystem::Slurm(_) => "slurm",
            OfferedSystem::Kubernetes(_) => "kubernetes",
        }
    }
}

/// What came of a [`RunRequest`], or of a [`ClusterOffer`] for one workflow: told when it is taken or refused, and once
/// more when its run has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunAnswer {
    /// `source` and `id` of the request.
    pub request: EventKey,
    /// The run; null when there is none.
    pub run: Option<RunId>,
    /// Why there is none, and never will be.
    pub problem: Option<String>,
    /// How the run ended; null while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunClosed>,
}

/// An event's payload, in whatever mode it travelled.
///
/// # Errors
/// When it is not what was expected.
pub fn payload<T: DeserializeOwned>(event: &Event) -> Result<T, String> {
    let read = match event.data() {
        None => serde_json::from_value(serde_json::Value::Null),
        Some(Data::Json(value)) => serde_json::from_value(value.clone()),
        Some(Data::Binary(bytes)) => serde_json::from_slice(bytes),
        Some(Data::String(text)) => serde_json::from_str(text),
    };
    read.map_err(|error| error.to_string())
}

impl RunRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// What is wrong with its payload.
    pub fn of(event: &Event) -> Result<Self, String> {
        let request: Self = payload(event).map_err(|why| format!("payload of `{RUN_REQUEST}`: {why}"))?;
        if let Some(image) = &request.image {
            let hex = image.digest.strip_prefix("sha256:").unwrap_or_default();
            if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(format!(
                    "image.digest: expected sha256: and 64 hex digits, found `{}`",
                    image.digest
                ));
            }
        }
        Ok(request)
    }
}

impl RunAnswer {
    /// The CloudEvent, as `publisher` says it. Its id follows from what it says, so that the same answer twice is one event.
    ///
    /// # Panics
    /// Never: every attribute is set and legal by construction.
    pub fn to_event(&self, publisher: &str, now: Timestamp) -> Event {
        let data = serde_json::to_value(self).unwrap_or_default();
        let digest = Sha256::digest(data.to_string());
        let id: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let mut builder = EventBuilderV10::new()
            .id(id)
            .source(format!("//burnin/{publisher}"))
            .ty(RUN_ANSWERED)
            .data("application/json", data);
        if let Some(run) = &self.run {
            builder = builder.subject(format!("runs/{run}"));
        }
        if let Some(time) = DateTime::<Utc>::from_timestamp_millis(now.as_millis()) {
            builder = builder.time(time);
        }
        builder.build().expect("id, source and type are set and legal")
    }
}
