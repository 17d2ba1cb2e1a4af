//! Runs as they are looked at: listed newest first, shown whole, followed while they go on.
//!
//! The ledger is the only truth, and a run there is a dozen small objects. A run that is closed and has given everything
//! back never changes, so it is folded once and its [`Line`] is kept: in *chapters*, objects that are created once, each
//! with the lines of many runs. Chapters lie beside the artefacts:
//!
//! ```text
//! view/2/{first 16 hex digits of the SHA-256}.json   the lines of up to 128 closed runs, whichever were closed first
//! ```
//!
//! Chapters are objects and no database file, so that a laptop and a bucket work alike, no process owns them, and none is
//! ever rewritten. Two processes may write the same line into two chapters; both say the same. Removing them loses
//! nothing but the time to fold again.
//!
//! | what | costs |
//! |---|---|
//! | a page, warm | a list of open runs and the new records of those; no more than one look every [`Pace::look`] |
//! | a cold start | a read a chapter, a list of the runs, and a fold of what no chapter has |

mod chapters;
mod curves;
mod detail;
mod follow;
mod index;
mod line;
mod listing;
mod reference;
mod told;

use std::{collections::BTreeMap, sync::Arc};

use ledger::{Ledger, LedgerError, Store, StoreError};
use lifecycle::RunState;
use model::{Record, RunId, Span, Timestamp, Verdict};
use service::Clock;
use tokio::sync::{Mutex, MutexGuard};

pub use curves::{Curve, Curves};
pub use detail::{Detail, StageDetail};
pub use follow::Step;
pub use line::{Cost, Line, State};
pub use listing::{Cursor, MOST, Page, Wanted};
pub use reference::{NoReference, Reference};
pub use told::{Elsewhere, Told};

use index::Index;

/// How often the world is looked at on behalf of those who ask.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Open runs: what is shown is at most this old.
    pub look: Span,
    /// All runs: one that began and ended between two looks shows up after this at the latest.
    pub scan: Span,
}

impl Pace {
    /// Whenever somebody asks: nothing that is in the ledger is missed.
    pub const ALWAYS: Self = Self { look: Span::from_millis(0), scan: Span::from_millis(0) };
    /// For a folder on this machine.
    pub const LOCAL: Self = Self { look: Span::from_millis(100), scan: Span::from_secs(1) };
    /// For buckets.
    pub const CLOUD: Self = Self { look: Span::from_secs(2), scan: Span::from_secs(60) };
}

/// Why runs could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The store did not answer: ask again.
    #[error("the store did not answer")]
    Store(#[from] StoreError),
    /// A run's ledger did not answer, or is damaged.
    #[error("the ledger cannot be read")]
    Ledger(#[from] LedgerError),
    /// The ledger's records make no run.
    #[error("the ledger of {run} cannot be replayed")]
    Unreadable {
        /// The run.
        run: RunId,
        /// Why.
        source: lifecycle::Unreadable,
    },
    /// An artefact that belongs to the run cannot be read.
    #[error("an artefact of {run} cannot be read")]
    Artefact {
        /// The run.
        run: RunId,
        /// Why.
        source: ledger::ArtefactError,
    },
}

/// A run as its ledger tells it.
#[derive(Clone, Debug)]
pub struct Folded {
    /// Its ledger.
    pub records: Vec<Record>,
    /// What they come to.
    pub state: RunState,
}

/// The runs of a ledger.
pub struct View {
    ledger: Ledger,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    pace: Pace,
    keeps: bool,
    index: Mutex<Index>,
    curves: std::sync::Mutex<curves::Known>,
}

impl View {
    /// Of this ledger; artefacts and chapters lie in `store`.
    pub fn new(ledger: Ledger, store: Arc<dyn Store>, clock: Arc<dyn Clock>, pace: Pace) -> Self {
        Self {
            ledger,
            store,
            clock,
            pace,
            keeps: true,
            index: Mutex::default(),
            curves: std::sync::Mutex::default(),
        }
    }

    /// The same without the right to write: chapters are read, and kept by others.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Self { keeps: false, ..self }
    }

    /// Runs whose ledger cannot be replayed, and why. No list shows them.
    ///
    /// # Errors
    /// Returns an error if a store does not answer.
    pub async fn damaged(&self) -> Result<BTreeMap<RunId, String>, ViewError> {
        Ok(self.fresh().await?.damaged())
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When a store does not answer.
    pub async fn page(&self, wanted: &Wanted) -> Result<Page, ViewError> {
        Ok(listing::page(self.fresh().await?.newest(), wanted))
    }

    /// Every run, newest first.
    ///
    /// # Errors
    /// When a store does not answer.
    pub async fn all(&self) -> Result<Vec<Arc<Line>>, ViewError> {
        Ok(self.fresh().await?.newest().cloned().collect())
    }

    /// When each workflow last had a verdict that says something: pass or fail.
    ///
    /// # Errors
    /// When a store does not answer.
    pub async fn validated(&self) -> Result<BTreeMap<String, Timestamp>, ViewError> {
        let index = self.fresh().await?;
        let mut validated = BTreeMap::new();
        for line in index.newest() {
            if let (Some(at), Some(Verdict::Pass | Verdict::Fail)) = (line.settled_at, line.verdict) {
                match validated.get_mut(&line.workflow) {
                    Some(last) => *last = at.max(*last),
                    None => drop(validated.insert(line.workflow.clone(), at)),
                }
            }
        }
        Ok(validated)
    }

    /// Runs that owe something or are owed something.
    ///
    /// # Errors
    /// When a store does not answer.
    pub async fn unfinished(&self) -> Result<Vec<RunId>, ViewError> {
        Ok(self.fresh().await?.unfinished())
    }

    /// A run as its ledger tells it; none when nobody asked for it.
    ///
    /// # Errors
    /// When its ledger cannot be read.
    pub async fn folded(&self, run: &RunId) -> Result<Option<Folded>, ViewError> {
        let records = self.ledger.load(run).await?.records().to_vec();
        if records.is_empty() {
            return Ok(None);
        }
        let state =
            lifecycle::fold(&records).map_err(|source| ViewError::Unreadable { run: run.clone(), source })?;
        Ok(Some(Folded { records, state }))
    }

    /// A run with its stages and what is owed to it; none when nobody asked for it.
    ///
    /// # Errors
    /// When its ledger cannot be read.
    pub async fn detail(&self, run: &RunId) -> Result<Option<Detail>, ViewError> {
        let folded = self.folded(run).await?;
        Ok(folded.map(|Folded { records, state }| Detail::of(&state, &records, self.clock.now())))
    }

    /// The index, no older than [`Pace`] says. One caller looks, the others wait for what it saw.
    async fn fresh(&self) -> Result<MutexGuard<'_, Index>, ViewError> {
        let mut index = self.index.lock().await;
        index.refresh(&self.ledger, &*self.store, self.clock.now(), (self.pace, self.keeps)).await?;
        Ok(index)
    }
}
