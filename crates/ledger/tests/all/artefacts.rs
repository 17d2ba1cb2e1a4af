//! Files of a stage, beyond the conformance suite of stores.

use std::{
    io::{self, Cursor, Read},
    sync::Arc,
};

use ledger::{ArtefactError, Artefacts, Digest, MemoryStore, ObjectReader, Store, StoreError};
use model::*;

fn id(stage: Stage, attempt: u32) -> CommandId {
    CommandId { run: "a-run".parse().unwrap(), stage, attempt: Attempt::new(attempt), verb: Verb::Start }
}

fn logs_id() -> CommandId {
    id(Stage::Logs, 1)
}

fn body(text: &str) -> ObjectReader {
    Box::new(Cursor::new(text.as_bytes().to_vec()))
}

fn text(body: &mut dyn Read) -> io::Result<String> {
    let mut text = String::new();
    body.read_to_string(&mut text).map(|_| text)
}

fn damaged<T: std::fmt::Debug>(outcome: Result<T, ArtefactError>) -> (String, String) {
    match outcome {
        Err(ArtefactError::Damaged { name, why }) => (name, why),
        other => panic!("expected a damaged artefact, found {other:?}"),
    }
}

/// Replaces an object, as a person with access to the bucket could.
async fn replace(store: &dyn Store, name: &str, text: &str) {
    store.remove(name).await.unwrap();
    store.create(name, text.to_owned().into()).await.unwrap();
}

#[tokio::test]
async fn attempts_have_separate_folders() {
    let artefacts = Artefacts::new(Arc::new(MemoryStore::default()));
    artefacts.put(&id(Stage::Logs, 1), "x", body("one")).await.unwrap();
    artefacts.put(&id(Stage::Logs, 2), "x", body("two")).await.unwrap();
    artefacts.commit(&id(Stage::Logs, 1), vec![]).await.unwrap();
    assert!(artefacts.committed(&id(Stage::Logs, 2)).await.unwrap().is_none());
    assert!(artefacts.committed(&id(Stage::Verdict, 1)).await.unwrap().is_none());
}

#[tokio::test]
async fn an_unreadable_manifest_is_reported_as_damaged_and_is_not_overwritten() {
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let name = "artefacts/a-run/logs/1/manifest.json";
    store.create(name, "{\"run\":".into()).await.unwrap();
    assert_eq!(damaged(artefacts.committed(&logs_id()).await).0, name);
    assert_eq!(damaged(artefacts.commit(&logs_id(), vec![]).await).0, name);
    assert_eq!(store.read(name).await.unwrap().unwrap(), "{\"run\":");
}

#[tokio::test]
async fn unread_bytes_are_verified_too() {
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let long = "x".repeat(300_000);
    let object = artefacts.put(&logs_id(), "log", body(&long)).await.unwrap();
    let committed = artefacts.commit(&logs_id(), vec![object.clone()]).await.unwrap();
    let first_byte = |body: &mut dyn Read| {
        let mut byte = [0];
        body.read_exact(&mut byte).map(|()| byte[0])
    };
    assert_eq!(artefacts.read(&committed.name, &object, first_byte).await.unwrap(), b'x');
    replace(&*store, "artefacts/a-run/logs/1/log", &format!("{}y", &long[1..])).await;
    damaged(artefacts.read(&committed.name, &object, first_byte).await);
}

#[tokio::test]
async fn a_failing_reader_is_reported_as_an_error_and_not_as_corruption() {
    let artefacts = Artefacts::new(Arc::new(MemoryStore::default()));
    let object = artefacts.put(&logs_id(), "log", body("text")).await.unwrap();
    let committed = artefacts.commit(&logs_id(), vec![object.clone()]).await.unwrap();
    let fails = |_: &mut dyn Read| Err::<(), _>(io::Error::other("the connection broke"));
    let outcome = artefacts.read(&committed.name, &object, fails).await;
    assert!(matches!(outcome, Err(ArtefactError::Store(StoreError::Io { .. }))), "{outcome:?}");
    let panics = |_: &mut dyn Read| -> io::Result<()> { panic!("a bug in a reader") };
    let outcome = artefacts.read(&committed.name, &object, panics).await;
    assert!(matches!(outcome, Err(ArtefactError::Store(StoreError::Io { .. }))), "{outcome:?}");
}

/// Logs of two attempts, committed.
async fn two_attempts(artefacts: &Artefacts) -> Logs {
    let mut objects = Vec::new();
    for name in ["1/node-0.log", "10/node-0.log", "2/node-0.log", "2/node-1.log"] {
        objects.push(artefacts.put(&logs_id(), name, body(name)).await.unwrap());
    }
    let committed = artefacts.commit(&logs_id(), objects).await.unwrap();
    Logs { manifest: committed.name, sha256: committed.digest.sha256, objects: 4, size_bytes: 50 }
}

#[tokio::test]
async fn reading_an_attempt_returns_only_its_logs() {
    let artefacts = Artefacts::new(Arc::new(MemoryStore::default()));
    let logs = two_attempts(&artefacts).await;
    for (attempt, expected) in [
        (1, vec!["1/node-0.log"]),
        (2, vec!["2/node-0.log", "2/node-1.log"]),
        (3, vec![]),
        (10, vec!["10/node-0.log"]),
    ] {
        let read = artefacts.logs(&logs, Attempt::new(attempt), text).await.unwrap();
        assert!(read.iter().all(|(object, text)| object.name == *text));
        let names: Vec<String> = read.into_iter().map(|(object, _)| object.name).collect();
        assert_eq!(names, expected, "attempt {attempt}");
    }
}

#[tokio::test]
async fn a_missing_or_replaced_manifest_is_reported_as_corruption() {
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let logs = two_attempts(&artefacts).await;
    let read = async |logs: &Logs| artefacts.logs(logs, Attempt::FIRST, text).await;
    assert_eq!(read(&logs).await.unwrap().len(), 1);

    let other = Logs { sha256: Digest::of(b"another manifest").sha256, ..logs.clone() };
    assert_eq!(damaged(read(&other).await).1, "the manifest differs from the committed manifest");
    store.remove(&logs.manifest).await.unwrap();
    assert_eq!(damaged(read(&logs).await), (logs.manifest, "the manifest is missing".into()));
}

#[tokio::test]
async fn manifests_of_the_first_format_are_read_and_later_ones_refused() {
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let object = r#"{"name":"1/node-0.log","size_bytes":5,"sha256":"ab","crc32c":"cd"}"#;
    let old = format!(r#"{{"run":"a-run","stage":"logs","attempt":1,"objects":[{object}]}}"#);
    store.create("old/manifest.json", old.clone().into()).await.unwrap();
    let read = artefacts.manifest("old/manifest.json").await.unwrap().unwrap().manifest;
    assert_eq!((read.format, read.objects.len(), read.left_out.len()), (1, 1, 0));
    assert_eq!(read.objects[0].collected, None);
    assert_eq!(
        serde_json::to_string(&read).unwrap(),
        old,
        "a manifest of the first format is written unchanged"
    );
    store.create("new/manifest.json", old.replacen('{', r#"{"format":3,"#, 1).into()).await.unwrap();
    let (name, why) = damaged(artefacts.manifest("new/manifest.json").await);
    assert!(name == "new/manifest.json" && why.contains("format 3"), "{name}: {why}");
}

#[tokio::test]
async fn changed_content_can_be_stored_under_another_name() {
    let artefacts = Artefacts::new(Arc::new(MemoryStore::default()));
    let first = artefacts.try_put(&logs_id(), "log", body("one")).await.unwrap().unwrap();
    assert_eq!(artefacts.try_put(&logs_id(), "log", body("one")).await.unwrap(), Some(first));
    assert_eq!(artefacts.try_put(&logs_id(), "log", body("one, two")).await.unwrap(), None);
    assert!(artefacts.try_put(&logs_id(), "log~2", body("one, two")).await.unwrap().is_some());
}
