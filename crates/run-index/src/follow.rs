//! Follows a run, record by record, until it is closed.

use std::sync::Arc;

use futures::{Stream, stream};
use lifecycle::{RunState, evolve, fold};
use model::{Record, RecordEntry, RunId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{RunIndex, RunIndexError, RunSummary, summary::finished};

/// A record, and the run after it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunStep {
    /// Sequence number of the record.
    pub seq: u64,
    /// Time of the record.
    pub recorded_at: Timestamp,
    /// The type of the fact, or `attempt_opened`, `overdue`, `timed_out`, `over_budget`, `closed`.
    pub what: String,
    /// Summary of the run after this record.
    pub run: RunSummary,
}

struct Following {
    run_index: Arc<RunIndex>,
    run: RunId,
    state: Option<RunState>,
    news: std::vec::IntoIter<Record>,
    seen: u64,
}

impl RunIndex {
    /// The records of a run after number `seen`, until it is closed and has released all resources. Also waits
    /// for a run that has no record yet.
    pub fn follow(
        self: &Arc<Self>,
        run: RunId,
        seen: u64,
    ) -> impl Stream<Item = Result<RunStep, RunIndexError>> + use<> {
        let following =
            Following { run_index: Arc::clone(self), run, state: None, news: Vec::new().into_iter(), seen };
        stream::try_unfold(following, |mut following| async {
            Ok(following.step().await?.map(|step| (step, following)))
        })
    }
}

impl Following {
    async fn step(&mut self) -> Result<Option<RunStep>, RunIndexError> {
        loop {
            if let Some(record) = self.news.next() {
                let state = match self.state.take() {
                    Some(state) => evolve(state, &record),
                    None => fold([&record])
                        .map_err(|source| RunIndexError::Unreadable { run: self.run.clone(), source })?,
                };
                let step = (record.seq > self.seen).then(|| RunStep {
                    seq: record.seq,
                    recorded_at: record.recorded_at,
                    what: entry_name(&record.entry).to_owned(),
                    run: RunSummary::of(&state),
                });
                self.state = Some(state);
                if step.is_some() {
                    return Ok(step);
                }
                continue;
            }
            let read = self.state.as_ref().map_or(0, |state| state.seq);
            self.news = self.run_index.ledger.since(&self.run, read).await?.into_iter();
            if self.news.len() > 0 {
                continue;
            }
            if self.state.as_ref().is_some_and(finished) {
                return Ok(None);
            }
            self.run_index.clock.sleep(self.run_index.pace.max_age).await;
        }
    }
}

/// Short name of a record's entry.
fn entry_name(entry: &RecordEntry) -> &str {
    match entry {
        RecordEntry::Accepted { fact, .. } => fact.event_type(),
        RecordEntry::AttemptOpened { .. } => "attempt_opened",
        RecordEntry::Overdue { .. } => "overdue",
        RecordEntry::TimedOut { .. } => "timed_out",
        RecordEntry::OverBudget { .. } => "over_budget",
        RecordEntry::Closed { .. } => "closed",
    }
}
