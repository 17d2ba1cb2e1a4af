//! What the judge needs of the outside world: the cluster's own past.

use warehouse::{Error, Past, Wanted};

/// Why the past is not known.
#[derive(Debug)]
pub enum HistoryError {
    /// It may be known later.
    Unavailable(String),
}

impl From<Error> for HistoryError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(why) | Error::Refused(why) => Self::Unavailable(why),
        }
    }
}

/// Somewhere earlier runs can be looked up.
#[async_trait::async_trait]
pub trait History: Send + Sync + 'static {
    /// The runs wanted, oldest first, each once. Only runs with a verdict are among them.
    ///
    /// # Errors
    /// When they could not be looked up. A cluster without a past is not an error.
    async fn past(&self, wanted: &Wanted) -> Result<Vec<Past>, HistoryError>;
}
