//! At most one wake-up of a run at a time within a process. Between processes, conflicting appends to the ledger fail.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use model::RunId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Runs with a wake-up in progress.
#[derive(Default)]
pub(crate) struct RunLocks(Mutex<BTreeMap<RunId, WakingRun>>);

#[derive(Default)]
struct WakingRun {
    lock: Arc<AsyncMutex<()>>,
    /// Wake-ups in progress or waiting. The last one removes the entry.
    users: usize,
}

/// The lock of one run; dropping it lets the next wake-up of the run proceed.
pub(crate) struct RunLock<'a> {
    // Fields are dropped in this order: the lock is released before the entry is removed.
    _lock: OwnedMutexGuard<()>,
    _user: LockUser<'a>,
}

/// A reference to a run's entry. A reference that waits for the lock is counted too.
struct LockUser<'a> {
    locks: &'a RunLocks,
    run: RunId,
}

impl RunLocks {
    /// Waits until no other wake-up of this run is in progress.
    pub(crate) async fn lock(&self, run: &RunId) -> RunLock<'_> {
        let lock = {
            let mut runs = self.runs();
            let waking = runs.entry(run.clone()).or_default();
            waking.users += 1;
            Arc::clone(&waking.lock)
        };
        let user = LockUser { locks: self, run: run.clone() };
        RunLock { _lock: lock.lock_owned().await, _user: user }
    }

    /// Number of runs with a wake-up in progress.
    pub(crate) fn len(&self) -> usize {
        self.runs().len()
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, WakingRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LockUser<'_> {
    fn drop(&mut self) {
        let mut runs = self.locks.runs();
        let Some(waking) = runs.get_mut(&self.run) else { return };
        waking.users -= 1;
        if waking.users == 0 {
            runs.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn the_entry_of_a_run_is_removed_after_its_last_wake_up_even_if_a_wait_was_cancelled() {
        let locks = RunLocks::default();
        let run: RunId = "night-1".parse().unwrap();
        let first = locks.lock(&run).await;
        let mut context = Context::from_waker(Waker::noop());
        let mut second = Box::pin(locks.lock(&run));
        assert!(second.as_mut().poll(&mut context).is_pending(), "one wake-up at a time");
        let mut third = Box::pin(locks.lock(&run));
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(third);
        drop(first);
        let second = second.await;
        assert_eq!(locks.len(), 1);
        drop(second);
        assert_eq!(locks.len(), 0);
    }
}
