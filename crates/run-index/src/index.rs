//! The summaries of all runs in memory.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt, stream};
use ledger::{Ledger, LedgerError, Store};
use lifecycle::{RunState, evolve, fold};
use model::{RunId, Timestamp};
use tracing::warn;

use crate::{
    RefreshIntervals, RunIndexError, RunSummary,
    segments::{self, ABREAST, LENGTH},
    summary::finished,
};

/// Summaries by run, and the runs to read again.
#[derive(Default)]
pub(crate) struct Index {
    summaries: BTreeMap<RunId, Arc<RunSummary>>,
    order: BTreeSet<(Reverse<Timestamp>, RunId)>,
    /// State of each open run at its last read.
    open: BTreeMap<RunId, RunState>,
    /// Runs whose ledger cannot be replayed, with the reason.
    damaged: BTreeMap<RunId, String>,
    /// Closed runs that are not in a segment.
    unsegmented: BTreeSet<RunId>,
    loaded: bool,
    refreshed_at: Option<Timestamp>,
    scanned_at: Option<Timestamp>,
}

impl Index {
    pub fn newest(&self) -> impl Iterator<Item = &Arc<RunSummary>> {
        self.order.iter().filter_map(|(_, run)| self.summaries.get(run))
    }

    /// Open runs.
    pub fn unfinished(&self) -> Vec<RunId> {
        self.open.keys().cloned().collect()
    }

    /// Runs whose ledger cannot be replayed, with the reason.
    pub fn damaged(&self) -> BTreeMap<RunId, String> {
        self.damaged.clone()
    }

    /// Reads all runs that may have changed.
    pub async fn refresh(
        &mut self,
        ledger: &Ledger,
        store: &dyn Store,
        now: Timestamp,
        (pace, keeps): (RefreshIntervals, bool),
    ) -> Result<(), RunIndexError> {
        let due =
            |last: Option<Timestamp>, span| last.is_none_or(|last| now.since(last) >= span || now < last);
        if !due(self.refreshed_at, pace.max_age) {
            return Ok(());
        }
        if !self.loaded {
            for summary in segments::read(store).await? {
                self.put(summary);
            }
            self.loaded = true;
        }
        let mut to_read: BTreeSet<RunId> = self.open.keys().cloned().collect();
        to_read.extend(ledger.open_runs().await?);
        let scan = due(self.scanned_at, pace.scan_interval);
        if scan {
            to_read.extend(ledger.names().await?.into_iter().filter(|run| !self.summaries.contains_key(run)));
        }
        let to_read: Vec<_> = to_read.into_iter().map(|run| (self.open.remove(&run), run)).collect();
        let mut reading = stream::iter(to_read)
            .map(|(known, run)| async { (read(ledger, &run, known.clone()).await, known, run) })
            .buffer_unordered(ABREAST);
        let mut failed = None;
        while let Some((read, known, run)) = reading.next().await {
            match read {
                Ok(Some(state)) => {
                    self.damaged.remove(&run);
                    self.learn(state);
                }
                Ok(None) => {}
                Err(error @ RunIndexError::Ledger(LedgerError::Store { .. })) => {
                    self.open.extend(known.map(|state| (run, state)));
                    failed = Some(error);
                }
                // List the other runs even if one ledger is damaged.
                Err(error) => {
                    let why = service::worker::chain(&error);
                    if self.damaged.insert(run.clone(), why.clone()).as_ref() != Some(&why) {
                        warn!(run.id = %run, "the ledger is damaged, so lists omit the run: {why}");
                    }
                }
            }
            if keeps && self.unsegmented.len() >= LENGTH {
                self.keep(store).await;
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.refreshed_at = Some(now);
        if scan {
            self.scanned_at = Some(now);
        }
        Ok(())
    }

    fn learn(&mut self, state: RunState) {
        let kept =
            self.summaries.get(&state.run).is_some_and(|summary| summary.state == crate::RunStatus::Closed);
        self.put(RunSummary::of(&state));
        if !finished(&state) {
            self.unsegmented.remove(&state.run);
            self.open.insert(state.run.clone(), state);
        } else if !kept {
            self.unsegmented.insert(state.run);
        }
    }

    fn put(&mut self, summary: RunSummary) {
        self.order.insert((Reverse(summary.requested_at), summary.run.clone()));
        self.summaries.insert(summary.run.clone(), Arc::new(summary));
    }

    /// Writes a segment. A failed write is logged and has no other effect, because segments only save time.
    async fn keep(&mut self, store: &dyn Store) {
        let runs = std::mem::take(&mut self.unsegmented);
        let summaries = runs
            .iter()
            .filter_map(|run| self.summaries.get(run))
            .map(|summary| RunSummary::clone(summary))
            .collect();
        if let Err(error) = segments::keep(store, summaries).await {
            warn!(
                "a segment could not be stored; the next pass stores it: {}",
                service::worker::chain(&error)
            );
            self.unsegmented = runs;
        }
    }
}

/// Reads a run from its last known state; `None` if it has no record.
async fn read(
    ledger: &Ledger,
    run: &RunId,
    known: Option<RunState>,
) -> Result<Option<RunState>, RunIndexError> {
    if let Some(state) = known {
        let news = ledger.since(run, state.seq).await?;
        return Ok(Some(news.iter().fold(state, evolve)));
    }
    let records = ledger.since(run, 0).await?;
    if records.is_empty() {
        return Ok(None);
    }
    fold(&records).map(Some).map_err(|source| RunIndexError::Unreadable { run: run.clone(), source })
}
