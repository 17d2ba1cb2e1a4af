//! Events between external systems and the gateway: the only events whose subject is not a run.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use cloudevents::{Data, Event, EventBuilder, EventBuilderV10};
use model::{EventKey, Image, RunClosed, RunId, System, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// CloudEvents type of [`RunRequest`].
pub const RUN_REQUEST: &str = "dev.burnin.run.request.v1";
/// CloudEvents type of [`ClusterOffer`].
pub const CLUSTER_OFFERED: &str = "dev.burnin.cluster.offered.v1";
/// CloudEvents type of [`RunAnswer`].
pub const RUN_ANSWERED: &str = "dev.burnin.run.answered.v1";

/// Requests a run. The event's `source` and `id` are stored permanently: a resent request starts no further run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The workflow's name.
    pub workflow: String,
    /// Workflow fields to override, if the workflow allows it.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Prebuilt image, instead of the workflow's own.
    #[serde(default)]
    pub image: Option<Image>,
}

/// An external cluster that accepts jobs now. Workflows that match it run on it and leave it unchanged. The
/// event's `source` and `id` are stored permanently: a resent offer starts no further run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterOffer {
    /// Name in its own system.
    pub name: String,
    /// Connection settings, as in a workflow's `cluster.existing.system`.
    pub system: System,
}

impl ClusterOffer {
    /// Reads an offer.
    ///
    /// # Errors
    /// Returns an error if the payload is invalid. The gateway reads the settings, and checks them with each workflow
    /// that uses them.
    pub fn of(event: &Event) -> Result<Self, String> {
        payload(event).map_err(|why| format!("payload of `{CLUSTER_OFFERED}`: {why}"))
    }

    /// Kind of cluster, as spelled in the offer.
    pub fn kind(&self) -> &str {
        self.system.kind()
    }
}

/// Result of a [`RunRequest`], or of a [`ClusterOffer`] for one workflow: published on acceptance or
/// rejection, and again at the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunAnswer {
    /// `source` and `id` of the request.
    pub request: EventKey,
    /// The run; null if the request was rejected.
    pub run: Option<RunId>,
    /// Reason for the rejection, which is final.
    pub problem: Option<String>,
    /// Conclusion and verdict of the run; null while it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunClosed>,
}

/// An event's payload, in binary or structured mode.
///
/// # Errors
/// Returns an error if the payload does not match `T`.
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
    /// Returns an error if the payload is invalid.
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
    /// The CloudEvent, published by `publisher`. Its id is derived from the content, so that a repeated
    /// answer is the same event.
    ///
    /// # Panics
    /// Never panics: every attribute is set and valid by construction.
    pub fn to_event(&self, publisher: &str, now: Timestamp) -> Event {
        let data = serde_json::to_value(self).unwrap_or_default();
        let digest = Sha256::digest(data.to_string());
        let id = hex::encode(&digest[..16]);
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
        builder.build().expect("id, source and type are set and valid")
    }
}
