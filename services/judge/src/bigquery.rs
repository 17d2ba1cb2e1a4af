//! Earlier runs from the loader's BigQuery dataset.

use warehouse::{Past, PastQuery, bigquery::BigQuery};

use crate::port::{HistoryError, PastRuns};

#[async_trait::async_trait]
impl PastRuns for BigQuery {
    async fn past(&self, wanted: &PastQuery) -> Result<Vec<Past>, HistoryError> {
        Ok(Self::past(self, wanted).await?)
    }
}
