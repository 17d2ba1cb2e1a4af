//! A warehouse in memory, for tests and the simulation.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use model::Timestamp;

use crate::{
    Error, FindingRow, Load, MeasurementKind, MeasurementRow, MetricRow, NodeResultRow, PastQuery, PastRun,
    SharedText, VerdictRow, Warehouse,
};

/// Judged runs by workflow and fingerprint, in the order of their requests.
#[derive(Default)]
pub struct History(BTreeMap<HistoryKey, BTreeMap<(Timestamp, SharedText), Arc<Load>>>);

/// Workflow and fingerprint: runs in which both are equal are comparable.
type HistoryKey = (SharedText, SharedText);

impl History {
    /// Stores a run's load if it was judged and is comparable.
    pub fn remember(&mut self, load: Arc<Load>) {
        let Some(verdict) = load.verdicts.first() else { return };
        let (Some(identity), Some(at)) = (verdict.identity.clone(), verdict.requested_at) else { return };
        let (subject, run) = ((verdict.workflow.clone(), identity), verdict.run.clone());
        self.0.entry(subject).or_default().insert((at, run), load);
    }

    /// Runs that match the query, oldest first.
    pub fn chosen(&self, wanted: &PastQuery) -> Vec<PastRun> {
        let Some(runs) = self.0.get(&(wanted.workflow.as_str().into(), wanted.identity.as_str().into()))
        else {
            return Vec::new();
        };
        let before = || runs.range(..(wanted.before, "".into()));
        let oldest: Vec<_> = before().take(wanted.oldest as usize).collect();
        let newest = before().rev().take(wanted.newest as usize);
        let last = oldest.last().map(|(key, _)| *key);
        let mut newest: Vec<_> = newest.take_while(|(key, _)| Some(*key) > last).collect();
        newest.reverse();
        let past = |load: &Load| {
            let (rows, metrics) = match wanted.measured {
                MeasurementKind::Nothing => (&[][..], &[][..]),
                MeasurementKind::Table | MeasurementKind::Metrics => (&load.rows[..], &load.metrics[..]),
            };
            Some(PastRun::of(load.verdicts.first()?, rows, metrics))
        };
        oldest.into_iter().chain(newest).filter_map(|(_, load)| past(load)).collect()
    }
}

/// A warehouse in memory, which can simulate an outage.
#[derive(Default)]
pub struct Memory {
    loads: Mutex<BTreeMap<String, Arc<Load>>>,
    history: Mutex<History>,
    out: AtomicBool,
}

impl Memory {
    /// Starts or ends an outage.
    pub fn set_unavailable(&self, out: bool) {
        self.out.store(out, Ordering::SeqCst);
    }

    fn available(&self) -> Result<(), Error> {
        if self.out.load(Ordering::SeqCst) {
            return Err(Error::Transient("the warehouse is unavailable".to_owned()));
        }
        Ok(())
    }

    fn every<T>(&self, of: impl Fn(&Load) -> Vec<T>) -> Result<Vec<T>, Error> {
        self.available()?;
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(loads.values().flat_map(|load| of(load)).collect())
    }
}

#[async_trait::async_trait]
impl Warehouse for Memory {
    async fn load(&self, id: &str, load: &Load) -> Result<u64, Error> {
        self.available()?;
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = loads.get(id) {
            return Ok(first.count());
        }
        let load = Arc::new(load.clone());
        self.history.lock().unwrap_or_else(PoisonError::into_inner).remember(Arc::clone(&load));
        let rows = load.count();
        loads.insert(id.to_owned(), load);
        Ok(rows)
    }

    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, Error> {
        self.every(|load| load.rows.iter().filter(|row| *row.run == *run).cloned().collect())
    }

    async fn metrics(&self, run: &str) -> Result<Vec<MetricRow>, Error> {
        self.every(|load| load.metrics.iter().filter(|row| *row.run == *run).cloned().collect())
    }

    async fn findings(&self, run: &str) -> Result<Vec<FindingRow>, Error> {
        self.every(|load| load.findings.iter().filter(|row| *row.run == *run).cloned().collect())
    }

    async fn node_results(&self, run: &str) -> Result<Vec<NodeResultRow>, Error> {
        self.every(|load| load.node_results.iter().filter(|row| row.run == run).cloned().collect())
    }

    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, Error> {
        self.every(|load| load.verdicts.iter().filter(|row| *row.run == *run).cloned().collect())
    }

    async fn past(&self, wanted: &PastQuery) -> Result<Vec<PastRun>, Error> {
        self.available()?;
        Ok(self.history.lock().unwrap_or_else(PoisonError::into_inner).chosen(wanted))
    }

    fn table(&self) -> String {
        "memory".to_owned()
    }
}
