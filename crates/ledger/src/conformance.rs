//! Conformance suite of all stores. An adapter's tests call [`store`], [`ledger`] and [`artefacts()`] with
//! their own stores.

mod artefacts;

use std::{
    io::Cursor,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use model::{Attempt, CancelRequested, EventKey, Fact, RecordEntry, RunId, Timestamp};
use tokio::io::AsyncReadExt;

pub use self::artefacts::artefacts;
use crate::{AppendError, Creation, Digest, Ledger, LedgerError, Store, StoreError};

/// Checks the contract of a store. Requires an empty store.
///
/// # Panics
/// Panics at the first violation and names it.
pub async fn store(store: Arc<dyn Store>) {
    create_happens_once(&*store).await;
    streams_are_digested(&*store).await;
    listing_and_removing(&*store).await;
    bad_names_are_refused(&*store).await;
    one_of_many_creators_wins(store).await;
}

/// Checks the contract of a ledger on the store. Requires an empty store.
///
/// # Panics
/// Panics at the first violation and names it.
pub async fn ledger(store: Arc<dyn Store>) {
    let counter = Arc::new(AtomicU64::new(0));
    // Each ledger represents another process that has not read any record.
    let process = move || {
        let counter = Arc::clone(&counter);
        let nonces = move || counter.fetch_add(1, Ordering::Relaxed).to_string();
        Ledger::new(Arc::clone(&store), Arc::new(nonces))
    };
    appended_records_are_read_back(&process).await;
    the_slower_writer_loses(&process).await;
    another_process_is_followed(&process).await;
    a_gap_is_damage(&process).await;
    a_removed_ledger_is_not_remembered(&process).await;
    hints_come_and_go(&process()).await;
    runs_are_named_and_followed(&process).await;
}

async fn create_happens_once(store: &dyn Store) {
    let name = "once/a b%20é.json";
    assert_eq!(store.read(name).await.unwrap(), None, "the object is absent at first");
    assert_eq!(store.create(name, Bytes::from_static(b"first")).await.unwrap(), Creation::Created);
    assert_eq!(store.create(name, Bytes::from_static(b"second")).await.unwrap(), Creation::Exists);
    assert_eq!(
        store.read(name).await.unwrap().as_deref(),
        Some(&b"first"[..]),
        "the first writer's bytes are kept"
    );
    assert_eq!(store.create("once/empty", Bytes::new()).await.unwrap(), Creation::Created);
    assert_eq!(store.read("once/empty").await.unwrap().as_deref(), Some(&b""[..]), "an empty object exists");
    assert_eq!(store.read("once").await.unwrap(), None, "a prefix is not an object");
}

async fn streams_are_digested(store: &dyn Store) {
    let body: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[1]).collect();
    let (creation, digest) = store.create_from("stream", Box::new(Cursor::new(body.clone()))).await.unwrap();
    assert_eq!((creation, &digest), (Creation::Created, &Digest::of(&body)));
    let mut read = Vec::new();
    store.open("stream").await.unwrap().unwrap().read_to_end(&mut read).await.unwrap();
    assert!(read == body, "a stream returns the written bytes");
    let again = store.create_from("stream", Box::new(Cursor::new(b"other".to_vec()))).await.unwrap();
    assert_eq!(again, (Creation::Exists, Digest::of(b"other")));
    assert!(store.open("stream/none").await.unwrap().is_none());
}

async fn listing_and_removing(store: &dyn Store) {
    for name in ["list/a/1", "list/a/2", "list/ab", "list/b"] {
        store.create(name, Bytes::new()).await.unwrap();
    }
    let list = async |prefix| {
        let mut names = store.list(prefix).await.unwrap();
        names.sort();
        names
    };
    assert_eq!(list("list/a").await, ["list/a/1", "list/a/2", "list/ab"], "a prefix is text, not a folder");
    assert_eq!(list("list/a/").await, ["list/a/1", "list/a/2"]);
    assert_eq!(list("nothing/").await, [""; 0]);
    let list_from = async |prefix, from| {
        let mut names = store.list_from(prefix, from).await.unwrap();
        names.sort();
        names
    };
    assert_eq!(
        list_from("list/a", "list/a/2").await,
        ["list/a/2", "list/ab"],
        "the listing includes its start"
    );
    assert_eq!(
        list_from("list/a", "list/a/1x").await,
        ["list/a/2", "list/ab"],
        "a listing may start after a name that does not exist"
    );
    assert_eq!(
        list_from("list/a/", "a").await,
        ["list/a/1", "list/a/2"],
        "a listing that starts before the prefix has all names"
    );
    assert_eq!(
        list_from("list/a/", "list/b").await,
        [""; 0],
        "a listing that starts after the last name is empty"
    );
    let children = async |folder| {
        let mut names = store.children(folder).await.unwrap();
        names.sort();
        names
    };
    assert_eq!(children("list/").await, ["a", "ab", "b"], "a folder is listed once, by name");
    assert_eq!(children("list/a/").await, ["1", "2"]);
    assert_eq!(children("nothing/").await, [""; 0]);
    store.remove("list/a/1").await.unwrap();
    store.remove("list/a/1").await.unwrap();
    assert_eq!(list("list/a/").await, ["list/a/2"], "removing is idempotent");
}

async fn bad_names_are_refused(store: &dyn Store) {
    for name in ["", "/a", "a//b", "../a", "a/../b", "a/./b", "a/", "a\0b", "a\nb", "a\\b"] {
        assert!(matches!(store.create(name, Bytes::new()).await, Err(StoreError::Name { .. })), "{name:?}");
        assert!(store.read(name).await.is_err(), "{name:?}");
    }
    assert!(store.create(&"x".repeat(1025), Bytes::new()).await.is_err());
}

async fn one_of_many_creators_wins(store: Arc<dyn Store>) {
    let mut creators = Vec::new();
    for number in 0..32u8 {
        let store = Arc::clone(&store);
        creators.push(tokio::spawn(async move {
            (number, store.create("race/one", Bytes::from(vec![number; 4096])).await.unwrap())
        }));
    }
    let mut winners = Vec::new();
    for creator in creators {
        let (number, creation) = creator.await.unwrap();
        winners.extend((creation == Creation::Created).then_some(number));
    }
    assert_eq!(winners.len(), 1, "exactly one creation succeeds");
    assert_eq!(
        store.read("race/one").await.unwrap().unwrap(),
        vec![winners[0]; 4096],
        "the object has the complete content of the successful creation"
    );
}

fn entry(by: &str) -> RecordEntry {
    let event = EventKey { source: "//test".into(), id: by.into() };
    let fact = Fact::CancelRequested(CancelRequested { by: by.into(), reason: String::new() });
    RecordEntry::Accepted { event, attempt: Attempt::FIRST, fact: Box::new(fact) }
}

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

async fn appended_records_are_read_back(process: &impl Fn() -> Ledger) {
    let (ledger, run) = (process(), run("append"));
    let mut loaded = ledger.load(&run).await.unwrap();
    assert_eq!(loaded.records().len(), 0, "an unknown run is empty");
    for (number, millis) in [(1, 5000), (2, 3000), (3, 9000)] {
        loaded = ledger.append(loaded, entry("a"), Timestamp::from_millis(millis)).await.unwrap();
        assert_eq!(loaded.next_seq(), number + 1);
    }
    assert_eq!(ledger.load(&run).await.unwrap().records(), loaded.records());
    let read = process().load(&run).await.unwrap();
    assert_eq!(read.records(), loaded.records());
    let times: Vec<_> = read.records().iter().map(|record| record.recorded_at.as_millis()).collect();
    assert_eq!(times, [5000, 5000, 9000], "times never decrease");
}

async fn runs_are_named_and_followed(process: &impl Fn() -> Ledger) {
    let (ledger, run) = (process(), run("follow"));
    assert!(!ledger.exists(&run).await.unwrap());
    let mut loaded = ledger.load(&run).await.unwrap();
    for _ in 0..3 {
        loaded = ledger.append(loaded, entry("a"), Timestamp::from_millis(0)).await.unwrap();
    }
    assert!(ledger.names().await.unwrap().contains(&run));
    for reader in [ledger, process()] {
        let since = async |seq| reader.since(&run, seq).await.unwrap();
        assert_eq!(since(2).await, loaded.records()[2..]);
        assert_eq!(since(0).await, loaded.records());
        assert_eq!(since(2).await, loaded.records()[2..]);
        assert_eq!(since(3).await, []);
        assert!(reader.exists(&run).await.unwrap());
    }
    assert!(process().exists(&run).await.unwrap());
}

async fn another_process_is_followed(process: &impl Fn() -> Ledger) {
    let (ours, theirs, run) = (process(), process(), run("followed"));
    let now = Timestamp::from_millis(0);
    let mut loaded = ours.load(&run).await.unwrap();
    for _ in 0..2 {
        loaded = ours.append(loaded, entry("ours"), now).await.unwrap();
    }
    let read = theirs.load(&run).await.unwrap();
    theirs.append(read, entry("theirs"), now).await.unwrap();
    let known = ours.load_to(&run, 2).await.unwrap();
    assert_eq!(
        known.records().len(),
        2,
        "cached records cost no request, and the other writer's record is missing"
    );
    let news = ours.load(&run).await.unwrap();
    assert_eq!(news.records(), theirs.load_to(&run, 0).await.unwrap().records());
    assert_eq!(ours.load_to(&run, 3).await.unwrap().records().len(), 3);
}

async fn the_slower_writer_loses(process: &impl Fn() -> Ledger) {
    let (ledger, run) = (process(), run("race"));
    let (fast, slow) = (ledger.load(&run).await.unwrap(), ledger.load(&run).await.unwrap());
    let now = Timestamp::from_millis(0);
    ledger.append(fast, entry("fast"), now).await.unwrap();
    let lost = ledger.append(slow, entry("slow"), now).await;
    assert!(matches!(lost, Err(AppendError::Conflict { seq: 1, .. })), "{lost:?}");
    let reloaded = ledger.load(&run).await.unwrap();
    ledger.append(reloaded, entry("slow"), now).await.unwrap();
    assert_eq!(ledger.load(&run).await.unwrap().records().len(), 2);
    assert_eq!(process().load(&run).await.unwrap().records().len(), 2);
}

async fn a_gap_is_damage(process: &impl Fn() -> Ledger) {
    let (ledger, run) = (process(), run("gap"));
    let store = ledger.store();
    let mut loaded = ledger.load(&run).await.unwrap();
    for _ in 0..3 {
        loaded = ledger.append(loaded, entry("a"), Timestamp::from_millis(0)).await.unwrap();
    }
    store.remove("ledger/gap/0000000002.json").await.unwrap();
    assert!(matches!(process().load(&run).await, Err(LedgerError::Damaged { seq: 2, .. })));
    store.create("ledger/gap/0000000002.json", Bytes::from_static(b"{}")).await.unwrap();
    assert!(matches!(process().load(&run).await, Err(LedgerError::Damaged { seq: 2, .. })));
}

async fn a_removed_ledger_is_not_remembered(process: &impl Fn() -> Ledger) {
    let (ledger, run) = (process(), run("removed"));
    let mut loaded = ledger.load(&run).await.unwrap();
    for _ in 0..2 {
        loaded = ledger.append(loaded, entry("a"), Timestamp::from_millis(0)).await.unwrap();
    }
    for seq in 1..=2 {
        ledger.store().remove(&format!("ledger/{run}/{seq:010}.json")).await.unwrap();
    }
    assert_eq!(ledger.load(&run).await.unwrap().records().len(), 0);
}

async fn hints_come_and_go(ledger: &Ledger) {
    let run = run("hint");
    ledger.mark_open(&run).await.unwrap();
    ledger.mark_open(&run).await.unwrap();
    assert_eq!(ledger.open_runs().await.unwrap(), std::slice::from_ref(&run));
    ledger.mark_closed(&run).await.unwrap();
    assert!(ledger.open_runs().await.unwrap().is_empty());
    assert!(ledger.runs().await.unwrap().contains(&"append".parse().unwrap()));
}
