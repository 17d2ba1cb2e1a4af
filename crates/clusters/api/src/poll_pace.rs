//! A minimum interval between polls of a running job, because all users of a cluster share its scheduler.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::scheduler::JobStatus;

/// Times of the last polls that found a job running.
pub struct PollPace {
    interval: Duration,
    running: Mutex<HashMap<String, Instant>>,
}

impl PollPace {
    /// Allows at most one poll of a running job per `interval`.
    pub fn new(interval: Duration) -> Self {
        Self { interval, running: Mutex::default() }
    }

    /// Whether a poll within the last interval found the job running: the caller then reports it as running without another poll.
    pub fn is_recent(&self, job: &str) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(job).is_some_and(|polled| polled.elapsed() < self.interval)
    }

    /// Records the result of a poll. After any result other than running, the next poll reaches the scheduler.
    pub fn record(&self, job: &str, status: Option<&JobStatus>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match status {
            Some(JobStatus::Active) => running.insert(job.to_owned(), Instant::now()),
            _ => running.remove(job),
        };
    }

    /// Removes the last result, so that the next poll reaches the scheduler.
    pub fn forget(&self, job: &str) {
        self.record(job, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_job_is_polled_once_in_an_interval() {
        let pace = PollPace::new(Duration::from_secs(3600));
        assert!(!pace.is_recent("a"));
        pace.record("a", Some(&JobStatus::Active));
        assert!(pace.is_recent("a") && !pace.is_recent("b"));
        pace.forget("a");
        assert!(!pace.is_recent("a"), "the next poll after a cancel or a submission reaches the scheduler");
        pace.record("a", Some(&JobStatus::Active));
        pace.record("a", Some(&JobStatus::Absent));
        assert!(!pace.is_recent("a"));
        let fast = PollPace::new(Duration::ZERO);
        fast.record("a", Some(&JobStatus::Active));
        assert!(!fast.is_recent("a"));
    }
}
