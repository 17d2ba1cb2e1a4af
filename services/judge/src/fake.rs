//! A past in memory.

use std::sync::{Mutex, PoisonError};

use warehouse::{Load, Past, Wanted};

use crate::port::{History, HistoryError};

/// What runs brought, in any order.
#[derive(Default)]
pub struct FakeHistory {
    loads: Mutex<Vec<Load>>,
    silent: Mutex<bool>,
}

impl FakeHistory {
    /// Remembers what a run brought.
    pub fn remember(&self, load: Load) {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner).push(load);
    }

    /// Of what runs brought, in any order, the ones that are wanted.
    pub fn chosen<'a>(loads: impl Iterator<Item = &'a Load>, wanted: &Wanted) -> Vec<Past> {
        let mut known: Vec<_> = loads
            .filter_map(|load| load.verdicts.first().map(|verdict| (verdict, &load.rows)))
            .filter(|(verdict, _)| {
                verdict.workflow == wanted.workflow
                    && verdict.identity.as_ref() == Some(&wanted.identity)
                    && verdict.requested_at.is_some_and(|at| at < wanted.before)
            })
            .collect();
        known.sort_by(|(a, _), (b, _)| (a.requested_at, &a.run).cmp(&(b.requested_at, &b.run)));
        let newest = known.len().saturating_sub(wanted.newest as usize);
        let chosen = known.iter().enumerate().filter(|(at, _)| *at < wanted.oldest as usize || *at >= newest);
        chosen.map(|(_, (verdict, rows))| Past::of(verdict, rows)).collect()
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
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Self::chosen(loads.iter(), wanted))
    }
}
