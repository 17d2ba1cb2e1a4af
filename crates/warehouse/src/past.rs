//! Queries for a cluster's history.

use std::collections::BTreeMap;

use model::{
    Timestamp, Verdict,
    measurement::{Half, LogEnd, Table},
    metric::Metric,
};

use crate::rows::{MeasurementRow, MetricRow, VerdictRow};

/// Filter for runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastQuery {
    /// Workflow whose runs are read.
    pub workflow: String,
    /// Identity of comparable curves.
    pub identity: String,
    /// Upper bound of the request time.
    pub before: Timestamp,
    /// Maximum number of oldest runs.
    pub oldest: u32,
    /// Maximum number of newest runs.
    pub newest: u32,
    /// Data to read of each run.
    pub measured: MeasurementKind,
}

/// Data of earlier runs that a comparison needs: each run is read from one table only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeasurementKind {
    /// The table of nccl-tests.
    #[default]
    Table,
    /// The metrics of any other program.
    Metrics,
    /// Only the verdicts.
    Nothing,
}

/// An earlier run with a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRun {
    /// Id of the earlier run.
    pub run: String,
    /// Request time of the run.
    pub requested_at: Option<Timestamp>,
    /// `None`: the run was not judged.
    pub verdict: Option<Verdict>,
    /// Environment of the measurement, field by field.
    pub fingerprint: BTreeMap<String, String>,
    /// The table of nccl-tests; empty for other programs.
    pub table: Table,
    /// Metrics of any other program, in the order of their logs.
    pub metrics: Vec<Metric>,
}

impl PastRun {
    /// A judged check of a run from the rows of the run, which must be in order. Rows of its other checks are ignored.
    pub fn of(verdict: &VerdictRow, rows: &[MeasurementRow], metrics: &[MetricRow]) -> Self {
        let of_check = |row: &&MeasurementRow| row.check_name == verdict.check_name;
        let first = rows.iter().find(of_check);
        let mut table = Table {
            collective: first.and_then(|row| row.collective.clone()),
            ranks: first.and_then(|row| row.ranks),
            ..Table::empty(LogEnd::Complete)
        };
        let mut at = None;
        for row in rows.iter().filter(of_check) {
            if at.replace((&row.log, row.table_number, row.row_number))
                != Some((&row.log, row.table_number, row.row_number))
            {
                table.rows.push(model::measurement::Row {
                    size_bytes: row.size_bytes,
                    count: row.count,
                    dtype: row.dtype.clone(),
                    redop: row.redop.clone(),
                    ..model::measurement::Row::default()
                });
            }
            let half = Half {
                time_us: row.time_us,
                algbw: row.algbw,
                busbw: row.busbw,
                wrong: row.wrong,
                ..Half::default()
            };
            if let Some(measured) = table.rows.last_mut() {
                match row.placement.as_str() {
                    "in_place" => measured.in_place = Some(half),
                    _ => measured.out_of_place = Some(half),
                }
            }
        }
        Self {
            run: verdict.run.to_string(),
            requested_at: verdict.requested_at,
            verdict: verdict.verdict,
            fingerprint: serde_json::from_str(&verdict.fingerprint).unwrap_or_default(),
            table,
            metrics: metrics
                .iter()
                .filter(|row| row.check_name == verdict.check_name)
                .map(MetricRow::metric)
                .collect(),
        }
    }
}
