//! Contract of artefacts on every store: stored once, committed once, verified at every read.

use std::{
    io::{self, Cursor, Read},
    sync::Arc,
};

use model::{Attempt, CommandId, ManifestObject, Stage, Verb};

use crate::{ArtefactError, Artefacts, Digest, ObjectReader, Store, StoreError};

/// Checks the contract of artefacts on the store. Requires an empty store.
///
/// # Panics
/// Panics at the first violation and names it.
pub async fn artefacts(store: Arc<dyn Store>) {
    names_that_lead_out_of_the_folder_are_refused(&store).await;
    the_same_file_may_be_stored_again_and_another_one_may_not(&store).await;
    a_second_commit_finds_the_first(&store).await;
    reading_finds_a_changed_byte_a_missing_byte_and_a_missing_object(&store).await;
}

fn logs(run: &str) -> CommandId {
    CommandId { run: run.parse().unwrap(), stage: Stage::Logs, attempt: Attempt::FIRST, verb: Verb::Start }
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

/// Simulates manual tampering with the bucket.
async fn replace(store: &dyn Store, name: &str, text: &str) {
    store.remove(name).await.unwrap();
    store.create(name, text.to_owned().into()).await.unwrap();
}

async fn the_same_file_may_be_stored_again_and_another_one_may_not(store: &Arc<dyn Store>) {
    let artefacts = Artefacts::new(Arc::clone(store));
    let first = artefacts.put(&logs("again"), "1/node-0.log", body("hello")).await.unwrap();
    let Digest { size_bytes, sha256, crc32c } = Digest::of(b"hello");
    assert_eq!(
        first,
        ManifestObject { name: "1/node-0.log".into(), size_bytes, sha256, crc32c, collected: None }
    );
    let again = artefacts.put(&logs("again"), "1/node-0.log", body("hello")).await.unwrap();
    assert_eq!(again, first, "a repeated put returns the same object");

    let (name, why) = damaged(artefacts.put(&logs("again"), "1/node-0.log", body("hullo")).await);
    assert_eq!(name, "artefacts/again/logs/1/1/node-0.log");
    assert_eq!(why, "different content was stored before");
    let stored = store.read(&name).await.unwrap().unwrap();
    assert_eq!(stored, "hello", "the first content is kept");
}

async fn a_second_commit_finds_the_first(store: &Arc<dyn Store>) {
    let artefacts = Artefacts::new(Arc::clone(store));
    assert!(artefacts.committed(&logs("twice")).await.unwrap().is_none());
    let one = artefacts.put(&logs("twice"), "one", body("1")).await.unwrap();
    let two = artefacts.put(&logs("twice"), "two", body("2")).await.unwrap();
    let first = artefacts.commit(&logs("twice"), vec![two.clone(), one.clone()]).await.unwrap();
    assert_eq!(first.name, "artefacts/twice/logs/1/manifest.json");
    assert_eq!(
        first.manifest.objects,
        [one.clone(), two],
        "files are sorted, so that equal files have equal manifests"
    );

    let second = artefacts.commit(&logs("twice"), vec![one]).await.unwrap();
    assert_eq!((&second.manifest, &second.digest), (&first.manifest, &first.digest));
    let read = artefacts.committed(&logs("twice")).await.unwrap().unwrap();
    assert_eq!((&read.manifest, &read.digest), (&first.manifest, &first.digest));
}

async fn reading_finds_a_changed_byte_a_missing_byte_and_a_missing_object(store: &Arc<dyn Store>) {
    let artefacts = Artefacts::new(Arc::clone(store));
    let object = artefacts.put(&logs("changed"), "log", body("all is well\n")).await.unwrap();
    let committed = artefacts.commit(&logs("changed"), vec![object.clone()]).await.unwrap();
    let read = async || artefacts.read(&committed.name, &object, text).await;
    assert_eq!(read().await.unwrap(), "all is well\n");

    let name = "artefacts/changed/logs/1/log";
    for changed in ["all is hell\n", "all is well", "all is well\n\n", ""] {
        replace(&**store, name, changed).await;
        assert_eq!(damaged(read().await), (name.into(), "differs from its manifest".into()), "{changed:?}");
    }
    store.remove(name).await.unwrap();
    assert_eq!(damaged(read().await), (name.into(), "is missing".into()));
}

async fn names_that_lead_out_of_the_folder_are_refused(store: &Arc<dyn Store>) {
    let artefacts = Artefacts::new(Arc::clone(store));
    for name in ["..", "../1/manifest.json", "a/../../b", "/etc/passwd", "", "a//b", "a\\b", "a\nb", "./a"] {
        let refused = artefacts.put(&logs("names"), name, body("x")).await;
        assert!(
            matches!(refused, Err(ArtefactError::Store(StoreError::Name { .. }))),
            "{name:?}: {refused:?}"
        );
        // The reader also rejects a manifest with an invalid name.
        let object = ManifestObject {
            name: name.into(),
            size_bytes: 1,
            sha256: "s".into(),
            crc32c: "c".into(),
            collected: None,
        };
        let refused = artefacts.read("artefacts/names/logs/1/manifest.json", &object, text).await;
        assert!(
            matches!(refused, Err(ArtefactError::Store(StoreError::Name { .. }))),
            "{name:?}: {refused:?}"
        );
    }
    assert_eq!(store.list("").await.unwrap(), [""; 0]);
}
