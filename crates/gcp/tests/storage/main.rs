//! Tests of the store on Cloud Storage against the stand-in: the conformance suites, lost responses, truncated bodies and broken
//! connections.

mod faults;
mod large;
mod rivals;

use std::{sync::Arc, time::Duration};

use gcp::storage::{CloudStorage, StorageTimeouts};
use ledger::{Store, conformance};
use storage_standin::{Options, StandIn};

const BUCKET: &str = "bucket";

/// Shorter timeouts than for Google: a local request that stalls never continues.
fn timeouts() -> StorageTimeouts {
    StorageTimeouts {
        attempt: Duration::from_millis(400),
        total: Duration::from_secs(4),
        check: Duration::from_millis(400),
        stream: Duration::from_secs(4),
    }
}

async fn standin(pause: Duration) -> StandIn {
    StandIn::start(Options { pause, ..Options::default() }).await.unwrap()
}

fn store(standin: &StandIn) -> Arc<CloudStorage> {
    Arc::new(CloudStorage::with_timeouts(BUCKET, Some(standin.url().parse().unwrap()), timeouts()))
}

/// Uses timeouts that suffice for chunks of 8 MiB on a busy machine.
fn store_of_streams(standin: &StandIn) -> Arc<CloudStorage> {
    let (attempt, stream) = (Duration::from_secs(1), Duration::from_secs(8));
    let timeouts = StorageTimeouts { attempt, stream, ..timeouts() };
    Arc::new(CloudStorage::with_timeouts(BUCKET, Some(standin.url().parse().unwrap()), timeouts))
}

#[tokio::test]
async fn the_store_conforms() {
    for pause in [Duration::ZERO, Duration::from_secs(1)] {
        conformance::store(store(&standin(pause).await)).await;
        conformance::ledger(store(&standin(pause).await)).await;
        conformance::artefacts(store(&standin(pause).await)).await;
    }
}

/// The conformance suites on another server, such as Google's storage-testbench; see docs/TESTING.md. Its buckets
/// `suite-a`, `suite-b` and `suite-c` must exist and be empty.
#[tokio::test]
#[ignore = "needs a server: BURNIN_STORAGE_AT is its address"]
async fn the_store_conforms_on_another_server() {
    let server: gcp::storage::Emulator = std::env::var("BURNIN_STORAGE_AT").unwrap().parse().unwrap();
    let at = |bucket: &str| Arc::new(CloudStorage::with_timeouts(bucket, Some(server.clone()), timeouts()));
    conformance::store(at("suite-a")).await;
    conformance::ledger(at("suite-b")).await;
    conformance::artefacts(at("suite-c")).await;
}

#[tokio::test]
async fn names_are_returned_unchanged() {
    let standin = standin(Duration::ZERO).await;
    let store = store(&standin);
    let long = format!("l/{}", "é".repeat(127));
    let names =
        [" a b ", "50%", "%2F", "a?b=c&d", "a#b", "a+b", "ü/日本/🦀", "a:b@c;d,e'f\"g", "*[x]*.json", &long];
    for name in names {
        store.create(name, name.to_owned().into()).await.unwrap();
        assert_eq!(store.read(name).await.unwrap().unwrap(), name);
        assert_eq!(store.list(name).await.unwrap(), [name]);
    }
    let mut sorted = names;
    sorted.sort();
    assert_eq!(standin.names(BUCKET), sorted, "the service stores these names, not their escaped forms");
    for name in names {
        store.remove(name).await.unwrap();
    }
    assert!(standin.names(BUCKET).is_empty());
    assert_eq!(store.locate("a b"), "gs://bucket/a b");
}

#[tokio::test]
async fn more_names_than_fit_a_page_are_listed() {
    let standin = standin(Duration::ZERO).await;
    let store = store(&standin);
    for number in 0..2300 {
        standin.put(BUCKET, &format!("many/{number:04}"), "x");
    }
    standin.put(BUCKET, "more", "x");
    let names = store.list("many/").await.unwrap();
    assert_eq!((names.len(), &*names[0], &*names[2299]), (2300, "many/0000", "many/2299"));
}

#[tokio::test]
async fn permanent_failures_are_returned_without_retries() {
    let standin = standin(Duration::ZERO).await;
    let nowhere = CloudStorage::new("nowhere", Some(standin.url().parse().unwrap()));
    let errors = [
        nowhere.create("a", "x".into()).await.unwrap_err(),
        nowhere.list("").await.unwrap_err(),
        nowhere.create_from("a", Box::new(tokio::io::repeat(1))).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        let message = service::worker::chain(&error);
        assert!(message.contains("404") && message.contains("bucket nowhere does not exist"), "{message}");
    }
    let statuses: Vec<u16> = standin.requests().into_iter().map(|(_, status)| status).collect();
    assert_eq!(statuses, [404; 3], "a permanent failure is not retried");

    standin.put(BUCKET, "kept", "x");
    standin.retain(BUCKET, Duration::from_secs(60));
    let message = service::worker::chain(&store(&standin).remove("kept").await.unwrap_err());
    assert!(message.contains("403") && message.contains("retention"), "{message}");
    assert_eq!(standin.names(BUCKET), ["kept"]);
}
