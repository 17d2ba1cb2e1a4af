//! What went wrong on the way to Cloud Storage, and whether trying again can mend it.

use std::{
    error::Error,
    io,
    time::{Duration, Instant},
};

use google_cloud_storage::error::WriteError;
use ledger::StoreError;

use super::Patience;

/// Why a request did not do as asked.
#[derive(Debug)]
pub struct Trouble {
    /// The status of the answer; none when there was no whole answer.
    pub status: Option<u16>,
    /// What was answered is not what it should be.
    pub damage: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl Trouble {
    /// An answer that is no success.
    pub fn answered(status: u16, said: &str) -> Self {
        let said: String = said.chars().take(300).collect();
        let source = format!("answered {status}: {said}").into();
        Self { status: Some(status), damage: false, source }
    }

    /// No answer, half an answer, or none that is understood.
    pub fn unanswered(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { status: None, damage: false, source: source.into() }
    }

    /// The bytes are not those that their checksum says.
    pub fn damaged(why: String) -> Self {
        let source = io::Error::new(io::ErrorKind::InvalidData, why).into();
        Self { status: None, damage: true, source }
    }

    /// Whether the same request may go well later. Without an answer it may, and may have gone well already.
    pub fn may_pass(&self) -> bool {
        !self.damage && self.status.is_none_or(|status| matches!(status, 408 | 429 | 500..=504))
    }

    /// As the port words it.
    pub fn store(self, doing: &'static str, name: &str) -> StoreError {
        StoreError::Io { doing, name: name.to_owned(), source: self.into() }
    }
}

impl From<Trouble> for io::Error {
    fn from(trouble: Trouble) -> Self {
        trouble.source.downcast::<Self>().map_or_else(Self::other, |error| *error)
    }
}

impl From<google_cloud_gax::error::Error> for Trouble {
    fn from(error: google_cloud_gax::error::Error) -> Self {
        if let (Some(status), Some(said)) = (error.http_status_code(), error.status()) {
            return Self::answered(status, &said.message);
        }
        let write = error.source().and_then(|source| source.downcast_ref());
        let damage = matches!(write, Some(WriteError::ChecksumMismatch { .. }));
        Self { status: error.http_status_code(), damage, source: error.into() }
    }
}

impl From<reqwest::Error> for Trouble {
    fn from(error: reqwest::Error) -> Self {
        Self { status: error.status().map(|status| status.as_u16()), damage: false, source: error.into() }
    }
}

/// How long something has been tried, and how long to wait before it is tried again.
pub struct Tries {
    total: Duration,
    until: Instant,
    attempt: Duration,
    pause: Duration,
}

impl Tries {
    /// Of a request.
    pub fn new(patience: &Patience) -> Self {
        Self::within(patience.total, patience.attempt)
    }

    /// Of what a stream is made of: large enough to take longer.
    pub fn of_stream(patience: &Patience) -> Self {
        Self::within(patience.stream, patience.stream / 2)
    }

    fn within(total: Duration, attempt: Duration) -> Self {
        let pause = (total / 80).min(Duration::from_millis(250));
        Self { total, until: Instant::now() + total, attempt, pause }
    }

    /// It went on: from here it may take as long again.
    pub fn went_on(&mut self) {
        *self = Self::within(self.total, self.attempt);
    }

    /// One attempt, no longer than an attempt may take and than there is time.
    pub async fn one<T>(&self, attempt: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        let limit = self.attempt.min(self.until.saturating_duration_since(Instant::now()));
        match tokio::time::timeout(limit, attempt).await {
            Ok(done) => done,
            Err(_) => Err(Trouble::unanswered(format!("no answer within {:.1} s", limit.as_secs_f64()))),
        }
    }

    /// Waits before the next attempt, each time about twice as long.
    ///
    /// # Errors
    /// The trouble, when it will not pass or there is no time left.
    pub async fn again(&mut self, trouble: Trouble) -> Result<(), Trouble> {
        // Those who stumble at the same time should not come again at the same time.
        let wait = self.pause.mul_f64(0.5 + fastrand::f64());
        if !trouble.may_pass() || Instant::now() + wait >= self.until {
            return Err(trouble);
        }
        tokio::time::sleep(wait).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(4));
        Ok(())
    }

    /// Tries until it is done, will never be done, or there is no time left.
    pub async fn until_done<T, A>(mut self, mut attempt: impl FnMut() -> A) -> Result<T, Trouble>
    where
        A: Future<Output = Result<T, Trouble>>,
    {
        loop {
            match self.one(attempt()).await {
                Ok(done) => return Ok(done),
                Err(trouble) => self.again(trouble).await?,
            }
        }
    }
}
