//! Earlier runs from the loader's SQLite file.

use warehouse::{Past, PastQuery, Sqlite};

use crate::port::{HistoryError, PastRuns};

#[async_trait::async_trait]
impl PastRuns for Sqlite {
    async fn past(&self, wanted: &PastQuery) -> Result<Vec<Past>, HistoryError> {
        Ok(Self::past(self, wanted).await?)
    }
}
