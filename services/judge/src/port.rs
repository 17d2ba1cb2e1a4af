//! The judge's port to earlier runs.

use warehouse::{Error, Past, PastQuery};

/// Why the history is unknown.
#[derive(Debug)]
pub enum HistoryError {
    /// Transient: retry later.
    Unavailable(String),
}

impl From<Error> for HistoryError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(why) | Error::Refused(why) => Self::Unavailable(why),
        }
    }
}

/// Source of earlier runs.
#[async_trait::async_trait]
pub trait PastRuns: Send + Sync + 'static {
    /// The wanted runs, oldest first, each once. Only runs with a verdict.
    ///
    /// # Errors
    /// Returns an error if the lookup fails. A cluster without earlier runs is not an error.
    async fn past(&self, wanted: &PastQuery) -> Result<Vec<Past>, HistoryError>;
}
