//! A warehouse in BigQuery.

use warehouse::{Load, MeasurementRow, VerdictRow, bigquery::BigQuery};

use crate::port::{LoadTarget, WarehouseError};

#[async_trait::async_trait]
impl LoadTarget for BigQuery {
    async fn load(&self, id: &str, load: &Load) -> Result<u64, WarehouseError> {
        Ok(Self::load(self, id, load).await?)
    }

    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, WarehouseError> {
        Ok(Self::rows(self, run).await?)
    }

    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, WarehouseError> {
        Ok(Self::verdicts(self, run).await?)
    }

    fn table(&self) -> String {
        self.place()
    }
}
