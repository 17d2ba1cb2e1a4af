//! Each failure of a request, alone.

use std::{
    io::{Cursor, ErrorKind},
    time::{Duration, Instant},
};

use bytes::Bytes;
use ledger::{Creation, Digest, Store, StoreError};
use storage_standin::{Fault, FaultKind, StorageRequest};
use tokio::io::AsyncReadExt;

use super::{BUCKET, standin, store, store_of_streams, timeouts};

const FOR_GOOD: u32 = u32::MAX;

/// Word for the result of a create: `created`, `exists`, or `error` if the outcome is unknown.
fn outcome<T>(outcome: &Result<T, StoreError>, of: impl Fn(&T) -> Creation) -> &'static str {
    match outcome.as_ref().map(of) {
        Ok(Creation::Created) => "created",
        Ok(Creation::Exists) => "exists",
        Err(_) => "error",
    }
}

#[tokio::test]
async fn a_create_reports_the_correct_result_after_failed_requests_and_lost_responses() {
    let body = Bytes::from_static(b"a record with a nonce");
    let table = [
        (FaultKind::Refuse(503), "created"),
        (FaultKind::Refuse(500), "created"),
        (FaultKind::Refuse(408), "created"),
        // The name was free, so the retry after status 429 creates the object.
        (FaultKind::Refuse(429), "created"),
        (FaultKind::CutBefore, "created"),
        (FaultKind::CutWithin(40), "created"),
        (FaultKind::StallBefore, "created"),
        // The object exists, and its creator is unknown: the caller reads it back.
        (FaultKind::FailAfter(503), "exists"),
        (FaultKind::FailAfter(429), "exists"),
        (FaultKind::CutAfter, "exists"),
        (FaultKind::StallAfter, "exists"),
        (FaultKind::HalfAnswer, "exists"),
        (FaultKind::HalfThenStall, "exists"),
        // The first request takes effect after its retry.
        (FaultKind::Late(1000), "created"),
        (FaultKind::WrongCrc, "error"),
        (FaultKind::Refuse(403), "error"),
        (FaultKind::Refuse(400), "error"),
    ];
    for (kind, expected) in table {
        let standin = standin(Duration::ZERO).await;
        let store = store(&standin);
        standin.fault(StorageRequest::Insert, kind);
        let created = store.create("name", body.clone()).await;
        assert_eq!(outcome(&created, |creation| *creation), expected, "{kind:?}");
        assert_eq!(standin.clear_faults(), 0, "{kind:?} occurred");
        let there = standin.object(BUCKET, "name").map(|object| object.body);
        let refused = matches!(kind, FaultKind::Refuse(400 | 403));
        assert_eq!(there, (!refused).then(|| body.clone()), "{kind:?}");
        if !refused {
            assert_eq!(store.create("name", Bytes::new()).await.unwrap(), Creation::Exists, "{kind:?}");
            assert_eq!(store.read("name").await.unwrap(), Some(body.clone()), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_rate_limited_name_is_read_back() {
    let standin = standin(Duration::from_secs(3600)).await;
    let store = store(&standin);
    assert_eq!(store.create("name", "first".into()).await.unwrap(), Creation::Created);
    let started = Instant::now();
    assert_eq!(store.create("name", "second".into()).await.unwrap(), Creation::Exists);
    assert!(started.elapsed() < timeouts().attempt, "no second attempt is needed");
    let requests = standin.requests();
    assert_eq!(
        requests,
        [(StorageRequest::Insert, 200), (StorageRequest::Insert, 429), (StorageRequest::Get, 200)]
    );
}

#[tokio::test]
async fn a_create_that_returns_403_for_a_taken_name_reports_that_the_name_exists() {
    let standin = standin(Duration::ZERO).await;
    let store = store(&standin);
    standin.put(BUCKET, "name", "first");
    standin.fault(StorageRequest::Insert, FaultKind::Refuse(403));
    assert_eq!(store.create("name", "second".into()).await.unwrap(), Creation::Exists);
    standin.fault(StorageRequest::Start, FaultKind::Refuse(403));
    let large = Box::new(tokio::io::AsyncReadExt::take(tokio::io::repeat(1), 3 << 20));
    assert_eq!(store.create_from("name", large).await.unwrap().0, Creation::Exists);
    assert_eq!(standin.clear_faults(), 0);
    assert_eq!(standin.object(BUCKET, "name").unwrap().body, "first");
}

#[tokio::test]
async fn an_absent_name_is_recognized_although_the_first_page_is_empty() {
    let standin = standin(Duration::ZERO).await;
    let store = store(&standin);
    standin.put(BUCKET, "kept", "x");
    standin.empty_first_pages();
    assert_eq!(store.list("").await.unwrap(), ["kept"]);
    for (name, is_absent) in [("kept", false), ("kep", true), ("none", true)] {
        standin.fault(StorageRequest::Delete, FaultKind::Refuse(403));
        assert_eq!(store.remove(name).await.is_ok(), is_absent, "{name}");
    }
    assert_eq!(standin.names(BUCKET), ["kept"]);
}

#[tokio::test]
async fn no_call_exceeds_its_timeout() {
    for kind in
        [FaultKind::Refuse(503), FaultKind::StallBefore, FaultKind::CutBefore, FaultKind::HalfThenStall]
    {
        let standin = standin(Duration::ZERO).await;
        let store = store(&standin);
        standin.put(BUCKET, "there", "x");
        for on in [
            StorageRequest::Insert,
            StorageRequest::Get,
            StorageRequest::Media,
            StorageRequest::List,
            StorageRequest::Delete,
        ] {
            standin.faults(Fault { on, kind, times: FOR_GOOD, after: 0 });
        }
        let limit = timeouts().total + timeouts().check + Duration::from_secs(1);
        let (created, read, listed, removed) = tokio::join!(
            tokio::time::timeout(limit, store.create("name", "x".into())),
            tokio::time::timeout(limit, store.read("there")),
            tokio::time::timeout(limit, store.list("")),
            tokio::time::timeout(limit, store.remove("gone")),
        );
        assert!(read.unwrap().is_err() && listed.unwrap().is_err(), "{kind:?}");
        // The check after an unknown outcome needs only the headers of the response.
        let created = outcome(&created.unwrap(), |creation| *creation);
        assert_eq!(created, if kind == FaultKind::HalfThenStall { "exists" } else { "error" }, "{kind:?}");
        // The response to a removal has no body, so a fault within the body does not affect it.
        assert!(removed.unwrap().is_err() || kind == FaultKind::HalfThenStall, "{kind:?}");
    }
}

#[tokio::test]
async fn an_interrupted_read_continues_and_is_verified() {
    let body = Bytes::from((0..3_000_000u32).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    let trouble = [
        FaultKind::Refuse(503),
        FaultKind::Refuse(429),
        FaultKind::CutBefore,
        FaultKind::StallBefore,
        FaultKind::HalfAnswer,
        FaultKind::HalfThenStall,
    ];
    for kind in trouble {
        let standin = standin(Duration::ZERO).await;
        standin.put(BUCKET, "name", body.clone());
        standin.faults(Fault { on: StorageRequest::Media, kind, times: 3, after: 0 });
        let mut read = Vec::new();
        store(&standin).open("name").await.unwrap().unwrap().read_to_end(&mut read).await.unwrap();
        assert!(read == body, "{kind:?}");
        assert_eq!(standin.clear_faults(), 0);
    }
    for kind in [FaultKind::Flip, FaultKind::WrongCrc] {
        let standin = standin(Duration::ZERO).await;
        let store = store(&standin);
        standin.put(BUCKET, "name", body.clone());
        standin.fault(StorageRequest::Media, kind);
        let mut read = Vec::new();
        let ended = store.open("name").await.unwrap().unwrap().read_to_end(&mut read).await;
        assert_eq!(
            ended.unwrap_err().kind(),
            ErrorKind::InvalidData,
            "{kind:?}: a damaged stream is an error"
        );
        standin.fault(StorageRequest::Media, kind);
        assert_eq!(store.read("name").await.unwrap().unwrap(), body, "{kind:?}: the second read is complete");
        standin.faults(Fault { on: StorageRequest::Media, kind, times: FOR_GOOD, after: 0 });
        assert!(store.read("name").await.is_err(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_read_does_not_mix_two_generations_of_a_replaced_object() {
    let standin = standin(Duration::ZERO).await;
    standin.put(BUCKET, "name", vec![1; 3_000_000]);
    standin.fault(StorageRequest::Media, FaultKind::HalfAnswer);
    let mut reader = store(&standin).open("name").await.unwrap().unwrap();
    let mut read = vec![0; 1000];
    reader.read_exact(&mut read).await.unwrap();
    standin.put(BUCKET, "name", vec![2; 3_000_000]);
    assert!(reader.read_to_end(&mut read).await.is_err(), "the rest of the replaced object is absent");
    assert!(read.iter().all(|byte| *byte == 1));
}

#[tokio::test]
async fn listing_and_removing_are_retried() {
    let after = [FaultKind::FailAfter(503), FaultKind::CutAfter, FaultKind::StallAfter];
    for kind in
        [FaultKind::Refuse(503), FaultKind::CutBefore, FaultKind::StallBefore].into_iter().chain(after)
    {
        let standin = standin(Duration::ZERO).await;
        let store = store(&standin);
        standin.put(BUCKET, "open/a", "");
        standin.fault(StorageRequest::List, kind);
        assert_eq!(store.list("open/").await.unwrap(), ["open/a"], "{kind:?}");
        standin.fault(StorageRequest::Delete, kind);
        store.remove("open/a").await.unwrap();
        assert!(standin.names(BUCKET).is_empty(), "{kind:?}");
        assert_eq!(standin.clear_faults(), 0);
    }
}

/// Content of two whole chunks and a partial chunk.
fn stream() -> Bytes {
    (0..(17u32 << 20)).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>().into()
}

#[tokio::test]
async fn a_stream_is_stored_completely_despite_faults_of_its_chunks() {
    let body = stream();
    let digest = Digest::of(&body);
    let pieces = [
        FaultKind::Refuse(503),
        FaultKind::FailAfter(503),
        FaultKind::Refuse(429),
        FaultKind::CutBefore,
        FaultKind::CutWithin(100),
        FaultKind::CutWithin(300 << 10),
        FaultKind::CutWithin((5 << 20) + 123),
        FaultKind::CutAfter,
        FaultKind::StallBefore,
        FaultKind::StallAfter,
    ];
    for kind in pieces {
        let standin = standin(Duration::ZERO).await;
        let store = store_of_streams(&standin);
        standin.fault(StorageRequest::Start, FaultKind::Refuse(503));
        // The faults apply to each chunk, including the last chunk, and to a progress query.
        for after in [0, 1, 1] {
            standin.faults(Fault { on: StorageRequest::Chunk, kind, times: 1, after });
        }
        standin.faults(Fault { on: StorageRequest::Status, kind: FaultKind::CutAfter, times: 1, after: 0 });
        let stored = store.create_from("name", Box::new(Cursor::new(body.clone()))).await.unwrap();
        assert_eq!(stored, (Creation::Created, digest.clone()), "{kind:?}");
        assert!(standin.object(BUCKET, "name").unwrap().body == body, "{kind:?}");
        // Bytes that arrived without a response are not sent again, so one fault may be unused.
        assert!(standin.clear_faults() <= 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_failed_upload_stores_no_object() {
    let body = stream();
    for kind in [FaultKind::Refuse(403), FaultKind::Refuse(503), FaultKind::StallBefore, FaultKind::CutBefore]
    {
        let standin = standin(Duration::ZERO).await;
        standin.faults(Fault { on: StorageRequest::Chunk, kind, times: FOR_GOOD, after: 1 });
        let stored = store(&standin).create_from("name", Box::new(Cursor::new(body.clone()))).await;
        assert!(stored.is_err(), "{kind:?}: {stored:?}");
        assert!(standin.names(BUCKET).is_empty() && standin.unfinished() == 0, "{kind:?}");
    }
    // An upload whose source fails, or that is dropped, also stores no object.
    let standin = standin(Duration::ZERO).await;
    let breaks = breaking(body.slice(..9 << 20));
    let stored = store(&standin).create_from("name", breaks).await;
    assert!(stored.is_err() && standin.unfinished() == 0, "{stored:?}");
    let endless = Box::new(tokio::io::repeat(7));
    let store = store(&standin);
    let gone = tokio::time::timeout(Duration::from_millis(300), store.create_from("name", endless)).await;
    assert!(gone.is_err() && standin.names(BUCKET).is_empty());
}

/// A reader that returns these bytes, then an error.
fn breaking(bytes: Bytes) -> ledger::ObjectReader {
    let broken = futures::stream::iter([Ok(bytes), Err(std::io::Error::other("the disk was removed"))]);
    Box::new(tokio_util::io::StreamReader::new(broken))
}

#[tokio::test]
async fn a_stream_with_another_stored_checksum_is_not_reported_as_stored() {
    let standin = standin(Duration::ZERO).await;
    standin.faults(Fault { on: StorageRequest::Chunk, kind: FaultKind::WrongCrc, times: 1, after: 2 });
    let stored = store_of_streams(&standin).create_from("name", Box::new(Cursor::new(stream()))).await;
    assert!(service::worker::chain(&stored.unwrap_err()).contains("CRC32C"));
}
