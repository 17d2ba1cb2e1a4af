//! The stand-in, used by Google's own client.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::{
    client::{BasePublisher, Subscriber},
    model::Message,
};
use pubsub_standin::{Access, Address, Broker, PushEndpoint, Subscription};

const TOPIC: &str = "projects/p/topics/t";
const DEAD: &str = "projects/p/topics/dead";
const AGENT: &str = "agent";

/// Denies the listed pairs of caller and permission.
#[derive(Default)]
struct Denies(Mutex<Vec<(&'static str, &'static str)>>);

impl Access for Denies {
    fn admits(&self, caller: &str, permission: &'static str, resource: &str) -> Result<(), String> {
        match self.0.lock().unwrap().contains(&(
            match caller {
                AGENT => AGENT,
                _ => "x",
            },
            permission,
        )) {
            true => Err(format!("{caller} lacks {permission} on {resource}")),
            false => Ok(()),
        }
    }
}

struct Always(u16, Mutex<Vec<u32>>);

#[async_trait::async_trait]
impl PushEndpoint for Always {
    async fn deliver(&self, _: &pubsub_standin::PubsubMessage, attempt: u32) -> u16 {
        self.1.lock().unwrap().push(attempt);
        self.0
    }
}

fn broker(denies: &Arc<Denies>) -> Arc<Broker> {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let broker = Broker::new(Arc::clone(denies) as _, AGENT, Duration::from_millis(1));
    broker.topic(TOPIC);
    broker.topic(DEAD);
    broker
}

fn subscription(name: &str, topic: &str) -> Subscription {
    let name = format!("projects/p/subscriptions/{name}");
    Subscription { name, topic: topic.to_owned(), filter: None, endpoint: None, dead_letters: None }
}

async fn publish(address: &Address, cluster: &str) -> Result<String, String> {
    let anonymous = anonymous::Builder::new().build();
    let base = BasePublisher::builder().with_endpoint(format!("http://{}", address.host));
    let base = base.with_credentials(anonymous).build().await.unwrap();
    let publisher = base.publisher(TOPIC).set_message_count_threshold(1).build();
    let message = Message::new().set_data("content").set_attributes([("cluster", cluster)]);
    publisher.publish(message).await.map_err(|error| format!("{error:?}"))
}

async fn within<T>(what: impl Fn() -> Option<T>) -> T {
    for _ in 0..400 {
        if let Some(found) = what() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("timeout")
}

#[tokio::test]
async fn filtered_messages_are_redelivered_until_the_client_acknowledges_them() {
    let broker = broker(&Arc::default());
    let address = Address::open(&broker, "x").await.unwrap();
    let filter = Some(("cluster".to_owned(), "a".to_owned()));
    broker.subscribe(Subscription { filter, ..subscription("s", TOPIC) });
    publish(&address, "a").await.unwrap();
    publish(&address, "b").await.unwrap();
    assert_eq!(broker.backlog("projects/p/subscriptions/s"), 1);
    let anonymous = anonymous::Builder::new().build();
    let client = Subscriber::builder().with_endpoint(format!("http://{}", address.host));
    let client = client.with_credentials(anonymous).build().await.unwrap();
    let mut stream = client.subscribe("projects/p/subscriptions/s").build();
    let (message, receipt) = stream.next().await.unwrap().unwrap();
    assert_eq!((&message.data[..], message.attributes["cluster"].as_str()), (&b"content"[..], "a"));
    receipt.nack();
    let (_, receipt) = stream.next().await.unwrap().unwrap();
    receipt.ack();
    within(|| (broker.backlog("projects/p/subscriptions/s") == 0).then_some(())).await;
}

#[tokio::test]
async fn a_caller_without_the_permission_is_refused() {
    let denies = Arc::new(Denies::default());
    let broker = broker(&denies);
    let address = Address::open(&broker, "x").await.unwrap();
    denies.0.lock().unwrap().push(("x", "pubsub.topics.publish"));
    let why = publish(&address, "a").await.unwrap_err();
    assert!(
        why.contains("PermissionDenied")
            && why.contains("lacks pubsub.topics.publish on projects/p/topics/t"),
        "{why}"
    );
}

#[tokio::test]
async fn a_message_beyond_the_limits_is_refused() {
    let broker = broker(&Arc::default());
    let address = Address::open(&broker, "x").await.unwrap();
    publish(&address, &"a".repeat(1024)).await.unwrap();
    let why = publish(&address, &"a".repeat(1025)).await.unwrap_err();
    assert!(why.contains("InvalidArgument") && why.contains("a value of 1025 bytes"), "{why}");
}

#[tokio::test]
async fn a_rejected_message_is_pushed_again_and_finally_forwarded_if_the_agent_has_permission() {
    for (missing, forwarded) in
        [(None, 1), (Some("pubsub.topics.publish"), 0), (Some("pubsub.subscriptions.consume"), 0)]
    {
        let denies =
            Arc::new(Denies(Mutex::new(missing.map(|missing| (AGENT, missing)).into_iter().collect())));
        let broker = broker(&denies);
        let endpoint = Arc::new(Always(500, Mutex::default()));
        broker.subscribe(Subscription {
            endpoint: Some(Arc::clone(&endpoint) as _),
            dead_letters: Some((3, DEAD.to_owned())),
            ..subscription("push", TOPIC)
        });
        broker.subscribe(subscription("dead", DEAD));
        broker.publish(TOPIC, pubsub_standin::PubsubMessage::default());
        let wanted = if forwarded == 1 { 3 } else { 5 };
        within(|| (endpoint.1.lock().unwrap().len() >= wanted).then_some(())).await;
        within(|| (broker.backlog("projects/p/subscriptions/dead") == forwarded).then_some(())).await;
        assert_eq!(endpoint.1.lock().unwrap()[..3], [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_message_is_in_the_backlog_until_it_is_acknowledged_even_between_deliveries() {
    let broker = broker(&Arc::default());
    let (failing, accepting) = ("projects/p/subscriptions/failing", "projects/p/subscriptions/accepting");
    let endpoints = [500, 204].map(|status| Arc::new(Always(status, Mutex::default())));
    for (name, endpoint) in [("failing", &endpoints[0]), ("accepting", &endpoints[1])] {
        let endpoint = Some(Arc::clone(endpoint) as _);
        broker.subscribe(Subscription { endpoint, ..subscription(name, TOPIC) });
    }
    broker.repeat(2);
    for _ in 0..2 {
        broker.publish(TOPIC, pubsub_standin::PubsubMessage::default());
    }
    within(|| (broker.backlog(accepting) == 0).then_some(())).await;
    assert_eq!(endpoints[1].1.lock().unwrap().len(), 3, "the second message is delivered twice");
    within(|| (endpoints[0].1.lock().unwrap().len() > 6).then_some(())).await;
    assert_eq!(broker.backlog(failing), 3);
}
