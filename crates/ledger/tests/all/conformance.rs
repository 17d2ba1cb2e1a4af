//! The conformance suite on every store, and a store that loses the responses of writes.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use ledger::{
    AppendError, Creation, Digest, FolderStore, Ledger, MemoryStore, ObjectReader, ObservedStore, OnRequest,
    RequestKind, Split, Store, StoreError, conformance,
};
use model::*;

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance::store(Arc::new(MemoryStore::default())).await;
    conformance::ledger(Arc::new(MemoryStore::default())).await;
    conformance::artefacts(Arc::new(MemoryStore::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_store_conforms() {
    let root = tempfile::tempdir().unwrap();
    conformance::store(Arc::new(FolderStore::open(root.path().join("store")).unwrap())).await;
    conformance::ledger(Arc::new(FolderStore::open(root.path().join("ledger")).unwrap())).await;
    conformance::artefacts(Arc::new(FolderStore::open(root.path().join("artefacts")).unwrap())).await;
    let drafts = std::fs::read_dir(root.path().join("store/.drafts")).unwrap();
    assert_eq!(drafts.count(), 0, "no temporary file remains");
}

#[tokio::test]
async fn an_observed_store_reports_every_request() {
    let seen = Arc::<std::sync::Mutex<Vec<(RequestKind, bool)>>>::default();
    let on = Arc::clone(&seen);
    let on: OnRequest = Arc::new(move |request| on.lock().unwrap().push((request.kind, request.found)));
    let observed = || Arc::new(ObservedStore::new(Arc::new(MemoryStore::default()), Arc::clone(&on)));
    conformance::store(observed()).await;
    conformance::ledger(observed()).await;

    seen.lock().unwrap().clear();
    let store = observed();
    store.create("a/b", Bytes::new()).await.unwrap();
    store.read("a/b").await.unwrap();
    store.open("a/c").await.map(drop).unwrap();
    store.list_from("a/", "a/b").await.unwrap();
    store.children("a/").await.unwrap();
    store.remove("a/b").await.unwrap();
    use RequestKind::{Create, List, Read, Remove};
    let wanted = [(Create, true), (Read, true), (Read, false), (List, true), (List, true), (Remove, true)];
    assert_eq!(*seen.lock().unwrap(), wanted);
}

#[tokio::test]
async fn hints_can_be_in_a_separate_store() {
    let (hints, records) = (Arc::new(MemoryStore::default()), Arc::new(MemoryStore::default()));
    let split = || Arc::new(Split::new("open/", hints.clone(), records.clone()));
    conformance::store(split()).await;
    conformance::ledger(split()).await;
    assert!(hints.list("").await.unwrap().iter().all(|name| name.starts_with("open/")));
    assert!(records.list("").await.unwrap().iter().all(|name| !name.starts_with("open/")));
    let ledger = Ledger::new(split(), Arc::new(|| "nonce".to_owned()));
    ledger.mark_open(&"run-1".parse().unwrap()).await.unwrap();
    assert_eq!(hints.list("open/").await.unwrap(), ["open/run-1"]);
    assert!(split().list("").await.unwrap().contains(&"open/run-1".to_owned()));
    assert!(split().list("op").await.unwrap().contains(&"open/run-1".to_owned()));
}

/// Writes take effect and their responses are lost: reported as `Exists` or as an error.
struct Lossy {
    inner: MemoryStore,
    as_error: bool,
    lose: AtomicBool,
}

#[async_trait::async_trait]
impl Store for Lossy {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        let created = self.inner.create(name, body).await?;
        match (self.lose.load(Ordering::Relaxed), self.as_error) {
            (false, _) => Ok(created),
            (true, false) => Ok(Creation::Exists),
            (true, true) => {
                Err(StoreError::Io { doing: "create", name: name.into(), source: io::Error::other("reset") })
            }
        }
    }
    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.inner.create_from(name, body).await
    }
    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        self.inner.read(name).await
    }
    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        self.inner.open(name).await
    }
    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        self.inner.list_from(prefix, from).await
    }
    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.inner.remove(name).await
    }
    fn locate(&self, name: &str) -> String {
        self.inner.locate(name)
    }
}

#[tokio::test]
async fn a_successful_write_is_recognized_despite_a_reported_error() {
    for as_error in [false, true] {
        let store = Arc::new(Lossy { inner: MemoryStore::default(), as_error, lose: AtomicBool::new(false) });
        let ours = Ledger::new(store.clone(), Arc::new(|| "ours".into()));
        let theirs = Ledger::new(store.clone(), Arc::new(|| "theirs".into()));
        let run: RunId = "lossy".parse().unwrap();
        let now = Timestamp::from_millis(0);
        let entry = || RecordEntry::Closed { conclusion: Conclusion::Completed };

        let (first, rival) = (ours.load(&run).await.unwrap(), theirs.load(&run).await.unwrap());
        store.lose.store(true, Ordering::Relaxed);
        let loaded = ours.append(first, entry(), now).await.unwrap();
        assert_eq!(loaded.records().len(), 1, "the ledger recognizes its own record");
        let lost = theirs.append(rival, entry(), now).await;
        assert!(matches!(lost, Err(AppendError::Conflict { .. } | AppendError::Ledger(_))), "{lost:?}");
        assert_eq!(ours.load(&run).await.unwrap().records()[0].nonce, "ours");
    }
}
