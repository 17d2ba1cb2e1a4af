//! Conversion between domain types and CloudEvents.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use cloudevents::{AttributesReader, Data, Event, EventBuilder, EventBuilderV10, event::ExtensionValue};
use model::{Attempt, Body, CheckIndex, Command, EventKey, Fact, RunId, Timestamp};
use serde::{Deserialize, de::value::MapDeserializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A fact or a command with its envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// CloudEvents `source` and `id`.
    pub key: EventKey,
    /// Run in the event's `subject`.
    pub run: RunId,
    /// The attempt of its stage; 1 for events about the whole run.
    pub attempt: Attempt,
    /// Time of publication by the publisher's clock. For display; deadlines do not depend on it.
    pub time: Option<Timestamp>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Payload of the event.
    pub content: Content,
}

/// Payload of a message: a completed event or a requested operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A past event.
    Fact(Fact),
    /// A requested operation.
    Command(Box<Command>),
}

/// An event that this service cannot read. It is parked, because a redelivery would fail again.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableEvent {
    /// The event type is unknown to this version of the service.
    #[error("event type `{0}` is unknown; update this service if the publisher is newer")]
    UnknownType(String),
    /// An attribute is missing or malformed.
    #[error("event attribute `{attribute}`: {message}")]
    Attribute {
        /// Name of the missing or malformed attribute.
        attribute: &'static str,
        /// Problem with the attribute or payload, for display.
        message: String,
    },
    /// The payload does not match its type.
    #[error("payload of `{event_type}`: {message}")]
    Payload {
        /// CloudEvents `type` of the event.
        event_type: String,
        /// Problem with the attribute or payload, for display.
        message: String,
    },
}

impl Message {
    /// A fact from `publisher`. The id is derived from the content.
    pub fn fact(publisher: &str, run: RunId, attempt: Attempt, fact: Fact) -> Self {
        let id = digest(&run, attempt, &fact);
        let key = EventKey { source: format!("//burnin/{publisher}"), id };
        Self { key, run, attempt, time: None, traceparent: None, content: Content::Fact(fact) }
    }

    /// A command. Its id is the event's id, so a resent command is a duplicate.
    pub fn command(publisher: &str, command: Command) -> Self {
        let key = EventKey { source: format!("//burnin/{publisher}"), id: command.id.to_string() };
        let (run, attempt) = (command.id.run.clone(), command.id.attempt);
        Self {
            key,
            run,
            attempt,
            time: None,
            traceparent: None,
            content: Content::Command(Box::new(command)),
        }
    }

    /// Sets the time of publication, by the publisher's clock, and the trace context.
    #[must_use]
    pub fn stamped(mut self, time: Timestamp, traceparent: Option<String>) -> Self {
        self.time = Some(time);
        self.traceparent = traceparent;
        self
    }

    /// CloudEvents `type`.
    pub const fn event_type(&self) -> &'static str {
        match &self.content {
            Content::Fact(fact) => fact.event_type(),
            Content::Command(command) => command.body.event_type(),
        }
    }

    /// Converts to a CloudEvent.
    ///
    /// # Panics
    /// Never panics: every attribute is set and valid by construction.
    pub fn to_event(&self) -> Event {
        let tagged = match &self.content {
            Content::Fact(fact) => serde_json::to_value(fact),
            Content::Command(command) => serde_json::to_value(&command.body),
        };
        let data =
            tagged.ok().and_then(|mut tagged| Some(tagged.get_mut("data")?.take())).unwrap_or_default();
        let mut builder = EventBuilderV10::new()
            .id(self.key.id.as_str())
            .source(self.key.source.as_str())
            .ty(self.event_type())
            .subject(format!("runs/{}", self.run))
            .extension("attempt", i64::from(self.attempt.number))
            .data("application/json", data);
        if !self.attempt.check.is_first() {
            builder = builder.extension("check", i64::from(self.attempt.check.0) + 1);
        }
        if let Some(time) =
            self.time.and_then(|time| DateTime::<Utc>::from_timestamp_millis(time.as_millis()))
        {
            builder = builder.time(time);
        }
        if let Some(traceparent) = &self.traceparent {
            builder = builder.extension("traceparent", traceparent.as_str());
        }
        builder.build().expect("id, source and type are set and valid")
    }

    /// Reads a CloudEvent, in binary or structured mode.
    ///
    /// # Errors
    /// Returns an error if the type is unknown, an attribute is missing, or the payload does not match its
    /// type.
    pub fn from_event(event: &Event) -> Result<Self, UnreadableEvent> {
        let attribute = |attribute, message: String| UnreadableEvent::Attribute { attribute, message };
        if event.id().is_empty() || event.source().is_empty() {
            return Err(attribute("id, source", "must not be empty".to_owned()));
        }
        let subject = event.subject().unwrap_or_default();
        let run = subject
            .strip_prefix("runs/")
            .ok_or_else(|| attribute("subject", format!("`{subject}` is not `runs/<run id>`")))?
            .parse::<RunId>()
            .map_err(|error| attribute("subject", error.to_string()))?;
        let attempt = attempt(event)?;
        Ok(Self {
            key: EventKey { source: event.source().as_str().to_owned(), id: event.id().to_owned() },
            content: content(event)?,
            run,
            attempt,
            time: event.time().map(|time| Timestamp::from(*time)),
            traceparent: event.extension("traceparent").map(ToString::to_string),
        })
    }
}

fn digest(run: &RunId, attempt: Attempt, fact: &Fact) -> String {
    // serde_json writes struct fields in declaration order, so equal facts have equal bytes.
    let content = serde_json::to_vec(fact).unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [run.as_str().as_bytes(), attempt.to_string().as_bytes(), &content] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..16])
}

/// Reads the attempt from the extensions `attempt` and `check`, each with the default 1.
fn attempt(event: &Event) -> Result<Attempt, UnreadableEvent> {
    let check = CheckIndex(number::<u16>(event, "check")? - 1);
    Ok(Attempt { check, number: number(event, "attempt")? })
}

/// A positive number. Binary mode transmits every extension as text, structured mode as a number.
fn number<N: TryFrom<i64> + PartialOrd + From<u8>>(
    event: &Event,
    attribute: &'static str,
) -> Result<N, UnreadableEvent> {
    let wrong = |message| UnreadableEvent::Attribute { attribute, message };
    let number = match event.extension(attribute) {
        None => return Ok(N::from(1)),
        Some(ExtensionValue::Integer(number)) => *number,
        Some(other) => other.to_string().parse().map_err(|_| wrong(format!("`{other}` is not a number")))?,
    };
    let valid = N::try_from(number).ok().filter(|number| *number >= N::from(1));
    valid.ok_or_else(|| wrong(format!("{number} is out of range; the minimum is 1")))
}

fn content(event: &Event) -> Result<Content, UnreadableEvent> {
    let event_type = event.ty();
    let invalid = |error: serde_json::Error| UnreadableEvent::Payload {
        event_type: event_type.to_owned(),
        message: error.to_string(),
    };
    let data = match event.data() {
        None => Cow::Owned(Value::Null),
        Some(Data::Json(value)) => Cow::Borrowed(value),
        Some(Data::Binary(bytes)) => Cow::Owned(serde_json::from_slice(bytes).map_err(invalid)?),
        Some(Data::String(text)) => Cow::Owned(serde_json::from_str(text).map_err(invalid)?),
    };
    let tag = Value::from(event_type);
    let tagged = || MapDeserializer::new([("type", &tag), ("data", &*data)].into_iter());
    if Body::TYPES.contains(&event_type) {
        let body = Body::deserialize(tagged()).map_err(invalid)?;
        let id = event.id().parse().map_err(|error: model::InvalidId| UnreadableEvent::Attribute {
            attribute: "id",
            message: error.to_string(),
        })?;
        Ok(Content::Command(Box::new(Command { id, body })))
    } else if Fact::TYPES.contains(&event_type) {
        Fact::deserialize(tagged()).map(Content::Fact).map_err(invalid)
    } else {
        Err(UnreadableEvent::UnknownType(event_type.to_owned()))
    }
}
