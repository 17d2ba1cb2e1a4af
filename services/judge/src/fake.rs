//! Earlier runs in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use model::Timestamp;
use warehouse::{Load, Past, PastQuery, SharedText};

use crate::port::{HistoryError, PastRuns};

/// Loads of runs, in the order of their requests.
#[derive(Default)]
pub struct Chronicle(BTreeMap<Subject, BTreeMap<(Timestamp, SharedText), Arc<Load>>>);

/// Workflow and fingerprint: runs with the same subject are comparable.
type Subject = (SharedText, SharedText);

impl Chronicle {
    /// Stores a run's load if it was judged and is comparable.
    pub fn remember(&mut self, load: Arc<Load>) {
        let Some(verdict) = load.verdicts.first() else { return };
        let (Some(identity), Some(at)) = (verdict.identity.clone(), verdict.requested_at) else { return };
        let (subject, run) = ((verdict.workflow.clone(), identity), verdict.run.clone());
        self.0.entry(subject).or_default().insert((at, run), load);
    }

    /// The wanted runs, oldest first.
    pub fn chosen(&self, wanted: &PastQuery) -> Vec<Past> {
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
        let past = |load: &Load| Some(Past::of(load.verdicts.first()?, &load.rows));
        oldest.into_iter().chain(newest).filter_map(|(_, load)| past(load)).collect()
    }
}

/// A history that can simulate an outage.
#[derive(Default)]
pub struct FakeHistory {
    chronicle: Mutex<Chronicle>,
    silent: Mutex<bool>,
}

impl FakeHistory {
    /// Stores a run's load.
    pub fn remember(&self, load: Load) {
        self.chronicle.lock().unwrap_or_else(PoisonError::into_inner).remember(Arc::new(load));
    }

    /// Starts or ends an outage.
    pub fn fall_silent(&self, silent: bool) {
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = silent;
    }
}

#[async_trait::async_trait]
impl PastRuns for FakeHistory {
    async fn past(&self, wanted: &PastQuery) -> Result<Vec<Past>, HistoryError> {
        if *self.silent.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(HistoryError::Unavailable("the warehouse is unavailable".to_owned()));
        }
        Ok(self.chronicle.lock().unwrap_or_else(PoisonError::into_inner).chosen(wanted))
    }
}
