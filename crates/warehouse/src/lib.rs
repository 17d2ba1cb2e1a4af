//! The warehouse: tables of measurements, verdicts and runs.
//!
//! Three tables, identical in SQLite and BigQuery: `runs` has one [`RunRow`] per closed run, `verdicts` one
//! [`VerdictRow`] per measured run, `measurements` one [`MeasurementRow`] per size and placement. These types define the
//! columns; [`TABLES`] is derived from them for both databases. Only the loader writes; other services read a
//! cluster's history.

#[cfg(feature = "gcp")]
pub mod bigquery;
mod location;
mod past;
mod rows;
mod schema;
mod sqlite;

pub use location::WarehouseLocation;
pub use past::{Past, PastQuery};
pub use rows::{Load, MeasurementRow, RunRow, SharedText, VerdictRow};
pub use schema::{ColumnType, TABLES, TableColumn, WarehouseTable};
pub use sqlite::Sqlite;

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Transient: retry.
    Unavailable(String),
    /// The rows are invalid: permanent.
    Refused(String),
}
