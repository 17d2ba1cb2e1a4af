//! Measurements of a run and of the comparable runs before it.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use ledger::Artefacts;
use model::{RunId, Stage, Timestamp, measurement::Table};
use verdict::Fingerprint;

use crate::{RunIndex, RunIndexError, RunStatus, RunSummary, run_report::together};

/// Maximum number of runs in a series, including the current run.
const MAX_RUNS: usize = 60;
/// Maximum number of concurrent reads.
const ABREAST: usize = 16;
/// Maximum number of cached curves, which stay valid because closed runs do not change. A curve takes several
/// kilobytes.
const REMEMBERED: usize = 2000;

#[derive(Clone, Debug, PartialEq)]
pub struct RunCurve {
    pub run: RunId,
    pub requested_at: Timestamp,
    /// The only table of the run's logs.
    pub table: Table,
}

/// Comparable runs, oldest first.
pub type Curves = Vec<Arc<RunCurve>>;

/// Curves by run; `None` for runs without exactly one table.
pub(crate) type CurveCache = BTreeMap<RunId, Option<Arc<RunCurve>>>;

impl RunIndex {
    /// The curves of a judged run and of the comparable earlier runs of its workflow, oldest first. Damaged
    /// logs have no curve.
    ///
    /// # Errors
    /// Returns an error if a store request fails.
    pub async fn curves(&self, run: &RunId) -> Result<Curves, RunIndexError> {
        let comparable = {
            let index = self.fresh().await?;
            let mut summaries = index.newest().skip_while(|summary| summary.run != *run);
            let Some(own) = summaries.next() else { return Ok(Vec::new()) };
            let identity = |summary: &RunSummary| Fingerprint(summary.setup.clone()).identity();
            let wanted = identity(own);
            let earlier = summaries.filter(|summary| {
                let judged = summary.state == RunStatus::Closed && summary.verdict.is_some();
                judged && summary.workflow == own.workflow && identity(summary) == wanted
            });
            let mut comparable: Vec<RunId> =
                earlier.take(MAX_RUNS - 1).map(|summary| summary.run.clone()).collect();
            comparable.reverse();
            comparable.extend(own.verdict.map(|_| run.clone()));
            comparable
        };
        let curves = stream::iter(comparable).map(|run| self.curve(run)).buffered(ABREAST);
        let curves: Vec<_> = curves.try_collect().await?;
        Ok(curves.into_iter().flatten().collect())
    }

    async fn curve(&self, run: RunId) -> Result<Option<Arc<RunCurve>>, RunIndexError> {
        let known = self.curves.lock().unwrap_or_else(PoisonError::into_inner).get(&run).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let Some(folded) = self.folded(&run).await? else { return Ok(None) };
        let state = folded.state;
        let check = state.shown_check();
        let Some(logs) = state.logs_of(check) else { return Ok(None) };
        let artefacts = Artefacts::new(Arc::clone(&self.store));
        let logs = (logs, state.attempt(Stage::Job.of(check)));
        let read = measurements::read(&artefacts, &run, logs, state.verdict_of(check)).await;
        let reading = match read {
            Ok(logs) => together(logs.into_iter().map(|log| log.reading)),
            Err(ledger::ArtefactError::Store(error)) => return Err(error.into()),
            Err(ledger::ArtefactError::Damaged { .. }) => None,
        };
        let tables = reading.map(|reading| reading.tables).unwrap_or_default();
        let table = <[Table; 1]>::try_from(tables).ok();
        let requested_at = state.requested_at;
        let curve = table.map(|[table]| Arc::new(RunCurve { run: run.clone(), requested_at, table }));
        if state.closed.is_some() {
            let mut known = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(run, curve.clone());
        }
        Ok(curve)
    }
}
