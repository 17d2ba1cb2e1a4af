//! The conformance suite, on every adapter.

use judge::{
    Sqlite,
    conformance::{history, runs},
    fake::FakeHistory,
};

#[tokio::test]
async fn the_memory_history_conforms() {
    let past = FakeHistory::default();
    runs().into_iter().for_each(|run| past.remember(run));
    history(&past).await;
}

#[tokio::test]
async fn the_sqlite_history_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let past = Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap();
    for (number, run) in runs().iter().enumerate() {
        past.load(&format!("load-{number}"), run).await.unwrap();
    }
    history(&past).await;
}
