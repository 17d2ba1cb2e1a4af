//! Competing writers under random faults.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use gcp::storage::{CloudStorage, StorageTimeouts};
use ledger::{AppendError, Creation, Digest, Ledger, Store};
use model::{Attempt, CancelRequested, EventKey, Fact, RecordEntry, RunId, Timestamp};
use proptest::prelude::*;
use storage_standin::{Fault, FaultKind, StandIn, StorageRequest};
use tokio::io::AsyncWriteExt;

use super::{BUCKET, standin, store};

#[tokio::test]
async fn a_faster_concurrent_writer_keeps_the_name() {
    let standin = standin(Duration::ZERO).await;
    let store = store(&standin);
    let (mut write, read) = tokio::io::duplex(1 << 20);
    let uploading = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.create_from("name", Box::new(read)).await }
    });
    let body = vec![7; 9 << 20];
    write.write_all(&body).await.unwrap();
    assert_eq!(store.create("name", "rival".into()).await.unwrap(), Creation::Created);
    write.write_all(b"the end").await.unwrap();
    drop(write);
    let digest = Digest::of(&[&body[..], b"the end"].concat());
    assert_eq!(uploading.await.unwrap().unwrap(), (Creation::Exists, digest));
    assert_eq!(store.read("name").await.unwrap(), Some(Bytes::from_static(b"rival")));
    // A later writer finds the existing object before it sends a chunk, and still reads its source to the end.
    let late = store.create_from("name", Box::new(std::io::Cursor::new(body.clone()))).await.unwrap();
    assert_eq!(late, (Creation::Exists, Digest::of(&body)));
    assert_eq!(standin.unfinished(), 0);
}

#[tokio::test]
async fn at_most_one_concurrent_creator_succeeds() {
    for kind in [
        FaultKind::FailAfter(503),
        FaultKind::CutAfter,
        FaultKind::StallAfter,
        FaultKind::Late(700),
        FaultKind::Refuse(429),
    ] {
        let standin = standin(Duration::from_secs(1)).await;
        let store = store(&standin);
        standin.faults(Fault { on: StorageRequest::Insert, kind, times: 3, after: 0 });
        let creators = (0..8).map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.create("name", "the same".into()).await })
        });
        let mut first = 0;
        for creator in creators.collect::<Vec<_>>() {
            first += usize::from(creator.await.unwrap().is_ok_and(|creation| creation == Creation::Created));
        }
        assert!(first <= 1, "{kind:?}: {first}");
        assert_eq!(standin.object(BUCKET, "name").unwrap().body, "the same");
    }
}

fn kind() -> impl Strategy<Value = FaultKind> {
    prop_oneof![
        prop_oneof![Just(429), Just(500), Just(503)].prop_map(FaultKind::Refuse),
        prop_oneof![Just(429), Just(503)].prop_map(FaultKind::FailAfter),
        (0usize..600).prop_map(FaultKind::CutWithin),
        (50u64..900).prop_map(FaultKind::Late),
        Just(FaultKind::CutBefore),
        Just(FaultKind::CutAfter),
        Just(FaultKind::StallBefore),
        Just(FaultKind::StallAfter),
        Just(FaultKind::HalfAnswer),
        Just(FaultKind::HalfThenStall),
        Just(FaultKind::WrongCrc),
        Just(FaultKind::Flip),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let on = prop_oneof![
        4 => Just(StorageRequest::Insert),
        1 => Just(StorageRequest::Media),
        1 => Just(StorageRequest::List),
        1 => Just(StorageRequest::Get),
    ];
    (on, kind(), 1u32..4, 0u32..4).prop_map(|(on, kind, times, after)| Fault { on, kind, times, after })
}

/// Appends its events one after the other, as a conductor does: existing records are not appended again. Returns the
/// acknowledged numbers.
async fn writer(ledger: Ledger, run: RunId, name: &str) -> BTreeMap<u64, String> {
    let mut written = BTreeMap::new();
    for number in 0..3 {
        let id = format!("{name}-{number}");
        let event = EventKey { source: "//test".into(), id: id.clone() };
        let fact = Fact::CancelRequested(CancelRequested { by: id.clone(), reason: String::new() });
        let entry = RecordEntry::Accepted { event, attempt: Attempt::FIRST, fact: Box::new(fact) };
        loop {
            let Ok(loaded) = ledger.load(&run).await else { continue };
            let there = |record: &model::Record| event_of(&record.entry) == Some(&id);
            if loaded.records().iter().any(there) {
                break;
            }
            let seq = loaded.next_seq();
            match ledger.append(loaded, entry.clone(), Timestamp::from_millis(0)).await {
                Ok(_) => {
                    written.insert(seq, id.clone());
                    break;
                }
                Err(AppendError::Conflict { .. } | AppendError::Ledger(_)) => {}
            }
        }
    }
    written
}

fn event_of(entry: &RecordEntry) -> Option<&String> {
    if let RecordEntry::Accepted { event, .. } = entry { Some(&event.id) } else { None }
}

async fn compete(faults: Vec<Fault>) {
    let standin: StandIn = standin(Duration::from_millis(20)).await;
    for fault in faults {
        standin.faults(fault);
    }
    let timeouts = StorageTimeouts {
        attempt: Duration::from_millis(120),
        total: Duration::from_millis(600),
        check: Duration::from_millis(120),
        stream: Duration::from_secs(1),
    };
    let nonces = Arc::new(AtomicU64::new(0));
    let ledger = || {
        let store =
            CloudStorage::with_timeouts(BUCKET, Some(standin.url().parse().unwrap()), timeouts.clone());
        let nonces = Arc::clone(&nonces);
        Ledger::new(Arc::new(store), Arc::new(move || nonces.fetch_add(1, Ordering::Relaxed).to_string()))
    };
    let run: RunId = "run".parse().unwrap();
    let both =
        async { tokio::join!(writer(ledger(), run.clone(), "one"), writer(ledger(), run.clone(), "two")) };
    let (one, two) =
        tokio::time::timeout(Duration::from_secs(30), both).await.expect("both writers have ended");
    standin.clear_faults();
    // Without faults, the default timeouts are sufficient.
    let healed = CloudStorage::new(BUCKET, Some(standin.url().parse().unwrap()));
    let loaded = Ledger::new(Arc::new(healed), Arc::new(String::new)).load(&run).await.unwrap();
    let there: Vec<_> = loaded.records().iter().filter_map(|record| event_of(&record.entry)).collect();
    for (seq, id) in one.iter().chain(&two) {
        assert_eq!(there[*seq as usize - 1], id, "an acknowledged record keeps its number");
    }
    let mut once = there.clone();
    once.sort();
    assert_eq!(once, ["one-0", "one-1", "one-2", "two-0", "two-1", "two-2"], "each event is recorded once");
    let numbers = one.keys().filter(|seq| two.contains_key(seq)).count();
    assert_eq!(numbers, 0, "no number was assigned twice");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_record_exists_once_despite_failures(faults in prop::collection::vec(fault(), 0..7)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compete(faults));
    }
}
