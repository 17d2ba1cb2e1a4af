//! Lists of runs: content, order, pages, and number of requests.

use std::sync::Arc;

use crate::support::{Counting, START, ask, cancel, ledger, run, run_index};
use futures::{StreamExt, TryStreamExt};
use ledger::{MemoryStore, Store};
use model::{RunId, Span, Timestamp};
use run_index::{ListCursor, RunFilter, RunIndex, RunPage, RunStatus};
use service::ManualClock;

struct IndexedLedger {
    counting: Arc<Counting<MemoryStore>>,
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl IndexedLedger {
    fn new() -> Self {
        let counting = Arc::new(Counting::new(MemoryStore::default()));
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        Self { store: counting.clone(), counting, clock }
    }

    /// Creates runs with these numbers; all are closed except every hundredth.
    async fn with(runs: std::ops::Range<usize>) -> Self {
        let bed = Self::new();
        let ledger = ledger(Arc::clone(&bed.store));
        for number in runs {
            let run = ask(&ledger, number).await;
            if !number.is_multiple_of(100) {
                cancel(&ledger, &run, i64::try_from(number).unwrap()).await;
            }
        }
        bed
    }

    fn run_index(&self) -> Arc<RunIndex> {
        run_index(&self.store, &self.clock)
    }
}

fn names(page: &RunPage) -> Vec<RunId> {
    page.runs.iter().map(|summary| summary.run.clone()).collect()
}

#[tokio::test]
async fn each_run_is_on_one_page_even_if_runs_begin_between_pages() {
    let bed = IndexedLedger::with(0..250).await;
    let run_index = bed.run_index();
    let mut seen = Vec::new();
    let mut wanted = RunFilter { limit: Some(60), ..RunFilter::default() };
    let mut number = 1000;
    loop {
        let page = run_index.page(&wanted).await.unwrap();
        seen.extend(names(&page));
        // A run is requested between two pages.
        ask(&ledger(Arc::clone(&bed.store)), number).await;
        number += 1;
        bed.clock.advance(Span::from_secs(60));
        let Some(next) = page.next else { break };
        // The position is converted to text and back, as in a URL.
        wanted.after = Some(next.to_string().parse().unwrap());
    }
    let mut expected: Vec<_> = (0..250).map(run).collect();
    expected.sort_by_key(|run| {
        let number: i64 = run.as_str()[2..].parse().unwrap();
        (-(number / 2), run.clone())
    });
    assert_eq!(seen, expected);
    let newest = run_index.page(&RunFilter { limit: Some(1), ..RunFilter::default() }).await.unwrap();
    assert_eq!(names(&newest), [run(number - 1)], "a run that started meanwhile is listed");
    assert!("x".parse::<ListCursor>().is_err() && "".parse::<ListCursor>().is_err());
}

#[tokio::test]
async fn only_runs_that_match_every_filter_are_listed() {
    let bed = IndexedLedger::with(0..60).await;
    let run_index = bed.run_index();
    let count = async |wanted: RunFilter| {
        run_index.page(&RunFilter { limit: Some(200), ..wanted }).await.unwrap().runs.len()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(count(RunFilter::default()).await, 60);
    assert_eq!(count(RunFilter { workflow: text("odd"), ..RunFilter::default() }).await, 30);
    assert_eq!(count(RunFilter { cluster: text("c1"), ..RunFilter::default() }).await, 20);
    assert_eq!(count(RunFilter { system: text("processes"), ..RunFilter::default() }).await, 60);
    assert_eq!(count(RunFilter { system: text("slurm"), ..RunFilter::default() }).await, 0);
    assert_eq!(count(RunFilter { state: Some(RunStatus::Open), ..RunFilter::default() }).await, 1);
    assert_eq!(count(RunFilter { conclusion: text("cancelled"), ..RunFilter::default() }).await, 59);
    assert_eq!(count(RunFilter { verdict: Some(model::Verdict::Pass), ..RunFilter::default() }).await, 0);
    let since = Some(Timestamp::from_millis(START + 20_000));
    assert_eq!(count(RunFilter { since, ..RunFilter::default() }).await, 20);
    let both = RunFilter { workflow: text("odd"), cluster: text("c1"), ..RunFilter::default() };
    assert_eq!(count(both).await, 10);
}

#[tokio::test]
async fn a_closed_run_is_folded_only_once() {
    let bed = IndexedLedger::with(0..1001).await;
    let wanted = RunFilter { limit: Some(5), ..RunFilter::default() };
    let first = bed.run_index();
    bed.counting.take_request_counts();
    let page = first.page(&wanted).await.unwrap();
    let (reads, _) = bed.counting.take_request_counts();
    assert!(reads >= 3 * 1001, "the first request folds all runs: {reads}");
    // A warm index without changes sends one list request for the open runs, and for each open run one read of its next record.
    bed.clock.advance(Span::from_secs(2));
    assert_eq!(first.page(&wanted).await.unwrap(), page);
    assert_eq!(bed.counting.take_request_counts(), (11, 1));
    // Within the interval the index sends no requests.
    assert_eq!(first.page(&wanted).await.unwrap(), page);
    assert_eq!(bed.counting.take_request_counts(), (0, 0));
    // A cold start reads the segments and folds the other runs: all open ones, and fewer closed ones than fill a segment.
    let second = bed.run_index();
    assert_eq!(second.page(&wanted).await.unwrap(), page);
    let (reads, lists) = bed.counting.take_request_counts();
    let (segments, unsegmented) = (990 / 128, 990 % 128);
    assert_eq!(
        reads,
        segments + unsegmented * 4 + 11 * 2,
        "each closed run has three records and an end, each open run one record and an end"
    );
    assert_eq!(lists, 3);
    assert_eq!(first.all().await.unwrap(), second.all().await.unwrap());
}

#[tokio::test]
async fn other_runs_are_listed_despite_damaged_segments_and_ledgers() {
    let bed = IndexedLedger::with(1..200).await;
    bed.run_index().all().await.unwrap();
    let segments = bed.store.list("view/").await.unwrap();
    assert_eq!(segments.len(), 1);
    bed.store.remove(&segments[0]).await.unwrap();
    bed.store.create(&segments[0], "{".into()).await.unwrap();
    bed.store.create("ledger/broken/0000000001.json", "{}".into()).await.unwrap();
    bed.store.create("ledger/Not-A-Run/0000000001.json", "{}".into()).await.unwrap();
    let run_index = bed.run_index();
    assert_eq!(run_index.all().await.unwrap().len(), 199);
    let damaged = run_index.damaged().await.unwrap();
    assert_eq!(damaged.keys().map(RunId::as_str).collect::<Vec<_>>(), ["broken"]);
    assert!(damaged.values().all(|why| why.contains("ledger")), "{damaged:?}");
    assert!(bed.run_index().detail(&"broken".parse().unwrap()).await.is_err());
    assert!(bed.run_index().detail(&"absent-run".parse().unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_follower_receives_every_later_record_of_a_run_until_the_run_is_closed() {
    let bed = IndexedLedger::new();
    let (ledger, run_index) = (ledger(Arc::clone(&bed.store)), bed.run_index());
    let following = run_index.follow(run(7), 0);
    let (ledger, clock) = (&ledger, &bed.clock);
    let happens = async {
        let run = ask(ledger, 7).await;
        cancel(ledger, &run, 8).await;
    };
    let moves = async {
        loop {
            clock.advance(Span::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    let steps = async { following.try_collect::<Vec<_>>().await.unwrap() };
    let steps = tokio::select! {
        (steps, ()) = async { tokio::join!(steps, happens) } => steps,
        () = moves => unreachable!(),
    };
    let what: Vec<_> = steps.iter().map(|step| (step.seq, step.what.as_str())).collect();
    let expected = [(1, "dev.burnin.run.requested.v1"), (2, "dev.burnin.cancel.requested.v1"), (3, "closed")];
    assert_eq!(what, expected);
    assert_eq!((steps[0].run.state, steps[2].run.state), (RunStatus::Open, RunStatus::Closed));
    let late: Vec<_> = run_index.follow(run(7), 2).map(|step| step.unwrap().seq).collect().await;
    assert_eq!(late, [3], "a follower that has received two records receives the third");
    let detail = run_index.detail(&run(7)).await.unwrap().unwrap();
    assert_eq!((detail.seq, detail.summary.conclusion.as_str()), (3, "cancelled"));
}
