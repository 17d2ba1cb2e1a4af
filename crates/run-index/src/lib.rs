//! Index of runs: listing, newest first; details; live updates.
//!
//! The ledger is the only source of truth, and a run consists of about a dozen small objects. A run that is closed and has released all
//! resources never changes, so it is folded once and its [`RunSummary`] is stored in *segments* (below `view/2/`): objects that are created
//! once, each with the summaries of many runs. They are stored next to the artefacts:
//!
//! ```text
//! view/2/{first 16 hex digits of the SHA-256}.json   summaries of up to 128 closed runs, in the order of closing
//! ```
//!
//! Segments are objects rather than a database file, so that a local folder and a bucket work alike, no
//! process owns them, and no segment is rewritten. Two processes may write the same summary to two segments;
//! both are identical. Deleting segments costs only the time to fold the runs again.
//!
//! | operation | cost |
//! |---|---|
//! | a page, warm | one listing of open runs and their new records; at most once per [`RefreshIntervals::max_age`] |
//! | a cold start | one read per segment, one listing of the runs, and a fold of each run without a segment |

mod curves;
mod detail;
mod follow;
mod index;
mod listing;
mod nodes;
mod reference;
mod run_logs;
mod run_report;
mod segments;
mod summary;
mod values;

use std::{collections::BTreeMap, sync::Arc};

use ledger::{Ledger, LedgerError, Store, StoreError};
use lifecycle::RunState;
use model::{CheckIndex, Record, RunId, Span, Timestamp, Verdict};
use service::Clock;
use tokio::sync::{Mutex, MutexGuard};

pub use curves::{Curves, RunCurve};
pub use detail::{RunDetail, ShownSuspects, StageDetail};
pub use follow::RunStep;
pub use listing::{ListCursor, MAX_PAGE, RunFilter, RunPage};
pub use nodes::{NodeChange, NodeHistory, NodeState, Nodes};
pub use reference::{ReferenceError, ReferenceRun};
pub use run_logs::{RunLog, RunLogs};
pub use run_report::{ExternalAddresses, RunReport};
pub use summary::{CheckState, CheckSummary, RunCost, RunStatus, RunSummary};
pub use values::{CheckValues, KnownValues, RunValues};

use index::Index;

/// Refresh intervals.
#[derive(Clone, Copy, Debug)]
pub struct RefreshIntervals {
    /// Open runs: maximum age of the data.
    pub max_age: Span,
    /// All runs: maximum delay until a run appears that started and ended between two refreshes.
    pub scan_interval: Span,
}

impl RefreshIntervals {
    /// Refresh at every request, so that no record in the ledger is missed.
    pub const ALWAYS: Self = Self { max_age: Span::from_millis(0), scan_interval: Span::from_millis(0) };
    /// Refresh intervals for a local folder.
    pub const LOCAL: Self = Self { max_age: Span::from_millis(100), scan_interval: Span::from_secs(1) };
    /// Refresh intervals for buckets.
    pub const CLOUD: Self = Self { max_age: Span::from_secs(2), scan_interval: Span::from_secs(60) };
}

/// A failed query.
#[derive(Debug, thiserror::Error)]
pub enum RunIndexError {
    /// A store request failed: retry.
    #[error("the store request failed")]
    Store(#[from] StoreError),
    /// The ledger of a run cannot be read.
    #[error("a ledger cannot be read")]
    Ledger(#[from] LedgerError),
    /// The records of a ledger do not form a run.
    #[error("the ledger of {run} cannot be replayed")]
    Unreadable {
        /// Run with the invalid ledger.
        run: RunId,
        source: lifecycle::UnreadableLedger,
    },
    /// An artefact of the run cannot be read.
    #[error("an artefact of {run} cannot be read")]
    Artefact {
        /// Run with the unreadable artefact.
        run: RunId,
        source: ledger::ArtefactError,
    },
}

/// A run with its records.
#[derive(Clone, Debug)]
pub struct FoldedRun {
    /// Complete ledger, in order.
    pub records: Vec<Record>,
    /// State of the run after the last record.
    pub state: RunState,
}

/// Queries over the runs of a ledger.
pub struct RunIndex {
    ledger: Ledger,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    pace: RefreshIntervals,
    keeps: bool,
    index: Mutex<Index>,
    curves: std::sync::Mutex<curves::CurveCache>,
    values: std::sync::Mutex<values::ValueCache>,
    nodes: std::sync::Mutex<nodes::NodeCache>,
}

impl RunIndex {
    /// Queries this ledger; artefacts and segments are in `store`.
    pub fn new(ledger: Ledger, store: Arc<dyn Store>, clock: Arc<dyn Clock>, pace: RefreshIntervals) -> Self {
        Self {
            ledger,
            store,
            clock,
            pace,
            keeps: true,
            index: Mutex::default(),
            curves: std::sync::Mutex::default(),
            values: std::sync::Mutex::default(),
            nodes: std::sync::Mutex::default(),
        }
    }

    /// Read-only variant: reads segments; other services write them.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Self { keeps: false, ..self }
    }

    /// Runs whose ledger cannot be replayed, with the reason. They are not listed.
    ///
    /// # Errors
    /// Returns an error if a store request fails.
    pub async fn damaged(&self) -> Result<BTreeMap<RunId, String>, RunIndexError> {
        Ok(self.fresh().await?.damaged())
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// Returns an error if a store request fails.
    pub async fn page(&self, wanted: &RunFilter) -> Result<RunPage, RunIndexError> {
        Ok(listing::page(self.fresh().await?.newest(), wanted))
    }

    /// Runs whose id, workflow, cluster or cause contains the text, without regard to case; newest first.
    ///
    /// # Errors
    /// Returns an error if a store request fails.
    pub async fn search(&self, wanted: &RunFilter, text: &str) -> Result<RunPage, RunIndexError> {
        let text = text.to_lowercase();
        let index = self.fresh().await?;
        Ok(listing::page(index.newest().filter(|summary| listing::contains(summary, &text)), wanted))
    }

    /// All runs, newest first.
    ///
    /// # Errors
    /// Returns an error if a store request fails.
    pub async fn all(&self) -> Result<Vec<Arc<RunSummary>>, RunIndexError> {
        Ok(self.fresh().await?.newest().cloned().collect())
    }

    /// Time of each workflow's last verdict of pass or fail.
    ///
    /// # Errors
    /// Returns an error if a store request fails.
    pub async fn last_verdict_times(&self) -> Result<BTreeMap<String, Timestamp>, RunIndexError> {
        let index = self.fresh().await?;
        let mut validated = BTreeMap::new();
        for summary in index.newest() {
            if let (Some(at), Some(Verdict::Pass | Verdict::Fail)) = (summary.settled_at, summary.verdict) {
                match validated.get_mut(&summary.workflow) {
                    Some(last) => *last = at.max(*last),
                    None => drop(validated.insert(summary.workflow.clone(), at)),
                }
            }
        }
        Ok(validated)
    }

    /// Runs with pending work.
    ///
    /// # Errors
    /// Returns an error if a store request fails.
    pub async fn unfinished(&self) -> Result<Vec<RunId>, RunIndexError> {
        Ok(self.fresh().await?.unfinished())
    }

    /// A run with its records; `None` if unknown.
    ///
    /// # Errors
    /// Returns an error if its ledger cannot be read.
    pub async fn folded(&self, run: &RunId) -> Result<Option<FoldedRun>, RunIndexError> {
        let records = self.ledger.load(run).await?.records().to_vec();
        if records.is_empty() {
            return Ok(None);
        }
        let state = lifecycle::fold(&records)
            .map_err(|source| RunIndexError::Unreadable { run: run.clone(), source })?;
        Ok(Some(FoldedRun { records, state }))
    }

    /// A run with its stages and pending commands; `None` if unknown.
    ///
    /// # Errors
    /// Returns an error if its ledger cannot be read.
    pub async fn detail(&self, run: &RunId) -> Result<Option<RunDetail>, RunIndexError> {
        let folded = self.folded(run).await?;
        Ok(folded.map(|FoldedRun { records, state }| RunDetail::of(&state, &records, self.clock.now())))
    }

    /// A run with the metrics and suspects of a check; `None` selects the most severe check. Reads its logs and verdict. With
    /// damaged logs, the details of a run have no metrics.
    ///
    /// # Errors
    /// Returns an error if its ledger cannot be read, or the artefacts of a named check.
    pub async fn detail_of(
        &self,
        run: &RunId,
        check: Option<CheckIndex>,
    ) -> Result<Option<RunDetail>, RunIndexError> {
        let report = match self.report_of(run, check, ExternalAddresses::default()).await {
            Err(RunIndexError::Artefact { .. }) if check.is_none() => return self.detail(run).await,
            report => report?,
        };
        Ok(report.map(|report| RunDetail::of_report(&report, self.clock.now())))
    }

    /// The index, at most as old as [`RefreshIntervals`] permits. One caller refreshes it, concurrent callers wait for
    /// the result.
    async fn fresh(&self) -> Result<MutexGuard<'_, Index>, RunIndexError> {
        let mut index = self.index.lock().await;
        index.refresh(&self.ledger, &*self.store, self.clock.now(), (self.pace, self.keeps)).await?;
        Ok(index)
    }
}
