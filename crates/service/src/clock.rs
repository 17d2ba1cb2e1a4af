//! Clocks and timers: the only access to time.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use model::{Span, Timestamp};
use tokio::sync::Notify;

/// A clock that also provides timers.
#[async_trait::async_trait]
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    async fn sleep(&self, span: Span);
}

/// The host's clock and Tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait::async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        chrono::Utc::now().into()
    }

    async fn sleep(&self, span: Span) {
        tokio::time::sleep(span.0).await;
    }
}

/// A clock for tests and simulations: its time changes only by [`Self::advance`].
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
    moved: Notify,
}

impl ManualClock {
    pub fn new(now: Timestamp) -> Self {
        Self { now: Mutex::new(now), moved: Notify::new() }
    }

    /// Advances the clock and wakes all expired sleepers.
    pub fn advance(&self, span: Span) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = *now + span;
        drop(now);
        self.moved.notify_waiters();
    }
}

#[async_trait::async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep(&self, span: Span) {
        let until = self.now() + span;
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Register the sleeper before reading the clock, so that it does not miss an advance in between.
            moved.as_mut().enable();
            if self.now() >= until {
                return;
            }
            moved.await;
        }
    }
}

/// Exponential backoff up to a maximum: 1, 2, 4, ... times `first`.
#[must_use]
pub fn backoff(first: Duration, ceiling: Duration, attempt: u32) -> Span {
    let factor = 2u32.saturating_pow(attempt.min(16));
    Span(first.saturating_mul(factor).min(ceiling))
}
