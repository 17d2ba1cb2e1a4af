//! Values of runs: the metrics of each check, for lists and histories.
//!
//! Values come from the measurements of a run, which are read once per closed run and kept in memory. Pages do not wait for all reads: the
//! remaining runs are read in the background.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
};

use futures::{StreamExt, stream};
use model::{CheckIndex, Reason, RunId, Span, Verdict};
use report::Values;
use tracing::warn;

use crate::{ExternalAddresses, RunIndex, RunIndexError, RunStatus, RunSummary};

/// Maximum concurrent reads.
const ABREAST: usize = 8;
/// Maximum number of cached runs. A run takes several kilobytes.
const REMEMBERED: usize = 20_000;
/// Maximum number of reasons of a check.
const REASONS: usize = 12;
/// Maximum length of a reason's text, characters.
const TEXT: usize = 300;

/// The values of all checks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunValues {
    /// The judged checks, in order of execution; one entry without a name for a single benchmark.
    pub checks: Vec<CheckValues>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CheckValues {
    /// Name of the check; `None` for a single benchmark.
    pub check: Option<String>,
    pub verdict: Verdict,
    /// Reasons of the verdict, most severe first.
    pub reasons: Vec<Reason>,
    /// Fingerprint of the measurement, field by field.
    pub setup: BTreeMap<String, String>,
    /// Metrics and nodes.
    pub values: Values,
}

/// Values of runs that are already read.
#[derive(Clone, Debug, Default)]
pub struct KnownValues {
    pub runs: BTreeMap<RunId, Arc<RunValues>>,
    /// Number of runs that are still being read.
    pub pending: usize,
}

impl KnownValues {
    /// `None` if the values of the run are not read yet.
    #[must_use]
    pub fn of(&self, run: &RunId) -> Option<&RunValues> {
        self.runs.get(run).map(Arc::as_ref)
    }
}

/// Values by run, and the runs that are being read.
#[derive(Default)]
pub(crate) struct ValueCache {
    known: BTreeMap<RunId, Arc<RunValues>>,
    reading: BTreeSet<RunId>,
}

impl RunIndex {
    /// The values of judged runs. Missing values are read in the order of `summaries`, and awaited for at most `patience`; the rest
    /// is read in the background.
    pub async fn values<'a>(
        self: &Arc<Self>,
        summaries: impl IntoIterator<Item = &'a RunSummary>,
        patience: Span,
    ) -> KnownValues {
        let wanted: Vec<_> = summaries
            .into_iter()
            .filter(|summary| summary.verdict.is_some())
            .map(|summary| (summary.run.clone(), summary.state == RunStatus::Closed))
            .collect();
        let missing: Vec<_> = {
            let mut cache = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            let cache = &mut *cache;
            wanted
                .iter()
                .filter(|(run, _)| !cache.known.contains_key(run) && cache.reading.insert(run.clone()))
                .cloned()
                .collect()
        };
        let mut open = BTreeMap::new();
        if !missing.is_empty() {
            let index = Arc::clone(self);
            let reads = tokio::spawn(async move { index.read_values(missing).await });
            if let Ok(Ok(read)) = tokio::time::timeout(patience.0, reads).await {
                open = read;
            }
        }
        let cache = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = KnownValues::default();
        for (run, _) in &wanted {
            match cache.known.get(run).or_else(|| open.get(run)) {
                Some(values) => drop(known.runs.insert(run.clone(), Arc::clone(values))),
                None if cache.reading.contains(run) => known.pending += 1,
                // The store request failed: the next request for values retries it.
                None => {}
            }
        }
        known
    }

    /// Reads runs. Caches the values of closed runs, and returns those of open runs.
    async fn read_values(&self, missing: Vec<(RunId, bool)>) -> BTreeMap<RunId, Arc<RunValues>> {
        let reads = stream::iter(missing).map(|(run, closed)| async move {
            let read = self.values_of(&run).await;
            (run, closed, read)
        });
        let mut reads = std::pin::pin!(reads.buffered(ABREAST));
        let mut open = BTreeMap::new();
        while let Some((run, closed, read)) = reads.next().await {
            let mut cache = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            cache.reading.remove(&run);
            match read {
                Ok(values) if closed => {
                    if cache.known.len() >= REMEMBERED {
                        cache.known.clear();
                    }
                    cache.known.insert(run, Arc::new(values));
                }
                Ok(values) => drop(open.insert(run, Arc::new(values))),
                Err(error) => {
                    warn!(run.id = %run, "the values of the run cannot be read and are not shown: {}", service::worker::chain(&error));
                }
            }
        }
        open
    }

    /// The values of one run; a check with damaged artefacts has no metrics.
    async fn values_of(&self, run: &RunId) -> Result<RunValues, RunIndexError> {
        let Some(folded) = self.folded(run).await? else { return Ok(RunValues::default()) };
        let state = folded.state;
        let single = [CheckIndex::FIRST];
        let named: Vec<_> = state.summarized_checks().collect();
        let checks = if named.is_empty() { &single[..] } else { &named };
        let mut values = RunValues::default();
        for check in checks {
            let Some(reached) = state.verdict_of(*check) else { continue };
            let read = match self.report_of(run, Some(*check), ExternalAddresses::default()).await {
                Ok(report) => report.map(|report| report::values(&report.input())).unwrap_or_default(),
                Err(RunIndexError::Artefact { source: ledger::ArtefactError::Damaged { .. }, .. }) => {
                    Values::default()
                }
                Err(error) => return Err(error),
            };
            let reasons = reached
                .reasons
                .iter()
                .take(REASONS)
                .map(|reason| Reason { text: report::shortened(&reason.text, TEXT), ..reason.clone() });
            values.checks.push(CheckValues {
                check: state.workflow.check(*check).map(|check| check.name.clone()),
                verdict: reached.verdict,
                reasons: reasons.collect(),
                setup: crate::summary::setup(&state, *check),
                values: read,
            });
        }
        Ok(values)
    }
}
