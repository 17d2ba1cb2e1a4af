//! Delivers messages of topics to subscriptions, with retries and dead letters.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{Access, PubsubMessage};

#[async_trait::async_trait]
pub trait PushEndpoint: Send + Sync {
    /// Returns the status of the response; 0 without a response. `attempt`: delivery attempt number, only for a subscription with a
    /// dead-letter topic.
    async fn deliver(&self, message: &PubsubMessage, attempt: Option<u32>) -> u16;
}

pub struct Subscription {
    /// Full name, `projects/P/subscriptions/S`.
    pub name: String,
    /// Topic of the subscription, `projects/P/topics/T`.
    pub topic: String,
    /// The attribute and value that a message must have.
    pub filter: Option<(String, String)>,
    /// Receiver of pushes; without it clients pull.
    pub endpoint: Option<Arc<dyn PushEndpoint>>,
    /// Maximum number of deliveries, and the topic for messages that reach this number. Pub/Sub counts only approximately: a message may be
    /// delivered up to two times more, and forwarded twice (reference of `DeadLetterPolicy`).
    pub dead_letters: Option<(u32, String)>,
    /// Maximum time until the acknowledgement of a delivery; of a push also the maximum time of its request (reference of
    /// `Subscription.ackDeadlineSeconds`). Afterwards the message is delivered again, while the first delivery may still be in progress.
    pub deadline: Duration,
}

impl Subscription {
    /// Delivery attempt number as stated to the receiver; `None` for a subscription without a dead-letter topic.
    pub(crate) fn stated(&self, attempt: u32) -> Option<u32> {
        self.dead_letters.as_ref().map(|_| attempt)
    }
}

/// Maximum deadline that a client may set (reference of `ModifyAckDeadline`).
const LONGEST_DEADLINE: Duration = Duration::from_secs(600);

/// A message of a subscription.
struct Queued {
    message: PubsubMessage,
    attempt: u32,
}

/// A pulled message.
struct Leased {
    queued: Queued,
    until: Instant,
}

struct MessageQueue {
    settings: Arc<Subscription>,
    waiting: VecDeque<Queued>,
    /// Pulled messages by their acknowledgement ids.
    pulled: BTreeMap<String, Leased>,
    wake: Arc<Notify>,
    /// Messages that are neither acknowledged nor forwarded as dead letters.
    unacknowledged: usize,
    /// All deliveries to this subscription fail while this is `true`.
    failing: bool,
}

impl MessageQueue {
    fn push(&mut self, message: PubsubMessage) {
        self.waiting.push_back(Queued { message, attempt: 1 });
        self.unacknowledged += 1;
        self.wake.notify_one();
    }
}

#[derive(Default)]
struct BrokerState {
    topics: BTreeMap<String, u64>,
    queues: BTreeMap<String, MessageQueue>,
    numbers: u64,
    /// Each message whose number is divisible by this value is delivered twice; 0: no message.
    repeated: u64,
    /// Divisor and deadline: a message whose number is divisible by the divisor has this deadline at its first delivery. Divisor 0: no
    /// message.
    shortened: (u64, Duration),
}

/// All topics and subscriptions. Messages are delivered at least once, in no order.
pub struct Broker {
    inner: Mutex<BrokerState>,
    pub(crate) access: Arc<dyn Access>,
    /// Pub/Sub's service agent, which forwards dead letters.
    agent: String,
    /// Pause after the first failed delivery; doubled after each further failed delivery.
    pause: Duration,
}

impl Broker {
    /// Creates a broker without topics. `agent` is the member that forwards dead letters.
    pub fn new(access: Arc<dyn Access>, agent: &str, pause: Duration) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), access, agent: agent.to_owned(), pause })
    }

    fn lock(&self) -> MutexGuard<'_, BrokerState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn topic(&self, name: &str) {
        self.lock().topics.entry(name.to_owned()).or_default();
    }

    /// Creates a subscription and delivers its messages if it has an endpoint, until the broker is dropped.
    pub fn subscribe(self: &Arc<Self>, settings: Subscription) {
        let settings = Arc::new(settings);
        let wake = Arc::new(Notify::new());
        let queue = MessageQueue {
            settings: Arc::clone(&settings),
            waiting: VecDeque::new(),
            pulled: BTreeMap::new(),
            wake: Arc::clone(&wake),
            unacknowledged: 0,
            failing: false,
        };
        self.lock().queues.insert(settings.name.clone(), queue);
        let Some(endpoint) = settings.endpoint.clone() else { return };
        let broker = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                wake.notified().await;
                loop {
                    let Some(broker) = broker.upgrade() else { return };
                    let Some(queued) = broker.take(&settings.name) else { break };
                    let (endpoint, settings) = (Arc::clone(&endpoint), Arc::clone(&settings));
                    tokio::spawn(async move {
                        let status = broker.pushed(&endpoint, &settings, &queued).await;
                        // These statuses acknowledge a message; all others reject it (Pub/Sub's page "Push subscriptions").
                        if matches!(status, 102 | 200 | 201 | 202 | 204) {
                            broker.subtract_unacknowledged(&settings.name, 1);
                        } else {
                            broker.rejected(&settings.name, queued);
                        }
                    });
                }
            }
        });
    }

    /// Pushes a message. Returns the status of the response, or 0 without a response before the deadline; the delivery then continues.
    async fn pushed(
        &self,
        endpoint: &Arc<dyn PushEndpoint>,
        settings: &Subscription,
        queued: &Queued,
    ) -> u16 {
        let (failing, deadline) = {
            let inner = self.lock();
            let (every, short) = inner.shortened;
            let number: u64 = queued.message.message_id.parse().unwrap_or_default();
            let is_hurried = every > 0 && queued.attempt == 1 && number.is_multiple_of(every);
            let failing = inner.queues.get(&settings.name).is_some_and(|queue| queue.failing);
            (failing, if is_hurried { short } else { settings.deadline })
        };
        if failing {
            return 503;
        }
        let (endpoint, message) = (Arc::clone(endpoint), queued.message.clone());
        let attempt = settings.stated(queued.attempt);
        let delivery = tokio::spawn(async move { endpoint.deliver(&message, attempt).await });
        tokio::time::timeout(deadline, delivery).await.map_or(0, Result::unwrap_or_default)
    }

    pub fn has_topic(&self, name: &str) -> bool {
        self.lock().topics.contains_key(name)
    }

    pub fn has_subscription(&self, name: &str) -> bool {
        self.lock().queues.contains_key(name)
    }

    /// Sets whether all deliveries of a subscription fail.
    pub fn fail(&self, subscription: &str, failing: bool) {
        if let Some(queue) = self.lock().queues.get_mut(subscription) {
            queue.failing = failing;
            queue.wake.notify_one();
        }
    }

    /// Delivers each `every`-th message twice at the same time to each subscription.
    pub fn repeat(&self, every: u64) {
        self.lock().repeated = every;
    }

    /// Sets the deadline of the first delivery of each `every`-th message.
    pub fn shorten_deadlines(&self, every: u64, deadline: Duration) {
        self.lock().shortened = (every, deadline);
    }

    /// Subtracts `count` from the number of unacknowledged messages of a subscription.
    fn subtract_unacknowledged(&self, subscription: &str, count: usize) {
        if let Some(queue) = self.lock().queues.get_mut(subscription) {
            queue.unacknowledged = queue.unacknowledged.saturating_sub(count);
        }
    }

    /// Publishes without a check of permissions. Returns the message's id.
    pub fn publish(&self, topic: &str, mut message: PubsubMessage) -> String {
        let mut inner = self.lock();
        inner.numbers += 1;
        message.message_id = inner.numbers.to_string();
        *inner.topics.entry(topic.to_owned()).or_default() += 1;
        let copies = if inner.repeated > 0 && inner.numbers.is_multiple_of(inner.repeated) { 2 } else { 1 };
        for queue in inner.queues.values_mut() {
            let wanted = |(name, value): &(String, String)| message.attributes.get(name) == Some(value);
            if queue.settings.topic == topic && queue.settings.filter.as_ref().is_none_or(wanted) {
                (0..copies).for_each(|_| queue.push(message.clone()));
            }
        }
        message.message_id
    }

    /// Puts a message into one subscription only.
    pub fn put(&self, subscription: &str, message: PubsubMessage) {
        if let Some(queue) = self.lock().queues.get_mut(subscription) {
            queue.push(message);
        }
    }

    /// Acknowledges and returns all waiting messages of a subscription.
    pub fn drain(&self, subscription: &str) -> Vec<PubsubMessage> {
        let mut inner = self.lock();
        let Some(queue) = inner.queues.get_mut(subscription) else { return Vec::new() };
        let drained: Vec<_> = queue.waiting.drain(..).map(|queued| queued.message).collect();
        queue.unacknowledged = queue.unacknowledged.saturating_sub(drained.len());
        drained
    }

    /// Number of unacknowledged messages, including those in delivery or waiting for another delivery.
    pub fn backlog(&self, subscription: &str) -> usize {
        self.lock().queues.get(subscription).map_or(0, |queue| queue.unacknowledged)
    }

    fn take(&self, subscription: &str) -> Option<Queued> {
        self.lock().queues.get_mut(subscription)?.waiting.pop_front()
    }

    /// Takes waiting messages for a client that pulls, and those whose deadline has passed. The third value is the delivery attempt number.
    pub(crate) fn pull(self: &Arc<Self>, subscription: &str) -> Vec<(String, PubsubMessage, Option<u32>)> {
        let now = Instant::now();
        let late = self.release(subscription, |leased| leased.until <= now);
        late.into_iter().for_each(|queued| self.rejected(subscription, queued));
        let mut inner = self.lock();
        let BrokerState { queues, numbers, .. } = &mut *inner;
        let Some(queue) = queues.get_mut(subscription).filter(|queue| !queue.failing) else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        for queued in queue.waiting.drain(..) {
            *numbers += 1;
            let id = format!("ack-{numbers}");
            taken.push((id.clone(), queued.message.clone(), queue.settings.stated(queued.attempt)));
            queue.pulled.insert(id, Leased { queued, until: now + queue.settings.deadline });
        }
        taken
    }

    /// Removes the pulled messages that `is_over` selects: a later acknowledgement of these deliveries has no effect.
    fn release(&self, subscription: &str, is_over: impl Fn(&Leased) -> bool) -> Vec<Queued> {
        let mut inner = self.lock();
        let Some(queue) = inner.queues.get_mut(subscription) else { return Vec::new() };
        queue.pulled.extract_if(.., |_, leased| is_over(leased)).map(|(_, leased)| leased.queued).collect()
    }

    pub(crate) fn wake(&self, subscription: &str) -> Option<Arc<Notify>> {
        self.lock().queues.get(subscription).map(|queue| Arc::clone(&queue.wake))
    }

    pub(crate) fn acknowledge(&self, subscription: &str, ids: &[String]) {
        if let Some(queue) = self.lock().queues.get_mut(subscription) {
            let acknowledged = ids.iter().filter_map(|id| queue.pulled.remove(id)).count();
            queue.unacknowledged = queue.unacknowledged.saturating_sub(acknowledged);
        }
    }

    /// Sets the remaining time of a pulled message, at most 600 s; 0 s rejects the message.
    pub(crate) fn extend(self: &Arc<Self>, subscription: &str, id: &str, seconds: i32) {
        let remaining = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).min(LONGEST_DEADLINE);
        let rejected = {
            let mut inner = self.lock();
            let Some(queue) = inner.queues.get_mut(subscription) else { return };
            match queue.pulled.get_mut(id) {
                Some(leased) if !remaining.is_zero() => {
                    leased.until = Instant::now() + remaining;
                    None
                }
                Some(_) => queue.pulled.remove(id),
                None => None,
            }
        };
        rejected.into_iter().for_each(|leased| self.rejected(subscription, leased.queued));
    }

    /// Rejects the pulled messages of a disconnected client, so that they are delivered again.
    pub(crate) fn reject_all(self: &Arc<Self>, subscription: &str) {
        let all = self.release(subscription, |_| true);
        all.into_iter().for_each(|queued| self.rejected(subscription, queued));
    }

    /// Rejects one message that waits in a pull subscription, as a client would: for tests of dead letters.
    pub fn reject_waiting(self: &Arc<Self>, subscription: &str) -> bool {
        let Some(queued) = self.take(subscription) else { return false };
        self.rejected(subscription, queued);
        true
    }

    /// Delivers a message again after a pause, or forwards the message after its maximum number of deliveries.
    fn rejected(self: &Arc<Self>, subscription: &str, queued: Queued) {
        let settings = match self.lock().queues.get(subscription) {
            Some(queue) => Arc::clone(&queue.settings),
            None => return,
        };
        let next = Queued { attempt: queued.attempt + 1, ..queued };
        // The number of deliveries and of copies varies between messages, so that a test can rely on neither an exact number nor a single
        // dead letter.
        let number: u64 = next.message.message_id.parse().unwrap_or_default();
        let (more, copies) =
            (u32::try_from(number % 3).unwrap_or_default(), if number.is_multiple_of(4) { 2 } else { 1 });
        if let Some((maximum, topic)) = &settings.dead_letters
            && next.attempt > maximum + more
        {
            // Without both permissions the message stays in its subscription (Pub/Sub's page "Dead-letter topics").
            let may = self
                .access
                .admits(&self.agent, "pubsub.topics.publish", topic)
                .and_then(|()| self.access.admits(&self.agent, "pubsub.subscriptions.consume", subscription));
            if may.is_ok() {
                let mut message = next.message;
                message
                    .attributes
                    .insert("CloudPubSubDeadLetterSourceSubscription".to_owned(), subscription.to_owned());
                (0..copies).for_each(|_| drop(self.publish(topic, message.clone())));
                self.subtract_unacknowledged(subscription, 1);
                return;
            }
        }
        let (broker, subscription) = (Arc::downgrade(self), subscription.to_owned());
        let pause = self.pause * 2_u32.saturating_pow((next.attempt - 2).min(6));
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let Some(broker) = broker.upgrade() else { return };
            let mut inner = broker.lock();
            if let Some(queue) = inner.queues.get_mut(&subscription) {
                queue.waiting.push_back(next);
                queue.wake.notify_one();
            }
        });
    }
}
