//! What the warehouse keeps.
//!
//! Two tables, the same in SQLite and in BigQuery: `verdicts` has one [`VerdictRow`] a run, `measurements` one
//! [`Row`] a size and placement. Their columns are written down once, as these types; [`TABLES`] is what
//! follows for both databases. Only the loader writes; whoever wants a cluster's history reads.

mod past;
mod rows;
mod schema;
mod sqlite;

pub use past::{Past, Wanted};
pub use rows::{Load, Row, VerdictRow};
pub use schema::{Column, Kind, TABLES, Table};
pub use sqlite::{Sqlite, SqliteError};
