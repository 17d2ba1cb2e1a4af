//! A past in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use model::Timestamp;
use warehouse::{Load, Past, Text, Wanted};

use crate::port::{History, HistoryError};

/// What runs brought, in the order in which they were asked for.
#[derive(Default)]
pub struct Chronicle(BTreeMap<Subject, BTreeMap<(Timestamp, Text), Arc<Load>>>);

/// Of which workflow, and on what: runs of one subject are comparable.
type Subject = (Text, Text);

impl Chronicle {
    /// Remembers what a run brought, if it was judged and can be compared.
    pub fn remember(&mut self, load: Arc<Load>) {
        let Some(verdict) = load.verdicts.first() else { return };
        let (Some(identity), Some(at)) = (verdict.identity.clone(), verdict.requested_at) else { return };
        let (subject, run) = ((verdict.workflow.clone(), identity), verdict.run.clone());
        self.0.entry(subject).or_default().insert((at, run), load);
    }

    /// The ones that are wanted, the oldest first.
    pub fn chosen(&self, wanted: &Wanted) -> Vec<Past> {
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

/// A history that may fall silent.
#[derive(Default)]
pub struct FakeHistory {
    chronicle: Mutex<Chronicle>,
    silent: Mutex<bool>,
}

impl FakeHistory {
    /// Remembers what a run brought.
    pub fn remember(&self, load: Load) {
        self.chronicle.lock().unwrap_or_else(PoisonError::into_inner).remember(Arc::new(load));
    }

    /// From now on there is no answer, or there is again.
    pub fn fall_silent(&self, silent: bool) {
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = silent;
    }
}

#[async_trait::async_trait]
impl History for FakeHistory {
    async fn past(&self, wanted: &Wanted) -> Result<Vec<Past>, HistoryError> {
        if *self.silent.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(HistoryError::Unavailable("the warehouse does not answer".to_owned()));
        }
        Ok(self.chronicle.lock().unwrap_or_else(PoisonError::into_inner).chosen(wanted))
    }
}
