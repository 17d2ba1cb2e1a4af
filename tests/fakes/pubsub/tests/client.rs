//! Tests the stand-in with Google's own client.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
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
    async fn deliver(&self, _: &pubsub_standin::PubsubMessage, attempt: Option<u32>) -> u16 {
        self.1.lock().unwrap().push(attempt.unwrap_or_default());
        self.0
    }
}

/// Accepts the first delivery late; counts deliveries and ends of deliveries.
#[derive(Default)]
struct Slow(AtomicU32, AtomicU32);

#[async_trait::async_trait]
impl PushEndpoint for Slow {
    async fn deliver(&self, _: &pubsub_standin::PubsubMessage, attempt: Option<u32>) -> u16 {
        assert_eq!(
            attempt, None,
            "only messages of a subscription with dead letters have a delivery attempt number"
        );
        if self.0.fetch_add(1, SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        self.1.fetch_add(1, SeqCst);
        200
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
    let (topic, deadline) = (topic.to_owned(), Duration::from_secs(60));
    Subscription { name, topic, filter: None, endpoint: None, dead_letters: None, deadline }
}

async fn publish(address: &Address, cluster: &str) -> Result<String, String> {
    let anonymous = anonymous::Builder::new().build();
    let base = BasePublisher::builder().with_endpoint(format!("http://{}", address.host));
    let base = base.with_credentials(anonymous).build().await.unwrap();
    let publisher = base.publisher(TOPIC).set_message_count_threshold(1).build();
    let message = Message::new().set_data("content").set_attributes([("cluster", cluster)]);
    publisher.publish(message).await.map_err(|error| format!("{error:?}"))
}

async fn wait_for<T>(what: impl Fn() -> Option<T>) -> T {
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
    wait_for(|| (broker.backlog("projects/p/subscriptions/s") == 0).then_some(())).await;
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
        wait_for(|| (endpoint.1.lock().unwrap().len() >= wanted).then_some(())).await;
        wait_for(|| (broker.backlog("projects/p/subscriptions/dead") == forwarded).then_some(())).await;
        assert_eq!(endpoint.1.lock().unwrap()[..3], [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_message_is_delivered_again_at_its_deadline_while_its_first_delivery_is_in_progress() {
    let broker = broker(&Arc::default());
    let endpoint = Arc::new(Slow::default());
    broker.subscribe(Subscription {
        endpoint: Some(Arc::clone(&endpoint) as _),
        deadline: Duration::from_millis(50),
        ..subscription("push", TOPIC)
    });
    broker.publish(TOPIC, pubsub_standin::PubsubMessage::default());
    wait_for(|| (broker.backlog("projects/p/subscriptions/push") == 0).then_some(())).await;
    let counts = || (endpoint.0.load(SeqCst), endpoint.1.load(SeqCst));
    assert_eq!(counts(), (2, 1), "the second delivery is acknowledged before the first ends");
    wait_for(|| (counts() == (2, 2)).then_some(())).await;

    broker.shorten_deadlines(1, Duration::from_millis(1));
    let endpoint = Arc::new(Slow::default());
    broker.subscribe(Subscription {
        endpoint: Some(Arc::clone(&endpoint) as _),
        ..subscription("late", TOPIC)
    });
    broker.publish(TOPIC, pubsub_standin::PubsubMessage::default());
    wait_for(|| (broker.backlog("projects/p/subscriptions/late") == 0).then_some(())).await;
    assert_eq!(endpoint.0.load(SeqCst), 2, "only the first delivery has the short deadline");
}

#[tokio::test]
async fn a_late_acknowledgement_has_no_effect() {
    let broker = broker(&Arc::default());
    let address = Address::open(&broker, "x").await.unwrap();
    broker.subscribe(Subscription { deadline: Duration::from_millis(200), ..subscription("s", TOPIC) });
    publish(&address, "a").await.unwrap();
    let anonymous = anonymous::Builder::new().build();
    let client = Subscriber::builder().with_endpoint(format!("http://{}", address.host));
    let client = client.with_credentials(anonymous).build().await.unwrap();
    let mut stream = client.subscribe("projects/p/subscriptions/s").build();
    let (_, first) = stream.next().await.unwrap().unwrap();
    // The client extends its deadlines only every few seconds.
    let (_, second) = stream.next().await.unwrap().unwrap();
    first.ack();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(broker.backlog("projects/p/subscriptions/s"), 1);
    second.ack();
    wait_for(|| (broker.backlog("projects/p/subscriptions/s") == 0).then_some(())).await;
}

#[tokio::test]
async fn the_number_of_deliveries_before_a_dead_letter_is_approximate_and_some_are_forwarded_twice() {
    let broker = broker(&Arc::default());
    let endpoint = Arc::new(Always(500, Mutex::default()));
    broker.subscribe(Subscription {
        endpoint: Some(Arc::clone(&endpoint) as _),
        dead_letters: Some((5, DEAD.to_owned())),
        ..subscription("push", TOPIC)
    });
    broker.subscribe(subscription("dead", DEAD));
    const MESSAGES: usize = 12;
    for _ in 0..MESSAGES {
        broker.publish(TOPIC, pubsub_standin::PubsubMessage::default());
    }
    wait_for(|| (broker.backlog("projects/p/subscriptions/push") == 0).then_some(())).await;
    // A third of the messages is delivered 5 times, a third 6 times and a third 7 times; a quarter is forwarded twice.
    assert_eq!(endpoint.1.lock().unwrap().len(), MESSAGES / 3 * (5 + 6 + 7));
    assert_eq!(broker.backlog("projects/p/subscriptions/dead"), MESSAGES + MESSAGES / 4);
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
    wait_for(|| (broker.backlog(accepting) == 0).then_some(())).await;
    assert_eq!(endpoints[1].1.lock().unwrap().len(), 3, "the second message is delivered twice");
    wait_for(|| (endpoints[0].1.lock().unwrap().len() > 6).then_some(())).await;
    assert_eq!(broker.backlog(failing), 3);
}
