//! JSON printed by the command line: an interface. Its schemas lie in `schemas/cli`.

use std::collections::BTreeMap;

use model::{Reason, RunId, Suspects, Verdict, measurement::Reading};
use run_index::Line;
use schemars::JsonSchema;
use serde::Serialize;
use verdict::Judgement;

/// What `burnin run --output json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunDocument {
    /// `burnin/run/v1`.
    pub schema: &'static str,
    /// The run.
    pub run: RunId,
    /// `completed`, `failed`, `timed_out` or `cancelled`.
    pub conclusion: String,
    /// What the measurements said; null when they were not judged.
    pub verdict: Option<Verdict>,
    /// Which nodes are held to be bad, where they were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspects: Option<Suspects>,
    /// Path of the HTML report.
    pub report: String,
}

/// What `burnin runs --output json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunsDocument {
    /// `burnin/runs/v1`.
    pub schema: &'static str,
    /// Newest first.
    pub runs: Vec<Line>,
    /// Runs whose ledger cannot be replayed, and why; they are not among the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub damaged: BTreeMap<RunId, String>,
}

/// What `burnin parse --output json` prints for each log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ParseDocument {
    /// `burnin/parse/v1`.
    pub schema: &'static str,
    /// The log as it was named.
    pub source: String,
    /// What it says.
    #[serde(flatten)]
    pub reading: Reading,
}

/// Output of `burnin judge --output json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerdictDocument<'a> {
    /// The verdict on all logs together.
    #[serde(flatten)]
    pub judgement: &'a Judgement,
    /// The verdict on each log, in the order in which they were judged.
    pub logs: Vec<LogVerdict<'a>>,
    /// The logs were judged as a series in time.
    pub series: bool,
}

/// The verdict on one log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogVerdict<'a> {
    /// The log as it was named.
    pub source: &'a str,
    /// The verdict on it alone.
    pub verdict: Verdict,
    /// Why, gravest first.
    pub reasons: &'a [Reason],
    /// When the log states that it was made, local time. Absent when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<&'a str>,
}

/// What `burnin baseline pins --output json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PinsDocument {
    /// `burnin/baselines/v1`.
    pub schema: &'static str,
    /// Workflows of which something was ever pinned, by name.
    pub workflows: Vec<pins::History>,
}
