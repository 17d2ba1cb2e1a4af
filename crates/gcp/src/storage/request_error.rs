//! Failed requests to Cloud Storage, and whether they can be retried.

use std::{
    error::Error,
    io,
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use google_cloud_storage::error::WriteError;
use ledger::StoreError;

use super::StorageTimeouts;

#[derive(Debug)]
pub struct RequestError {
    /// Status of the response; `None` without a complete response.
    pub status: Option<u16>,
    /// The response does not match its checksum.
    pub damage: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl RequestError {
    /// The error of an unsuccessful response.
    pub fn answered(status: u16, message: &str) -> Self {
        let message: String = message.chars().take(300).collect();
        let source = format!("answered {status}: {message}").into();
        Self { status: Some(status), damage: false, source }
    }

    /// No response, or an incomplete or invalid response.
    pub fn unanswered(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { status: None, damage: false, source: source.into() }
    }

    /// The bytes do not match their checksum.
    pub fn damaged(why: String) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidData, why).into();
        Self { status: None, damage: true, source }
    }

    /// Whether a retry may succeed. Without a response, the request may also have succeeded.
    pub fn is_transient(&self) -> bool {
        !self.damage && self.status.is_none_or(|status| matches!(status, 408 | 429 | 500..=504))
    }

    /// Converts to the port's error.
    pub fn store(self, doing: &'static str, name: &str) -> StoreError {
        StoreError::Io { doing, name: name.to_owned(), source: self.into() }
    }
}

impl From<RequestError> for io::Error {
    fn from(error: RequestError) -> Self {
        error.source.downcast::<Self>().map_or_else(Self::other, |error| *error)
    }
}

impl From<google_cloud_gax::error::Error> for RequestError {
    fn from(error: google_cloud_gax::error::Error) -> Self {
        if let (Some(status), Some(detail)) = (error.http_status_code(), error.status()) {
            return Self::answered(status, &detail.message);
        }
        let write = error.source().and_then(|source| source.downcast_ref());
        let damage = matches!(write, Some(WriteError::ChecksumMismatch { .. }));
        Self { status: error.http_status_code(), damage, source: error.into() }
    }
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> Self {
        Self { status: error.status().map(|status| status.as_u16()), damage: false, source: error.into() }
    }
}

/// Time spent on attempts, and the pauses between them.
pub struct Tries {
    total: Duration,
    until: Instant,
    attempt: Duration,
    pauses: ExponentialBackoff,
}

impl Tries {
    /// Timeouts of a request.
    pub fn new(timeouts: &StorageTimeouts) -> Self {
        Self::within(timeouts.total, timeouts.attempt)
    }

    /// Timeouts of the chunks of a stream, which take longer.
    pub fn of_stream(timeouts: &StorageTimeouts) -> Self {
        Self::within(timeouts.stream, timeouts.stream / 2)
    }

    fn within(total: Duration, attempt: Duration) -> Self {
        let pauses = ExponentialBuilder::new()
            .with_min_delay((total / 100).min(Duration::from_millis(200)))
            .with_max_delay(Duration::from_secs(3))
            .without_max_times()
            // Concurrent callers must not retry together.
            .with_jitter()
            .build();
        Self { total, until: Instant::now() + total, attempt, pauses }
    }

    /// Progress was made: restart the timeout.
    pub fn restart_timeout(&mut self) {
        *self = Self::within(self.total, self.attempt);
    }

    /// One attempt, limited by its timeout and the remaining time.
    pub async fn one<T>(
        &self,
        attempt: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let limit = self.attempt.min(self.until.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(limit, attempt).await {
            Ok(done) => done,
            Err(_) => {
                Err(RequestError::unanswered(format!("no response within {:.1} s", limit.as_secs_f64())))
            }
        }
    }

    /// Waits before the next attempt, twice as long each time.
    ///
    /// # Errors
    /// Returns the failure if it is permanent, or if the timeout ends before the next attempt.
    pub async fn wait_before_retry(&mut self, error: RequestError) -> Result<(), RequestError> {
        let wait = self.pauses.next().unwrap_or_default();
        if !error.is_transient() || Instant::now() + wait >= self.until {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Retries until success, a permanent failure, or the timeout.
    pub async fn until_done<T, A>(mut self, mut attempt: impl FnMut() -> A) -> Result<T, RequestError>
    where
        A: Future<Output = Result<T, RequestError>>,
    {
        loop {
            match self.one(attempt()).await {
                Ok(done) => return Ok(done),
                Err(error) => self.wait_before_retry(error).await?,
            }
        }
    }
}
