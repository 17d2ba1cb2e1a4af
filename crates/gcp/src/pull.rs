//! Pulls events from a subscription, for services without inbound connections: agents near their clusters.

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use google_cloud_auth::credentials::{self, Credentials, anonymous};
use google_cloud_pubsub::{client::Subscriber, model::Message, subscriber::handler::Handler as Receipt};
use serde_json::json;
use service::push::{Delivery, EventReceiver, carried};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// Maximum concurrent events.
const AT_ONCE: usize = 16;
/// Pause before an ended stream is reopened.
const PAUSE: Duration = Duration::from_secs(1);
/// Grace period for events in progress after a stop signal.
const DRAIN: Duration = Duration::from_secs(5);
/// Default of [`Pull::idle`]: an idle connection is replaced after this time.
pub const IDLE: Duration = Duration::from_secs(60);

/// Source of a service's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The subscription, as `projects/P/subscriptions/S`.
    pub subscription: String,
    /// Cluster whose commands are handled; others are ignored even if the subscription's filter delivers
    /// them.
    pub cluster: Option<String>,
    /// Maximum time on one connection without an event. The client (google-cloud-pubsub 1.7, `subscriber/stream.rs`) does not report failed
    /// attempts to connect, which are up to a minute apart, or a connection that a firewall dropped silently.
    pub idle: Duration,
}

impl Pull {
    /// Pulls until `stop`. A broken stream is reopened, an idle stream replaced.
    ///
    /// # Errors
    /// Returns an error if credentials are missing.
    pub async fn run(
        self,
        emulator: Option<String>,
        receiver: EventReceiver,
        stop: CancellationToken,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let endpoint = emulator.map(|emulator| format!("http://{emulator}"));
        let credentials = match endpoint {
            Some(_) => anonymous::Builder::new().build(),
            None => credentials::Builder::default().build()?,
        };
        let room = Arc::new(Semaphore::new(AT_ONCE));
        info!(subscription = self.subscription, cluster = self.cluster, "pulling");
        while !stop.is_cancelled() {
            let limit = i64::try_from(AT_ONCE).unwrap_or(i64::MAX);
            let subscriber = client(endpoint.as_deref(), credentials.clone()).await?;
            let stream = subscriber.subscribe(&self.subscription).set_max_outstanding_messages(limit);
            let mut stream = stream.build();
            let ending = stream.shutdown_token();
            loop {
                let next = tokio::select! {
                    next = stream.next() => next,
                    () = stop.cancelled() => None,
                    () = tokio::time::sleep(self.idle) => {
                        if room.available_permits() < AT_ONCE {
                            continue;
                        }
                        debug!("no event for {} s, connecting again", self.idle.as_secs());
                        None
                    }
                };
                let (message, receipt) = match next {
                    Some(Ok(received)) => received,
                    Some(Err(error)) => {
                        warn!("the stream failed, reopening it: {}", service::worker::chain(&error));
                        break;
                    }
                    None => break,
                };
                if !self.is_ours(&message) {
                    debug!("ignored an event for another cluster");
                    receipt.ack();
                    continue;
                }
                let Ok(turn) = Arc::clone(&room).acquire_owned().await else { break };
                let receiver = receiver.clone();
                tokio::spawn(async move {
                    handle(&receiver, message, receipt).await;
                    drop(turn);
                });
            }
            if tokio::time::timeout(DRAIN, ending.shutdown()).await.is_err() {
                warn!("events in progress will be delivered again");
            }
            if !stop.is_cancelled() {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    fn is_ours(&self, message: &Message) -> bool {
        match (&self.cluster, message.attributes.get("cluster")) {
            (Some(ours), Some(meant)) => ours == meant,
            _ => true,
        }
    }
}

/// A client with a separate connection, which it opens at the first request.
async fn client(
    endpoint: Option<&str>,
    credentials: Credentials,
) -> Result<Subscriber, google_cloud_gax::client_builder::Error> {
    let builder = Subscriber::builder().with_credentials(credentials);
    match endpoint {
        Some(endpoint) => builder.with_endpoint(endpoint).build().await,
        None => builder.build().await,
    }
}

async fn handle(receiver: &EventReceiver, message: Message, receipt: Receipt) {
    let attributes: BTreeMap<_, _> = message.attributes.into_iter().collect();
    // Parked events have the format of a push, so that they can be redelivered.
    let raw =
        json!({"message": {"attributes": attributes, "data": STANDARD.encode(&message.data)}}).to_string();
    match receiver.receive(carried(attributes, &message.data), raw.as_bytes()).await {
        Delivery::Acknowledged => receipt.ack(),
        Delivery::Refused | Delivery::Broken => receipt.nack(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_another_cluster_are_ignored() {
        let pull = |cluster: Option<&str>| Pull {
            subscription: "projects/p/subscriptions/agent".to_owned(),
            cluster: cluster.map(str::to_owned),
            idle: IDLE,
        };
        let meant = |cluster: &str| Message::new().set_attributes([("cluster", cluster)]);
        assert!(pull(Some("a")).is_ours(&meant("a")));
        assert!(!pull(Some("a")).is_ours(&meant("b")));
        assert!(pull(None).is_ours(&meant("b")), "one agent for all clusters");
        assert!(pull(Some("a")).is_ours(&Message::new()), "the handler classifies the event");
    }
}
