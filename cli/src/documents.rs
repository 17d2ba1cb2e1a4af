//! JSON output of the command line: a public interface. Its schemas are in `schemas/cli`.

use std::collections::BTreeMap;

use model::{Reason, RetestedNode, RunId, Suspects, Verdict, measurement::Reading};
use report::{FindingSummary, MetricSummary, PlacementMeasurement};
use run_index::{CheckSummary, RunSummary};
use schemars::JsonSchema;
use serde::Serialize;
use verdict::Judgement;

/// Output of `burnin run --output json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunDocument {
    /// Schema of the document: always `burnin/run/v1`.
    pub schema: &'static str,
    /// Id of the executed run.
    pub run: RunId,
    /// `completed`, `failed`, `timed_out`, `cancelled` or `yielded`.
    pub conclusion: String,
    /// Verdict on the measurements, the most severe of all checks; null if they were not judged.
    pub verdict: Option<Verdict>,
    /// The checks, in order of execution; absent for a single benchmark.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSummary>,
    /// Suspected nodes; absent if the run did not search for bad nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspects: Option<Suspects>,
    /// Nodes that passed their re-test; absent if the run re-tested no node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retested: Vec<RetestedNode>,
    /// Path of the HTML report.
    pub report: String,
}

/// Output of `burnin runs --output json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunsDocument {
    /// Schema of the document: always `burnin/runs/v1`.
    pub schema: &'static str,
    /// Newest first.
    pub runs: Vec<RunSummary>,
    /// Runs whose ledger cannot be replayed, with the reason; `runs` does not contain them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub damaged: BTreeMap<RunId, String>,
}

/// Output of `burnin parse --output json` for each log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ParseDocument {
    /// Schema of the document: always `burnin/parse/v1`.
    pub schema: &'static str,
    /// The log as named on the command line.
    pub source: String,
    /// Parsed content.
    #[serde(flatten)]
    pub reading: Reading,
}

/// Output of `burnin judge --output json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerdictDocument<'a> {
    /// Combined verdict on all logs.
    #[serde(flatten)]
    pub judgement: &'a Judgement,
    /// Verdict on each log, in the order in which they were judged.
    pub logs: Vec<LogVerdict<'a>>,
    /// Whether the logs were judged as a time series.
    pub series: bool,
    /// Number of logs by verdict.
    pub totals: Totals,
    /// The verdict in one sentence; with several logs, the number of logs by verdict.
    pub sentence: Option<String>,
    /// Next step; absent if none is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Number of logs by verdict.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Totals {
    /// Number of judged logs.
    pub logs: usize,
    /// Number of logs with verdict pass.
    pub pass: usize,
    /// Number of logs with verdict fail.
    pub fail: usize,
    /// Number of logs with verdict inconclusive.
    pub inconclusive: usize,
}

/// Verdict on one log, with its reasons, measurements, metrics and findings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogVerdict<'a> {
    /// The log as named on the command line.
    pub source: &'a str,
    /// Verdict on this log alone.
    pub verdict: Verdict,
    /// Reasons, most severe first.
    pub reasons: &'a [Reason],
    /// Start time stated in the log, local time. Absent if the log states none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<&'a str>,
    /// Each size and placement of the log's tables, with its references and bounds.
    pub measurements: Vec<PlacementMeasurement>,
    /// Metrics of a log of a benchmark other than nccl-tests, each over all its subjects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSummary>,
    /// Findings in a log of a benchmark other than nccl-tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingSummary>,
}

/// Output of `burnin baseline pins --output json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PinsDocument {
    /// `burnin/baselines/v1`.
    pub schema: &'static str,
    /// Workflows with at least one pin, current or released, by name.
    pub workflows: Vec<pins::PinHistory>,
}
