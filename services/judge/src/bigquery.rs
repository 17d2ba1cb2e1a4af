//! Earlier runs from the loader's BigQuery dataset.

use warehouse::{Past, PastQuery, bigquery::BigQuery};

use crate::port::{History, HistoryError};

#[async_trait::async_trait]
impl History for BigQuery {
    async fn past(&self, wanted: &PastQuery) -> Result<Vec<Past>, HistoryError> {
        Ok(Self::past(self, wanted).await?)
    }
}
