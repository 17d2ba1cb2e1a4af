//! What every [`Scheduler`] must do, as one suite.

use std::time::Duration;

use terms::{Cluster, JobEnd};
use tokio::io::AsyncReadExt;

use crate::port::{Job, Scheduler, Standing};

/// The adapter keeps the port's promises. `job` makes a job of the given name that takes about a second, ends well and
/// writes something.
///
/// # Panics
/// Where it does not.
pub async fn scheduler(scheduler: &dyn Scheduler, cluster: &Cluster, job: impl Fn(&str) -> Job) {
    assert_eq!(scheduler.look(cluster, "one").await.expect("an answer"), Standing::Absent);

    let handle = scheduler.submit(&job("one")).await.expect("a handle");
    assert_eq!(
        scheduler.submit(&job("one")).await.expect("a handle"),
        handle,
        "a second submission finds the first"
    );
    let end = ended(scheduler, cluster, "one").await;
    assert_eq!((end.state.as_str(), end.exit_code), ("COMPLETED", Some(0)));
    scheduler.cancel(cluster, "one").await.expect("an answer");
    assert_eq!(ended(scheduler, cluster, "one").await, end, "what has ended stays as it ended");

    let files = scheduler.outputs(cluster, "one").await.expect("an answer");
    assert!(!files.is_empty());
    let mut text = String::new();
    for file in &files {
        let mut body = scheduler.output(cluster, "one", file).await.expect("a file");
        body.read_to_string(&mut text).await.expect("text");
    }
    assert!(!text.is_empty());
    assert_eq!(scheduler.outputs(cluster, "none").await.expect("an answer"), [""; 0]);

    scheduler.submit(&job("two")).await.expect("a handle");
    scheduler.cancel(cluster, "two").await.expect("an answer");
    assert_eq!(ended(scheduler, cluster, "two").await.state, "CANCELLED");

    scheduler.cancel(cluster, "three").await.expect("an answer");
    scheduler.submit(&job("three")).await.expect("a handle");
    assert_eq!(ended(scheduler, cluster, "three").await.state, "CANCELLED", "cancelled before it began");
}

async fn ended(scheduler: &dyn Scheduler, cluster: &Cluster, name: &str) -> JobEnd {
    for _ in 0..3000 {
        match scheduler.look(cluster, name).await.expect("an answer") {
            Standing::Ended(end) => return end,
            Standing::Going => tokio::time::sleep(Duration::from_millis(10)).await,
            other => panic!("{name}: {other:?}"),
        }
    }
    panic!("{name} does not end");
}
