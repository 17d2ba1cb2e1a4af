//! The warehouse: tables of measurements, verdicts, runs and results of nodes.
//!
//! Six tables, identical in SQLite and BigQuery: `runs` has one [`RunRow`] per closed run, `verdicts` one
//! [`VerdictRow`] per measured run, `measurements` one [`MeasurementRow`] per size and placement of nccl-tests, `metrics` one
//! [`MetricRow`] per value of any program, `findings` one [`FindingRow`] per event or state that a program reported, `node_results` one [`NodeResultRow`] per suspected, drained
//! or re-tested node of a run. These types
//! define the columns; [`TABLES`] is derived from them for both databases. Only the loader writes; other services read a cluster's
//! history.

#![deny(missing_docs)]

#[cfg(feature = "gcp")]
pub mod bigquery;
pub mod conformance;
mod location;
pub mod memory;
mod past;
mod projection;
mod rows;
mod schema;
mod sqlite;
mod views;

pub use location::WarehouseLocation;
pub use past::{MeasurementKind, PastQuery, PastRun};
pub use rows::{FindingRow, Load, MeasurementRow, MetricRow, NodeResultRow, RunRow, SharedText, VerdictRow};
pub use schema::{ColumnType, TABLES, TableColumn, WarehouseTable};
pub use sqlite::Sqlite;

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Transient: retry.
    #[error("{0}")]
    Transient(String),
    /// The rows are invalid: permanent.
    #[error("{0}")]
    Permanent(String),
}

/// The tables, in SQLite, BigQuery or memory.
#[async_trait::async_trait]
pub trait Warehouse: Send + Sync + 'static {
    /// Loads all rows of a run or none. A repeated load id has no effect and returns the number of measurements and
    /// metrics of the first load.
    ///
    /// # Errors
    /// Returns an error if the load failed: [`Error::Permanent`] if the rows can never be loaded,
    /// [`Error::Transient`] if nothing was loaded or the outcome is unknown: load again under the same id.
    async fn load(&self, id: &str, load: &Load) -> Result<u64, Error>;

    /// Measurements of a run, in the order of its logs.
    ///
    /// # Errors
    /// Returns an error if the warehouse is unavailable.
    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, Error>;

    /// Metrics of a run, in the order of its logs.
    ///
    /// # Errors
    /// Returns an error if the warehouse is unavailable.
    async fn metrics(&self, run: &str) -> Result<Vec<MetricRow>, Error>;

    /// Findings of a run, in the order of its logs.
    ///
    /// # Errors
    /// Returns an error if the warehouse is unavailable.
    async fn findings(&self, run: &str) -> Result<Vec<FindingRow>, Error>;

    /// Results of a run that concern single nodes, by node.
    ///
    /// # Errors
    /// Returns an error if the warehouse is unavailable.
    async fn node_results(&self, run: &str) -> Result<Vec<NodeResultRow>, Error>;

    /// Verdict rows of a run.
    ///
    /// # Errors
    /// Returns an error if the warehouse is unavailable.
    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, Error>;

    /// Runs with a verdict that match the query, oldest first, each once.
    ///
    /// # Errors
    /// Returns an error if the warehouse is unavailable. A cluster without earlier runs is not an error.
    async fn past(&self, wanted: &PastQuery) -> Result<Vec<PastRun>, Error>;

    /// Name of the tables, shown to users.
    fn table(&self) -> String;
}
