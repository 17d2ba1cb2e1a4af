//! What the warehouse keeps.
//!
//! Three tables, the same in SQLite and in BigQuery: `runs` has one [`RunRow`] a run that is over, `verdicts` one
//! [`VerdictRow`] a run that measured something, `measurements` one [`Row`] a size and placement. Their columns are written down once, as these types; [`TABLES`] is what
//! follows for both databases. Only the loader writes; whoever wants a cluster's history reads.

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

/// Why a warehouse did not do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It may work later.
    Unavailable(String),
    /// These rows will not fit another time either.
    Refused(String),
}
