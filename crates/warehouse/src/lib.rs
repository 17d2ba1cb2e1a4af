//! The warehouse: tables of measurements, verdicts and runs.
//!
//! Three tables, identical in SQLite and BigQuery: `runs` has one [`RunRow`] per closed run, `verdicts` one
//! [`VerdictRow`] per measured run, `measurements` one [`Row`] per size and placement. These types define the
//! columns; [`TABLES`] is derived from them for both databases. Only the loader writes; other services read a
//! cluster's history.

#[cfg(feature = "gcp")]
pub mod bigquery;
mod past;
mod place;
mod rows;
mod schema;
mod sqlite;

pub use past::{Past, Wanted};
pub use place::Place;
pub use rows::{Load, Row, RunRow, Text, VerdictRow};
pub use schema::{Column, Kind, TABLES, Table};
pub use sqlite::Sqlite;

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Transient: retry.
    Unavailable(String),
    /// The rows are invalid: permanent.
    Refused(String),
}
