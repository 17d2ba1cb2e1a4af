//! Which records a ledger reads again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use ledger::{
    Creation, Digest, Ledger, MemoryStore, ObjectReader, ObservedStore, RequestKind, Store, StoreError,
};
use model::{Conclusion, RECORD_FORMAT, Record, RecordEntry, RunId, Timestamp};
use tokio::sync::Notify;

/// Maximum size of all cached records, bytes as stored.
const MAX_BYTES: usize = 32 << 20;

fn run(number: usize) -> RunId {
    format!("run-{number}").parse().unwrap()
}

/// Stores a record of `size` bytes; blanks at its end have no meaning.
async fn write(store: &dyn Store, run: &RunId, seq: u64, size: usize) {
    let record = Record {
        format: RECORD_FORMAT,
        run: run.clone(),
        seq,
        nonce: String::new(),
        recorded_at: Timestamp::from_millis(0),
        entry: RecordEntry::Closed { conclusion: Conclusion::Completed },
    };
    let mut body = serde_json::to_vec(&record).unwrap();
    body.resize(size, b' ');
    store.create(&format!("ledger/{run}/{seq:010}.json"), body.into()).await.unwrap();
}

fn ledger_in(store: Arc<dyn Store>) -> Ledger {
    Ledger::new(store, Arc::new(String::new))
}

/// A ledger, its store, and the number of records that it reads.
fn counting() -> (Ledger, Arc<MemoryStore>, Arc<AtomicUsize>) {
    let (store, reads) = (Arc::<MemoryStore>::default(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&reads);
    let observed = ObservedStore::new(
        store.clone(),
        Arc::new(move |request| {
            count.fetch_add(usize::from(request.kind == RequestKind::Read), Ordering::Relaxed);
        }),
    );
    (ledger_in(Arc::new(observed)), store, reads)
}

#[tokio::test]
async fn the_least_recently_used_run_is_evicted_at_the_maximum_size() {
    let (ledger, store, reads) = counting();
    let loads = async |number: usize| {
        reads.store(0, Ordering::Relaxed);
        let records = ledger.load(&run(number)).await.unwrap().records().len();
        (records, reads.load(Ordering::Relaxed))
    };
    for number in 0..4 {
        write(&*store, &run(number), 1, MAX_BYTES / 4).await;
        assert_eq!(loads(number).await, (1, 1));
    }
    assert_eq!(loads(0).await, (1, 0), "run 0 is used again, so run 1 is now the oldest");
    write(&*store, &run(2), 2, MAX_BYTES / 4).await;
    assert_eq!(loads(2).await, (2, 1), "only the new record is read");
    for number in [0, 3, 2] {
        assert_eq!(loads(number).await.1, 0, "run {number} is cached");
    }
    assert_eq!(loads(1).await, (1, 1), "run 1 was evicted");

    write(&*store, &run(9), 1, MAX_BYTES + 1).await;
    for _ in 0..2 {
        assert_eq!(loads(9).await, (1, 1), "a run above the maximum is not cached");
    }
}

/// A store in memory that counts reads. The second read waits for a signal before it starts.
#[derive(Default)]
struct SlowStore {
    inner: MemoryStore,
    reads: AtomicUsize,
    signal: Notify,
}

#[async_trait::async_trait]
impl Store for SlowStore {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        self.inner.create(name, body).await
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.inner.create_from(name, body).await
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        // The first reader reads the first record, and then the second one.
        if self.reads.fetch_add(1, Ordering::Relaxed) == 1 {
            self.signal.notified().await;
        }
        self.inner.read(name).await
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        self.inner.open(name).await
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        self.inner.list_from(prefix, from).await
    }

    async fn children(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.inner.children(prefix).await
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.inner.remove(name).await
    }

    fn locate(&self, name: &str) -> String {
        self.inner.locate(name)
    }
}

#[tokio::test]
async fn a_slower_reader_does_not_replace_a_longer_ledger() {
    let (store, run) = (Arc::<SlowStore>::default(), run(0));
    let ledger = ledger_in(store.clone());
    for seq in 1..=2 {
        write(&*store, &run, seq, 500).await;
    }
    let slow = tokio::spawn({
        let (ledger, run) = (ledger.clone(), run.clone());
        async move { ledger.load(&run).await.unwrap().records().len() }
    });
    while store.reads.load(Ordering::Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    write(&*store, &run, 3, 500).await;
    assert_eq!(ledger.load(&run).await.unwrap().records().len(), 3);
    store.signal.notify_one();
    assert_eq!(slow.await.unwrap(), 2);
    let reads = store.reads.load(Ordering::Relaxed);
    assert_eq!(ledger.load_to(&run, 3).await.unwrap().records().len(), 3);
    assert_eq!(store.reads.load(Ordering::Relaxed), reads, "the longer ledger is still cached");
}
