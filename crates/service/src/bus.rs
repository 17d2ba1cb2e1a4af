//! Exchange of CloudEvents between services: at-least-once delivery, unordered.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cloudevents::{AttributesReader, Event};
use tokio::task::JoinSet;
use tracing::warn;

use crate::{Clock, clock::backoff};

/// An event that could not be published. Publish it again.
#[derive(Debug, thiserror::Error)]
#[error("event {id} could not be published: {why}")]
pub struct BusError {
    /// CloudEvents `id` of the event that was not published.
    pub id: String,
    pub why: String,
}

/// Publishes events. Returns once the bus has stored the event.
#[async_trait::async_trait]
pub trait Bus: Send + Sync + 'static {
    async fn publish(&self, event: Event) -> Result<(), BusError>;

    /// Whether a published event is lost if this process ends now: no subscriber has handled it yet, and it is stored nowhere. A broker
    /// stores each event before `publish` returns.
    fn is_in_memory(&self, _id: &str) -> bool {
        false
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Processed durably: acknowledge.
    Done,
    /// Permanent failure: park the event for manual handling, and acknowledge.
    Park(String),
    /// Transient failure: deliver again.
    Retry(String),
}

/// Handles events, each at least once.
#[async_trait::async_trait]
pub trait Handler: Send + Sync + 'static {
    async fn handle(&self, event: &Event) -> Disposition;
}

/// Storage for unreadable events.
#[async_trait::async_trait]
pub trait DeadLetters: Send + Sync + 'static {
    /// Stores `raw` and the reason for manual handling, under the given id; equal ids may be stored once.
    ///
    /// # Errors
    /// Returns an error if it could not be stored: the event must then not be acknowledged.
    async fn park(&self, id: &str, why: &str, raw: &[u8]) -> Result<(), String>;
}

/// A bus within one process. Every subscriber receives every event of its types, each in its own task, and
/// again after a [`Disposition::Retry`].
pub struct MemoryBus {
    clock: Arc<dyn Clock>,
    dead_letters: Arc<dyn DeadLetters>,
    subscribers: Mutex<BTreeMap<&'static str, Vec<Arc<dyn Handler>>>>,
    deliveries: Mutex<JoinSet<()>>,
    /// Number of deliveries in progress by the id of their event.
    undelivered: Arc<Mutex<BTreeMap<String, usize>>>,
    on_retry: Option<OnRetry>,
}

/// Called before each redelivery: the type of the event, the time since its first failed delivery, and the
/// reason.
pub type OnRetry = Arc<dyn Fn(&str, Duration, &str) + Send + Sync>;

impl MemoryBus {
    pub fn new(clock: Arc<dyn Clock>, dead_letters: Arc<dyn DeadLetters>) -> Self {
        let (subscribers, deliveries, undelivered) = Default::default();
        Self { clock, dead_letters, subscribers, deliveries, undelivered, on_retry: None }
    }

    /// Sets the function that is called before each redelivery.
    #[must_use]
    pub fn on_retry(self, on_retry: OnRetry) -> Self {
        Self { on_retry: Some(on_retry), ..self }
    }

    /// Delivers events of these types to `handler`.
    pub fn subscribe(&self, types: &[&'static str], handler: &Arc<dyn Handler>) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        for event_type in types {
            subscribers.entry(event_type).or_default().push(Arc::clone(handler));
        }
    }

    /// Waits up to `patience` for deliveries in progress and their follow-up events, then aborts the rest.
    pub async fn finish(&self, patience: Duration) {
        let answered = async {
            loop {
                let mut deliveries =
                    std::mem::take(&mut *self.deliveries.lock().unwrap_or_else(PoisonError::into_inner));
                if deliveries.is_empty() {
                    return;
                }
                while deliveries.join_next().await.is_some() {}
            }
        };
        if tokio::time::timeout(patience, answered).await.is_err() {
            self.stop().await;
        }
    }

    /// Aborts all deliveries in progress. Unfinished ones are delivered again after a restart.
    pub async fn stop(&self) {
        let mut deliveries =
            std::mem::take(&mut *self.deliveries.lock().unwrap_or_else(PoisonError::into_inner));
        deliveries.shutdown().await;
    }
}

#[async_trait::async_trait]
impl Bus for MemoryBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        let handlers = {
            let subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
            subscribers.get(event.ty()).cloned().unwrap_or_default()
        };
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        while deliveries.try_join_next().is_some() {}
        for handler in handlers {
            // The delivery is outside the publisher's span, because between services only the event's own trace context
            // is propagated.
            let (id, undelivered) = (event.id().to_owned(), Arc::clone(&self.undelivered));
            *counts(&undelivered).entry(id.clone()).or_default() += 1;
            let delivery = deliver(
                Arc::clone(&self.clock),
                Arc::clone(&self.dead_letters),
                self.on_retry.clone(),
                handler,
                event.clone(),
            );
            deliveries.spawn(async move {
                delivery.await;
                // An aborted delivery does not reach this line: its event is still lost with this process.
                if let Entry::Occupied(mut count) = counts(&undelivered).entry(id) {
                    *count.get_mut() -= 1;
                    if *count.get() == 0 {
                        count.remove();
                    }
                }
            });
        }
        Ok(())
    }

    fn is_in_memory(&self, id: &str) -> bool {
        counts(&self.undelivered).contains_key(id)
    }
}

fn counts(undelivered: &Mutex<BTreeMap<String, usize>>) -> MutexGuard<'_, BTreeMap<String, usize>> {
    undelivered.lock().unwrap_or_else(PoisonError::into_inner)
}

const FIRST_RETRY: Duration = Duration::from_millis(50);
const SLOWEST_RETRY: Duration = Duration::from_secs(10);

async fn deliver(
    clock: Arc<dyn Clock>,
    dead_letters: Arc<dyn DeadLetters>,
    on_retry: Option<OnRetry>,
    handler: Arc<dyn Handler>,
    event: Event,
) {
    let mut first_failed = None;
    for attempt in 0.. {
        let again = match handler.handle(&event).await {
            Disposition::Done => return,
            Disposition::Retry(why) => why,
            Disposition::Park(why) => {
                let raw = serde_json::to_vec(&event).unwrap_or_default();
                match dead_letters.park(event.id(), &why, &raw).await {
                    Ok(()) => return,
                    Err(why) => why,
                }
            }
        };
        let failing = clock.now().since(*first_failed.get_or_insert_with(|| clock.now()));
        if let Some(on_retry) = &on_retry {
            on_retry(event.ty(), failing.0, &again);
        }
        warn!(
            event.id = event.id(),
            event.r#type = event.ty(),
            attempt,
            "the event will be delivered again: {again}"
        );
        clock.sleep(backoff(FIRST_RETRY, SLOWEST_RETRY, attempt)).await;
    }
}
