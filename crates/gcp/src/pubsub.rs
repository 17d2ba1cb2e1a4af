//! The bus on Pub/Sub: each event is a message in CloudEvents' binary mode, on its receiver's topic.
//!
//! | attribute | value |
//! |---|---|
//! | `ce-…` | the event's attributes and extensions |
//! | `content-type` | media type of the data |
//! | `googclient_traceparent` | the trace context again, as expected by Google's libraries |
//! | `cluster` | of commands about a cluster: its name, to filter an agent's subscription |
//!
//! The ordering key is the run. No receiver requires order; the key only has an effect on ordered
//! subscriptions.

use std::{collections::BTreeMap, error::Error, time::Duration};

use cloudevents::{AttributesReader, Data, Event};
use events::{topic_of, topics};
use google_cloud_auth::credentials::anonymous;
use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_pubsub::{
    client::{BasePublisher, Publisher},
    model::Message,
    retry_policy::RetryableErrors,
};
use service::{Bus, BusError, telemetry::meters::published};

/// Timeout of a publish. The caller waits for the publish and must respond before its own deadline.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Publishes events on the topics of a project.
pub struct PubSub {
    publishers: BTreeMap<&'static str, Publisher>,
}

impl PubSub {
    /// Uses the topics `projects/{project}/topics/{prefix}{topic}`; `emulator` is its `host:port`.
    ///
    /// # Errors
    /// Returns an error if credentials are missing.
    pub async fn connect(
        project: &str,
        prefix: &str,
        emulator: Option<&str>,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut builder =
            BasePublisher::builder().with_retry_policy(RetryableErrors.with_time_limit(PUBLISH_TIMEOUT));
        if let Some(emulator) = emulator {
            let anonymous = anonymous::Builder::new().build();
            builder = builder.with_endpoint(format!("http://{emulator}")).with_credentials(anonymous);
        }
        let base = builder.build().await?;
        let publisher = |topic: &'static str| {
            let name = format!("projects/{project}/topics/{prefix}{topic}");
            // No batching: the caller waits for each publish.
            (topic, base.publisher(name).set_message_count_threshold(1).build())
        };
        Ok(Self { publishers: topics().into_iter().map(publisher).collect() })
    }
}

#[async_trait::async_trait]
impl Bus for PubSub {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        let failed = |why: String| BusError { id: event.id().to_owned(), why };
        let topic = topic_of(event.ty());
        let publisher = self.publishers.get(topic).ok_or_else(|| failed(format!("unknown topic {topic}")))?;
        let message = message(&event);
        let key = message.ordering_key.clone();
        match tokio::time::timeout(PUBLISH_TIMEOUT, publisher.publish(message)).await {
            Ok(Ok(_)) => {
                published(topic, event.ty(), true);
                Ok(())
            }
            ended => {
                published(topic, event.ty(), false);
                // After a failure the client pauses the ordering key until it is resumed.
                publisher.resume_publish(key);
                Err(failed(match ended {
                    Ok(Err(error)) => service::worker::chain(&error),
                    _ => format!("Pub/Sub did not confirm the event within {} s", PUBLISH_TIMEOUT.as_secs()),
                }))
            }
        }
    }
}

fn message(event: &Event) -> Message {
    let mut attributes: Vec<(String, String)> = vec![
        ("ce-specversion".to_owned(), event.specversion().to_string()),
        ("ce-id".to_owned(), event.id().to_owned()),
        ("ce-source".to_owned(), event.source().clone()),
        ("ce-type".to_owned(), event.ty().to_owned()),
    ];
    attributes.extend(event.subject().map(|subject| ("ce-subject".to_owned(), subject.to_owned())));
    attributes.extend(event.time().map(|time| ("ce-time".to_owned(), time.to_rfc3339())));
    attributes.extend(event.datacontenttype().map(|media| ("content-type".to_owned(), media.to_owned())));
    for (name, value) in event.iter_extensions() {
        if name == "traceparent" {
            attributes.push(("googclient_traceparent".to_owned(), value.to_string()));
        }
        attributes.push((format!("ce-{name}"), value.to_string()));
    }
    if let Some(Data::Json(data)) = event.data() {
        let cluster = data.pointer("/cluster/name").or_else(|| data.pointer("/name"));
        attributes.extend(
            cluster.and_then(|name| name.as_str()).map(|name| ("cluster".to_owned(), name.to_owned())),
        );
    }
    let data = match event.data().cloned() {
        Some(Data::Binary(bytes)) => bytes,
        Some(Data::String(text)) => text.into_bytes(),
        Some(Data::Json(value)) => value.to_string().into_bytes(),
        None => Vec::new(),
    };
    Message::new()
        .set_data(data)
        .set_attributes(attributes)
        .set_ordering_key(event.subject().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use base64::{Engine, engine::general_purpose::STANDARD};
    use events::Message as Ours;
    use model::{Attempt, Fact, Handle, Timestamp};
    use serde_json::json;
    use service::push::decode;

    use super::*;

    #[test]
    fn a_published_event_equals_the_pushed_one() {
        let fact = Fact::JobAccepted(Handle { handle: "4711 é".to_owned() });
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let event = Ours::fact("agent", "run-1".parse().unwrap(), Attempt::new(2), fact)
            .stamped(Timestamp::from_millis(1_795_122_603_412), Some(trace.to_owned()));
        let sent = message(&event.to_event());
        assert_eq!(sent.ordering_key, "runs/run-1");
        assert_eq!(sent.attributes["googclient_traceparent"], trace);
        let attributes: HashMap<_, _> = sent.attributes.iter().collect();
        let pushed = json!({
            "message": {"attributes": attributes, "data": STANDARD.encode(&sent.data), "messageId": "1"},
            "subscription": "projects/p/subscriptions/s",
        });
        let read = decode(&axum_headers(), pushed.to_string().as_bytes()).unwrap();
        assert_eq!(Ours::from_event(&read).unwrap(), event);
    }

    fn axum_headers() -> service::push::Headers {
        let mut headers = service::push::Headers::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers
    }
}
