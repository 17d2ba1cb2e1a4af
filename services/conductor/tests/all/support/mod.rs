//! A conductor with a recording bus, a manual clock and an unreliable store.
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use conductor::{Conductor, WakeSettings};
use events::{Content, Message};
use ledger::{Creation, Digest, Ledger, MemoryStore, ObjectReader, Store, StoreError};
use lifecycle::RunState;
use model::*;
use service::{Bus, BusError, Disposition, Event, Handler, ManualClock};
use test_support::good_run;
pub use test_support::good_run::{START, deleted, workflow};
use tokio::sync::Notify;

pub const RESEND: Span = Span::from_secs(5);

/// Every command of a good run, in order.
pub const COMMANDS: [&str; 7] = [
    "image.1.start",
    "cluster.1.start",
    "job.1.start",
    "logs.1.start",
    "cluster.1.delete",
    "verdict.1.start",
    "results.1.start",
];

pub fn run() -> RunId {
    "quickstart-1".parse().unwrap()
}

pub fn requested() -> Event {
    event("cli", good_run::requested(workflow()))
}

/// Facts of the workers in a successful run, in order.
pub fn answers() -> Vec<Event> {
    good_run::successful_facts().into_iter().map(|fact| event(worker(&fact), fact)).collect()
}

/// Name of the worker that publishes this fact.
fn worker(fact: &Fact) -> &'static str {
    match fact.stage() {
        Some(Stage::Image) => "builder",
        Some(Stage::Cluster) => "provisioner",
        Some(Stage::Job | Stage::Logs | Stage::Locate) => "agent",
        Some(Stage::Verdict) => "judge",
        Some(Stage::Results) => "loader",
        None => panic!("no worker publishes {}", fact.event_type()),
    }
}

pub fn event(publisher: &str, fact: Fact) -> Event {
    Message::fact(publisher, run(), Attempt::FIRST, fact).to_event()
}

/// The same fact as a separate message, as from a second poll.
pub fn as_new_message(event: &Event) -> Event {
    let mut event = serde_json::to_value(event).unwrap();
    event["id"] = "another-message".into();
    serde_json::from_value(event).unwrap()
}

/// The facts of a good run up to this type, inclusive.
pub fn until(event_type: &str) -> Vec<Event> {
    let mut events = vec![requested()];
    for event in answers() {
        let last = Message::from_event(&event).unwrap().event_type() == event_type;
        events.push(event);
        if last {
            return events;
        }
    }
    panic!("a good run has no {event_type}");
}

/// A recording bus that can refuse a type.
#[derive(Default)]
pub struct RecordingBus {
    published: Mutex<Vec<Message>>,
    pub refuses: Mutex<Option<&'static str>>,
    /// Whether published events exist only in this process until they are handled, as on the bus of a single process.
    pub keeps_in_memory: AtomicBool,
}

#[async_trait::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        let message = Message::from_event(&event).unwrap();
        if *self.refuses.lock().unwrap() == Some(message.event_type()) {
            return Err(BusError { id: message.key.id, why: "refused".into() });
        }
        self.published.lock().unwrap().push(message);
        Ok(())
    }

    fn is_in_memory(&self, id: &str) -> bool {
        let is_published = || self.published.lock().unwrap().iter().any(|message| message.key.id == id);
        self.keeps_in_memory.load(Ordering::Relaxed) && is_published()
    }
}

impl RecordingBus {
    /// Commands as `stage.attempt.verb`, in the order of sending.
    pub fn commands(&self) -> Vec<String> {
        let short = |message: &Message| match &message.content {
            Content::Command(command) => Some(command.id.to_string().split_once('.')?.1.to_owned()),
            Content::Fact(_) => None,
        };
        self.published.lock().unwrap().iter().filter_map(short).collect()
    }

    /// Every `run.closed`, with its event's id.
    pub fn closings(&self) -> Vec<(String, RunClosed)> {
        let closing = |message: &Message| match &message.content {
            Content::Fact(Fact::RunClosed(closed)) => Some((message.key.id.clone(), closed.clone())),
            _ => None,
        };
        self.published.lock().unwrap().iter().filter_map(closing).collect()
    }

    /// Every `run.used`.
    pub fn used(&self) -> Vec<RunUsed> {
        let used = |message: &Message| match &message.content {
            Content::Fact(Fact::RunUsed(used)) => Some((**used).clone()),
            _ => None,
        };
        self.published.lock().unwrap().iter().filter_map(used).collect()
    }

    pub fn forget(&self) {
        self.published.lock().unwrap().clear();
    }
}

/// A random generator: equal seeds produce equal numbers.
pub struct SeededRandom(Mutex<SplitMix64>);

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(SplitMix64(seed)))
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.0.lock().unwrap().number() % bound
    }

    pub fn shuffle<T>(&self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, usize::try_from(self.below(last as u64 + 1)).unwrap());
        }
    }
}

/// Faults of a store's creations.
pub enum StoreFaults {
    Nothing,
    /// A quarter of the responses are wrong: the object was created but the response is an error or "exists", or the
    /// object was not created and the response is an error.
    WrongResponses(SeededRandom),
    /// Number of successful creations before the store fails.
    FailsAfter(AtomicU64),
}

/// An unreliable bucket in memory. Every call yields first.
pub struct FaultyStore {
    pub inner: Arc<MemoryStore>,
    pub faults: StoreFaults,
    held: Mutex<Option<Arc<Gate>>>,
}

/// Blocks a task until other tasks have progressed.
#[derive(Default)]
pub struct Gate {
    pub arrived: Notify,
    pub go: Notify,
}

impl FaultyStore {
    pub fn new(faults: StoreFaults) -> Arc<Self> {
        Arc::new(Self { inner: Arc::default(), faults, held: Mutex::default() })
    }

    /// Blocks the next removal until the returned gate is opened.
    pub fn hold_removal(&self) -> Arc<Gate> {
        let gate = Arc::<Gate>::default();
        *self.held.lock().unwrap() = Some(gate.clone());
        gate
    }
}

fn broken<T>(doing: &'static str, name: &str) -> Result<T, StoreError> {
    Err(StoreError::Io { doing, name: name.to_owned(), source: io::Error::other("the connection was reset") })
}

#[async_trait::async_trait]
impl Store for FaultyStore {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        tokio::task::yield_now().await;
        let answer = match &self.faults {
            StoreFaults::Nothing => self.inner.create(name, body).await,
            StoreFaults::WrongResponses(random) => match random.below(12) {
                0 => broken("create", name),
                1 => self.inner.create(name, body).await.and_then(|_| broken("create", name)),
                2 => self.inner.create(name, body).await.map(|_| Creation::Exists),
                _ => self.inner.create(name, body).await,
            },
            StoreFaults::FailsAfter(left) => {
                match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
                    Ok(_) => self.inner.create(name, body).await,
                    Err(_) => broken("create", name),
                }
            }
        };
        tokio::task::yield_now().await;
        answer
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.inner.create_from(name, body).await
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        tokio::task::yield_now().await;
        self.inner.read(name).await
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        self.inner.open(name).await
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        tokio::task::yield_now().await;
        self.inner.list_from(prefix, from).await
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let gate = self.held.lock().unwrap().take();
        if let Some(gate) = gate {
            gate.arrived.notify_one();
            gate.go.notified().await;
        }
        self.inner.remove(name).await
    }

    fn locate(&self, name: &str) -> String {
        self.inner.locate(name)
    }
}

static NONCES: AtomicU64 = AtomicU64::new(0);

/// Conductors of one store, one bus and one clock.
pub struct Conductors {
    pub store: Arc<dyn Store>,
    pub bus: Arc<RecordingBus>,
    pub clock: Arc<ManualClock>,
}

impl Conductors {
    pub fn new() -> Self {
        Self::over(Arc::new(MemoryStore::default()))
    }

    pub fn over(store: Arc<dyn Store>) -> Self {
        Self { store, bus: Arc::default(), clock: Arc::new(ManualClock::new(START)) }
    }

    pub fn ledger(&self) -> Ledger {
        let nonce = || NONCES.fetch_add(1, Ordering::Relaxed).to_string();
        Ledger::new(Arc::clone(&self.store), Arc::new(nonce))
    }

    /// A newly started conductor without state.
    pub fn conductor(&self) -> Arc<Conductor> {
        self.conductor_over(Arc::clone(&self.store), Span::default())
    }

    /// A new conductor with another view of the store and another refresh time.
    pub fn conductor_over(&self, store: Arc<dyn Store>, refresh: Span) -> Arc<Conductor> {
        let nonce = || NONCES.fetch_add(1, Ordering::Relaxed).to_string();
        let ledger = Ledger::new(store, Arc::new(nonce));
        let settings = WakeSettings { resend: RESEND, refresh };
        Arc::new(Conductor::new(ledger, self.bus.clone(), self.clock.clone(), settings, None))
    }

    pub async fn records(&self) -> Vec<Record> {
        self.ledger().load(&run()).await.unwrap().records().to_vec()
    }

    pub async fn state(&self) -> RunState {
        lifecycle::fold(&self.records().await).unwrap()
    }

    pub async fn hints(&self) -> Vec<RunId> {
        self.ledger().open_runs().await.unwrap()
    }
}

/// Delivers the events one after the other, and expects success.
pub async fn deliver_all(conductor: &Conductor, events: impl IntoIterator<Item = Event>) {
    for event in events {
        assert_eq!(conductor.handle(&event).await, Disposition::Done);
    }
}

/// Redelivers an event until it is handled.
pub async fn deliver(conductor: &Conductor, event: &Event) {
    for _ in 0..200 {
        match conductor.handle(event).await {
            Disposition::Done => return,
            Disposition::Retry(_) => {}
            Disposition::Park(why) => panic!("parked: {why}"),
        }
    }
    panic!("the event is never handled");
}

/// Checks that the ledger has one completed run without repeated starts.
pub fn assert_sound(records: &[Record]) {
    let numbers: Vec<u64> = records.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (1..=records.len() as u64).collect::<Vec<_>>(), "no gap");
    let mut events = Vec::new();
    let mut closed = 0;
    for record in records {
        match &record.entry {
            RecordEntry::Accepted { event, .. } => events.push(event.to_string()),
            RecordEntry::Closed { conclusion } => {
                assert_eq!(*conclusion, Conclusion::Completed);
                closed += 1;
            }
            other => panic!("a good run has no {other:?}"),
        }
    }
    assert_eq!(closed, 1, "closed once");
    let all = events.len();
    events.sort_unstable();
    events.dedup();
    assert_eq!(events.len(), all, "no message is accepted twice");
    assert!(lifecycle::fold(records).unwrap().leases_returned());
}
