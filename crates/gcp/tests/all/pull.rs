//! Pulls events from a stand-in for Pub/Sub.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use gcp::pull::Pull;
use pubsub_standin::{Access, Address, Broker, PubsubMessage, Subscription};
use service::{DeadLetters, Disposition, Event, Handler, async_trait, push::EventReceiver};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

const TOPIC: &str = "projects/p/topics/agent";
const SUBSCRIPTION: &str = "projects/p/subscriptions/a";

struct AcceptsEveryCaller;

impl Access for AcceptsEveryCaller {
    fn admits(&self, _: &str, _: &'static str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// Sends parked messages to the test: the receiver parks every message that is not an event.
struct RecordedDeadLetters(UnboundedSender<String>);

#[async_trait]
impl Handler for RecordedDeadLetters {
    async fn handle(&self, _: &Event) -> Disposition {
        Disposition::Done
    }
}

#[async_trait]
impl DeadLetters for RecordedDeadLetters {
    async fn park(&self, _: &str, _: &str, raw: &[u8]) -> Result<(), String> {
        self.0.send(String::from_utf8_lossy(raw).into_owned()).map_err(|error| error.to_string())
    }
}

/// Google's client waits for up to a minute after several failed attempts to connect.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_connects_within_six_seconds_after_an_outage() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (sender, mut parked) = unbounded_channel();
    let recorder = Arc::new(RecordedDeadLetters(sender));
    let receiver = EventReceiver { handler: recorder.clone(), dead_letters: recorder };
    let idle = Duration::from_secs(1);
    let pull = Pull { subscription: SUBSCRIPTION.to_owned(), cluster: None, idle };
    let stop = CancellationToken::new();
    let pulling = tokio::spawn(pull.run(Some(unused.to_string()), receiver, stop.clone()));
    tokio::time::sleep(Duration::from_secs(9)).await;

    let broker = Broker::new(Arc::new(AcceptsEveryCaller), "google", Duration::from_millis(10));
    broker.topic(TOPIC);
    broker.subscribe(Subscription {
        name: SUBSCRIPTION.to_owned(),
        topic: TOPIC.to_owned(),
        filter: None,
        endpoint: None,
        dead_letters: None,
        deadline: Duration::from_secs(60),
    });
    let _address = Address::open_at(&broker, "agent", unused).await.unwrap();
    for content in ["first", "second"] {
        broker.publish(TOPIC, PubsubMessage { data: content.into(), ..PubsubMessage::default() });
        let received = timeout(Duration::from_secs(6), parked.recv()).await.unwrap().unwrap();
        assert!(received.contains(&STANDARD.encode(content)), "{received}");
        // Exceed the idle timeout, so that the second message needs a new connection.
        tokio::time::sleep(2 * idle).await;
    }
    assert_eq!(broker.backlog(SUBSCRIPTION), 0, "each event is acknowledged");
    // Pub/Sub delivers at least once: an acknowledgement may be lost with an idle connection.
    let again = parked.try_recv().ok();
    assert!(again.as_ref().is_none_or(|again| again.contains(&STANDARD.encode("second"))), "{again:?}");
    stop.cancel();
    pulling.await.unwrap().unwrap();
}
