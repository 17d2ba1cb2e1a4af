//! Writes ledgers of runs by the state machine's rules.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use ledger::{Creation, Digest, Ledger, ObjectReader, Store, StoreError};
use lifecycle::{Decision, Input, ReceivedFact, decide, decide_first, fold};
use model::*;
use run_index::{RefreshIntervals, RunIndex};
use serde_json::json;
use service::ManualClock;

pub const START: i64 = 1_795_122_600_000;

/// A store that counts requests.
pub struct Counting<S> {
    pub inner: S,
    pub reads: AtomicUsize,
    pub lists: AtomicUsize,
}

impl<S> Counting<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, reads: AtomicUsize::new(0), lists: AtomicUsize::new(0) }
    }

    /// Numbers of reads and lists since the last call.
    pub fn take_request_counts(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::Relaxed), self.lists.swap(0, Ordering::Relaxed))
    }
}

#[async_trait::async_trait]
impl<S: Store> Store for Counting<S> {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        self.inner.create(name, body).await
    }
    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.inner.create_from(name, body).await
    }
    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read(name).await
    }
    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        self.inner.open(name).await
    }
    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.inner.list_from(prefix, from).await
    }
    async fn children(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.inner.children(folder).await
    }
    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.inner.remove(name).await
    }
    fn locate(&self, name: &str) -> String {
        self.inner.locate(name)
    }
}

pub fn ledger(store: Arc<dyn Store>) -> Ledger {
    let counter = AtomicUsize::new(0);
    Ledger::new(store, Arc::new(move || counter.fetch_add(1, Ordering::Relaxed).to_string()))
}

pub fn run_index(store: &Arc<dyn Store>, clock: &Arc<ManualClock>) -> Arc<RunIndex> {
    let pace = RefreshIntervals { max_age: Span::from_secs(1), scan_interval: Span::from_secs(10) };
    Arc::new(RunIndex::new(ledger(Arc::clone(store)), Arc::clone(store), clock.clone(), pace))
}

pub fn run(number: usize) -> RunId {
    format!("w-{number:06}").parse().unwrap()
}

fn workflow(number: usize) -> Workflow {
    serde_json::from_value(json!({
        "name": if number.is_multiple_of(2) { "even" } else { "odd" },
        "image": null,
        "cluster": {"existing": {"system": {"processes": {"nodes": 2}}, "name": format!("c{}", number % 3)}},
        "benchmark": null,
        "limits": Limits::default(),
    }))
    .unwrap()
}

/// Records a fact of the run and the decisions that follow from the fact, at second `at` of the test's time.
pub async fn record(ledger: &Ledger, run: &RunId, fact: Fact, at: i64) {
    let now = Timestamp::from_millis(START + at * 1000);
    let event = EventKey { source: "//test".into(), id: format!("{}-{at}", fact.event_type()) };
    let occurrence = ReceivedFact { event, attempt: Attempt::FIRST, fact };
    let mut loaded = ledger.load(run).await.unwrap();
    if loaded.records().is_empty() {
        ledger.mark_open(run).await.unwrap();
        ledger.append(loaded, decide_first(occurrence), now).await.unwrap();
        return;
    }
    let state = fold(loaded.records()).unwrap();
    let Decision { entries, .. } = decide(&state, Input::Fact(Box::new(occurrence)), now);
    for entry in entries {
        loaded = ledger.append(loaded, entry, now).await.unwrap();
    }
    if fold(loaded.records()).unwrap().closed.is_some() {
        ledger.mark_closed(run).await.unwrap();
    }
}

pub async fn ask(ledger: &Ledger, number: usize) -> RunId {
    let trigger = Trigger { kind: "manual".into(), by: "me".into() };
    let requested = RunRequested { workflow: workflow(number), trigger, origin: None };
    // Two runs have the same second, so that the time alone does not determine their order.
    let at = i64::try_from(number / 2).unwrap();
    record(ledger, &run(number), Fact::RunRequested(Box::new(requested)), at).await;
    run(number)
}

pub async fn cancel(ledger: &Ledger, run: &RunId, at: i64) {
    record(ledger, run, Fact::CancelRequested(CancelRequested { by: "me".into(), reason: "".into() }), at)
        .await;
}
