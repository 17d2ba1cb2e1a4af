//! One row a size and placement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{
    Attempt, RunId,
    measurement::{Half, Reading},
};

/// A measurement as the warehouse keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The run.
    pub run: String,
    /// The workflow's name.
    pub workflow: String,
    /// Attempt of the job.
    pub attempt: u32,
    /// The log it stands in, relative to the manifest.
    pub log: String,
    /// Number of the table in that log, from 0.
    pub table_number: u32,
    /// Number of the row in that table, from 0.
    pub row_number: u32,
    /// `out_of_place` or `in_place`.
    pub placement: String,
    /// Collective, where the log tells.
    pub collective: Option<String>,
    /// Ranks, where the log tells.
    pub ranks: Option<u32>,
    /// Message size, bytes.
    pub size_bytes: u64,
    /// Elements.
    pub count: u64,
    /// Element type.
    pub dtype: String,
    /// Reduction.
    pub redop: Option<String>,
    /// Time of one operation, microseconds.
    pub time_us: f64,
    /// Size over time, GB/s.
    pub algbw: f64,
    /// Bus bandwidth, GB/s.
    pub busbw: f64,
    /// Wrong elements; null when nothing was checked.
    pub wrong: Option<u64>,
}

/// Adds the rows of a log.
pub fn extend(
    rows: &mut Vec<Row>,
    run: &RunId,
    workflow: &str,
    attempt: Attempt,
    log: &str,
    reading: &Reading,
) {
    for (table_number, table) in (0..).zip(&reading.tables) {
        for (row_number, row) in (0..).zip(&table.rows) {
            let placed = |placement: &str, half: &Half| Row {
                run: run.to_string(),
                workflow: workflow.to_owned(),
                attempt: attempt.0,
                log: log.to_owned(),
                table_number,
                row_number,
                placement: placement.to_owned(),
                collective: table.collective.clone(),
                ranks: table.ranks,
                size_bytes: row.size_bytes,
                count: row.count,
                dtype: row.dtype.clone(),
                redop: row.redop.clone(),
                time_us: half.time_us,
                algbw: half.algbw,
                busbw: half.busbw,
                wrong: half.wrong,
            };
            rows.extend(row.out_of_place.iter().map(|half| placed("out_of_place", half)));
            rows.extend(row.in_place.iter().map(|half| placed("in_place", half)));
        }
    }
}
