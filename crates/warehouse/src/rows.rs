//! The rows.

use std::sync::Arc;

use model::{
    Attempt, Conclusion, RunId, RunUsed, Span, Timestamp, Verdict, VerdictReached,
    measurement::{Half, Reading},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What all rows of a run say alike, kept once.
pub type Text = Arc<str>;

/// What is loaded together or not at all: what a run measured, or how it ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// How it ended. At most one.
    pub runs: Vec<RunRow>,
    /// What was said of it. At most one.
    pub verdicts: Vec<VerdictRow>,
    /// What it measured.
    pub rows: Vec<Row>,
}

/// A run that is over and has given everything back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// The run.
    pub run: String,
    /// The workflow's name.
    pub workflow: String,
    /// When the run was asked for.
    pub requested_at: Option<Timestamp>,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// `completed`, `failed`, `timed_out` or `cancelled`.
    pub conclusion: String,
    /// Code of the failure, where it failed.
    pub failure: Option<String>,
    /// What was said of its measurements; null when nothing was.
    pub verdict: Option<Verdict>,
    /// Nodes of its cluster; 0 when it rented none.
    pub nodes: u32,
    /// Hours that nodes were held, all nodes together: from being asked for to being confirmed gone.
    pub node_hours: f64,
    /// Hours of it in which the benchmark ran, all nodes together.
    pub busy_node_hours: f64,
    /// What they cost; null where no price is known.
    pub cost: Option<f64>,
    /// Currency of the cost.
    pub currency: Option<String>,
}

/// A run, and what was said of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictRow {
    /// The run.
    pub run: Text,
    /// The workflow's name.
    pub workflow: Text,
    /// Attempt of the job.
    pub attempt: u32,
    /// When the run was asked for.
    pub requested_at: Option<Timestamp>,
    /// `pass`, `fail` or `inconclusive`; null when the judge could not work.
    pub verdict: Option<Verdict>,
    /// Codes of its reasons, gravest first, with commas between them.
    pub reasons: String,
    /// Name and digest of the criteria.
    pub criteria: Option<Text>,
    /// Digest of the baseline, where there was one.
    pub baseline: Option<Text>,
    /// What was measured, in one text: equal for runs whose curves are comparable.
    pub identity: Option<Text>,
    /// What it was measured on, as a JSON object of texts.
    pub fingerprint: Text,
    /// Rows of the run in `measurements`.
    pub measurements: u64,
}

/// A measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The run.
    pub run: Text,
    /// The workflow's name.
    pub workflow: Text,
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
    /// When the run was asked for.
    pub requested_at: Option<Timestamp>,
    /// What was said of the run.
    pub verdict: Option<Verdict>,
    /// Name and digest of the criteria.
    pub criteria: Option<Text>,
    /// Digest of the baseline, where there was one.
    pub baseline: Option<Text>,
    /// What was measured, in one text: equal for runs whose curves are comparable.
    pub identity: Option<Text>,
    /// What it was measured on, as a JSON object of texts.
    pub fingerprint: Option<Text>,
}

impl Load {
    /// Of a run about which nothing was said yet.
    pub fn of(run: &RunId, workflow: &str, attempt: Attempt, requested_at: Option<Timestamp>) -> Self {
        let verdict = VerdictRow {
            run: run.as_str().into(),
            workflow: workflow.into(),
            attempt: attempt.0,
            requested_at,
            fingerprint: "{}".into(),
            ..VerdictRow::default()
        };
        Self { verdicts: vec![verdict], ..Self::default() }
    }

    /// Of a run that is over.
    pub fn used(run: &RunId, used: &RunUsed) -> Self {
        let (conclusion, failure) = match &used.conclusion {
            Conclusion::Completed => ("completed", None),
            Conclusion::Failed { failure, .. } => ("failed", Some(failure.code.clone())),
            Conclusion::TimedOut { .. } => ("timed_out", None),
            Conclusion::Cancelled { .. } => ("cancelled", None),
        };
        let hours = |span: Span| f64::from(used.nodes) * span.0.as_secs_f64() / 3600.0;
        let row = RunRow {
            run: run.to_string(),
            workflow: used.workflow.clone(),
            requested_at: Some(used.requested_at),
            closed_at: Some(used.closed_at),
            conclusion: conclusion.to_owned(),
            failure,
            verdict: used.verdict,
            nodes: used.nodes,
            node_hours: hours(used.held),
            busy_node_hours: hours(used.busy),
            cost: used.spent.map(|spent| spent.as_micros() as f64 / 1e6),
            currency: used.currency.clone(),
        };
        Self { runs: vec![row], ..Self::default() }
    }

    /// Adds what a log measured.
    pub fn log(&mut self, log: &str, reading: &Reading) {
        let Some(run) = self.verdicts.first().cloned() else { return };
        for (table_number, table) in (0..).zip(&reading.tables) {
            for (row_number, row) in (0..).zip(&table.rows) {
                let placed = |placement: &str, half: &Half| Row {
                    run: run.run.clone(),
                    workflow: run.workflow.clone(),
                    attempt: run.attempt,
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
                    requested_at: run.requested_at,
                    ..Row::default()
                };
                self.rows.extend(row.out_of_place.iter().map(|half| placed("out_of_place", half)));
                self.rows.extend(row.in_place.iter().map(|half| placed("in_place", half)));
            }
        }
    }

    /// Adds what was said of the run, to every row. `identity` is equal for runs whose curves are comparable.
    #[must_use]
    pub fn judged(mut self, reached: Option<&VerdictReached>, identity: &str) -> Self {
        let measurements = self.rows.len() as u64;
        for verdict in &mut self.verdicts {
            verdict.measurements = measurements;
        }
        let Some(reached) = reached else { return self };
        let criteria: Text = reached.criteria.as_str().into();
        let baseline: Option<Text> = reached.baseline.as_deref().map(Into::into);
        let identity: Text = identity.into();
        let fingerprint: Text = serde_json::to_string(&reached.fingerprint).unwrap_or_default().into();
        for verdict in &mut self.verdicts {
            let codes: Vec<_> = reached.reasons.iter().map(|reason| reason.code.as_str()).collect();
            verdict.verdict = Some(reached.verdict);
            verdict.reasons = codes.join(",");
            verdict.criteria = Some(Arc::clone(&criteria));
            verdict.baseline.clone_from(&baseline);
            verdict.identity = Some(Arc::clone(&identity));
            verdict.fingerprint = Arc::clone(&fingerprint);
        }
        for row in &mut self.rows {
            row.verdict = Some(reached.verdict);
            row.criteria = Some(Arc::clone(&criteria));
            row.baseline.clone_from(&baseline);
            row.identity = Some(Arc::clone(&identity));
            row.fingerprint = Some(Arc::clone(&fingerprint));
        }
        self
    }
}
