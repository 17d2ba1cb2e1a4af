//! HTTP receiver: CloudEvents in binary and structured mode, and Pub/Sub's wrapped pushes of either. Cloud
//! Build's notifications are not CloudEvents; a push of one is converted to the event that Google defines for
//! it.
//!
//! Pub/Sub redelivers everything not answered with 200, 201 or 204, for a week. Therefore permanent failures
//! are parked and acknowledged; only transient ones are rejected.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{FromRequest, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use cloudevents::{AttributesReader, Event, EventBuilder, EventBuilderV10};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use tracing::{error, warn};

pub use axum::http::HeaderMap as Headers;

use crate::{DeadLetters, Disposition, Handler, auth::Caller, telemetry::meters::processed};

/// A Pub/Sub message has at most 10 MB, which is 13.4 MB in base64, plus attributes.
pub const BODY_LIMIT: usize = 16 << 20;

/// The type of a Cloud Build notification in Google's own CloudEvents.
pub const BUILD_CHANGED: &str = "google.cloud.cloudbuild.build.v1.statusChanged";

/// Passes events to a handler, in any encoding.
#[derive(Clone)]
pub struct EventReceiver {
    pub handler: Arc<dyn Handler>,
    /// Stores unreadable events.
    pub dead_letters: Arc<dyn DeadLetters>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Handled or parked durably: do not redeliver.
    Acknowledged,
    /// Transient failure: redeliver.
    Refused,
    /// The handler panicked: redeliver, and inspect the log.
    Broken,
}

impl EventReceiver {
    /// Handles an event; parks an unreadable event with the reason. `raw` is the received body.
    pub async fn receive(&self, event: Result<Event, String>, raw: &[u8]) -> Delivery {
        let started = Instant::now();
        let (id, event_type, why) = match event {
            Err(why) => (name_of(raw), "unreadable".to_owned(), why),
            Ok(event) => {
                let (id, event_type) = (event.id().to_owned(), event.ty().to_owned());
                // A separate task, so that a panic results in a response rather than a closed connection.
                let handler = Arc::clone(&self.handler);
                match tokio::spawn(async move { handler.handle(&event).await }).await {
                    Ok(Disposition::Done) => {
                        processed(&event_type, "done", started.elapsed());
                        return Delivery::Acknowledged;
                    }
                    Ok(Disposition::Park(why)) => (id, event_type, why),
                    Ok(Disposition::Retry(why)) => {
                        processed(&event_type, "retried", started.elapsed());
                        warn!(event.id = id, "the event was rejected and will be redelivered: {why}");
                        return Delivery::Refused;
                    }
                    Err(stopped) => {
                        processed(&event_type, "broken", started.elapsed());
                        error!(event.id = id, "the handler panicked: {stopped}");
                        return Delivery::Broken;
                    }
                }
            }
        };
        match self.dead_letters.park(&id, &why, raw).await {
            Ok(()) => {
                processed(&event_type, "parked", started.elapsed());
                Delivery::Acknowledged
            }
            Err(error) => {
                error!(event.id = id, "the event cannot be parked: {error}");
                Delivery::Refused
            }
        }
    }
}

pub(crate) async fn receive(
    State(receiver): State<EventReceiver>,
    caller: Option<Extension<Caller>>,
    pushed: Pushed,
) -> StatusCode {
    let Pushed { event, raw, subscription } = pushed;
    if let Some(Extension(caller)) = caller
        && !caller.may_deliver_for(subscription.as_deref())
    {
        warn!(
            caller = caller.email,
            subscription, "caller rejected: the account has no permission to deliver for this subscription"
        );
        return StatusCode::FORBIDDEN;
    }
    match receiver.receive(event, &raw).await {
        Delivery::Acknowledged => StatusCode::NO_CONTENT,
        Delivery::Refused => StatusCode::SERVICE_UNAVAILABLE,
        Delivery::Broken => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A name for bytes without an event id.
fn name_of(raw: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    raw.hash(&mut hasher);
    format!("unreadable-{:016x}", hasher.finish())
}

/// A pushed event, or the reason why it is unreadable.
#[derive(Debug)]
pub struct Pushed {
    /// The event, or the reason why the request is unreadable.
    pub event: Result<Event, String>,
    /// The received body.
    pub raw: Bytes,
    /// Subscription named in the body.
    pub subscription: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for Pushed {
    type Rejection = StatusCode;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, StatusCode> {
        let (parts, body) = request.into_parts();
        let raw = axum::body::to_bytes(body, BODY_LIMIT).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
        #[derive(Deserialize)]
        struct Delivered {
            subscription: Option<String>,
        }
        let delivered = serde_json::from_slice::<Delivered>(&raw).ok();
        let subscription = delivered.and_then(|delivered| delivered.subscription);
        Ok(Self { event: decode(&parts.headers, &raw), raw, subscription })
    }
}

/// Reads an event from headers and body.
///
/// # Errors
/// Returns an error if the event is unreadable. The error is stored with the parked event.
pub fn decode(headers: &Headers, body: &[u8]) -> Result<Event, String> {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut attributes = BTreeMap::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix("ce-") {
            let value = value.to_str().map_err(|_| format!("header ce-{name} is not ASCII text"))?;
            // The HTTP binding percent-encodes header values; the SDK does not decode them.
            let decoded = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| format!("header ce-{name} is not UTF-8"))?;
            attributes.insert(name.to_owned(), decoded.into_owned());
        }
    }
    match media(media_type) {
        Media::Structured => structured(body),
        Media::Batch => Err("batches are not supported; publish one event per message".to_owned()),
        _ if attributes.contains_key("specversion") => binary(attributes, Some(media_type), body),
        Media::Other => wrapped(body),
    }
}

enum Media {
    Structured,
    Batch,
    Other,
}

/// Media types are case-insensitive and may have parameters.
fn media(content_type: &str) -> Media {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/cloudevents+json" => Media::Structured,
        other if other.starts_with("application/cloudevents-batch") => Media::Batch,
        _ => Media::Other,
    }
}

fn structured(body: &[u8]) -> Result<Event, String> {
    let event =
        serde_json::from_slice(body).map_err(|error| format!("not a structured CloudEvent: {error}"))?;
    checked(event)
}

fn binary(
    mut attributes: BTreeMap<String, String>,
    media_type: Option<&str>,
    body: &[u8],
) -> Result<Event, String> {
    let mut take = |name: &str| attributes.remove(name);
    let version = take("specversion").unwrap_or_default();
    if version != "1.0" {
        return Err(format!("specversion `{version}` is not supported; send CloudEvents 1.0"));
    }
    let mut builder = EventBuilderV10::new()
        .id(take("id").ok_or("ce-id is missing")?)
        .source(take("source").ok_or("ce-source is missing")?)
        .ty(take("type").ok_or("ce-type is missing")?);
    if let Some(subject) = take("subject") {
        builder = builder.subject(subject);
    }
    if let Some(time) = take("time") {
        builder = builder.time(time);
    }
    let data_type = take("datacontenttype");
    for (name, value) in attributes {
        builder = builder.extension(&name, value);
    }
    let mut event = builder.build().map_err(|error| format!("not a CloudEvent: {error}"))?;
    if !body.is_empty() {
        let media_type = data_type.as_deref().or(media_type).unwrap_or("application/json");
        event.set_data(media_type, body.to_vec());
    }
    checked(event)
}

/// Pub/Sub's wrapped push. Only camelCase keys are read: the body has both spellings, and an alias would turn
/// every real push into a duplicate field.
#[derive(Deserialize)]
struct Envelope {
    message: PubsubMessage,
}

#[derive(Deserialize)]
struct PubsubMessage {
    #[serde(default)]
    data: String,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

fn wrapped(body: &[u8]) -> Result<Event, String> {
    let Envelope { message } = serde_json::from_slice(body)
        .map_err(|error| format!("neither a CloudEvent nor a Pub/Sub push: {error}"))?;
    let data =
        STANDARD.decode(&message.data).map_err(|error| format!("message.data is not base64: {error}"))?;
    carried(message.attributes, &data)
}

/// Reads an event from the attributes and data of a Pub/Sub message.
///
/// # Errors
/// Returns an error, the problem, if the message is not an event.
pub fn carried(received: BTreeMap<String, String>, data: &[u8]) -> Result<Event, String> {
    let mut attributes = BTreeMap::new();
    let mut media_type = None;
    let changed = notification(&received);
    for (name, value) in received {
        // Producers use `content-type`, `Content-Type` and `ce-datacontenttype`.
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("ce-") {
            Some("datacontenttype") => media_type = media_type.or(Some(value)),
            Some(attribute) => _ = attributes.insert(attribute.to_owned(), value),
            None if name == "content-type" => media_type = Some(value),
            None => {}
        }
    }
    if matches!(media(media_type.as_deref().unwrap_or_default()), Media::Structured) {
        return structured(data);
    }
    if attributes.contains_key("specversion") {
        return binary(attributes, media_type.as_deref(), data);
    }
    if let Some(attributes) = changed {
        return binary(attributes, Some("application/json"), data);
    }
    structured(data)
}

/// Event attributes for a message of the topic `cloud-builds`: the message's attributes contain the build's id and status, and its data is
/// the build. The same change has the same id in every publication.
fn notification(attributes: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    let (build, status) = (attributes.get("buildId")?, attributes.get("status")?);
    let event = [
        ("specversion", "1.0".to_owned()),
        ("id", format!("{build}-{status}")),
        ("source", "//cloudbuild.googleapis.com".to_owned()),
        ("type", BUILD_CHANGED.to_owned()),
    ];
    Some(event.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Checks rules of the specification that the SDK does not check.
fn checked(event: Event) -> Result<Event, String> {
    for (name, value) in [("id", event.id()), ("type", event.ty()), ("source", event.source().as_str())] {
        if value.is_empty() {
            return Err(format!("attribute `{name}` is empty"));
        }
    }
    let illegal = event.iter_extensions().find(|(name, _)| {
        name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    });
    match illegal {
        Some((name, _)) => Err(format!("extension `{name}` is not lower-case letters and digits")),
        None => Ok(event),
    }
}
