//! The past in the SQLite file that the loader writes.

use warehouse::{Past, Sqlite, SqliteError, Wanted};

use crate::port::{History, HistoryError};

#[async_trait::async_trait]
impl History for Sqlite {
    async fn past(&self, wanted: &Wanted) -> Result<Vec<Past>, HistoryError> {
        Self::past(self, wanted).await.map_err(|error| match error {
            SqliteError::Unavailable(why) | SqliteError::Refused(why) => HistoryError::Unavailable(why),
        })
    }
}
