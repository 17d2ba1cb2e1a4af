//! JSON printed by the command line: an interface. Its schemas lie in `schemas/cli`.

use schemars::JsonSchema;
use serde::Serialize;
use terms::{RunId, Timestamp, Verdict};

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
    /// Path of the HTML report.
    pub report: String,
}

/// What `burnin runs --output json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunsDocument {
    /// `burnin/runs/v1`.
    pub schema: &'static str,
    /// Newest first.
    pub runs: Vec<RunLine>,
}

/// One run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunLine {
    /// The run.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// `open`, or how it ended.
    pub conclusion: String,
    /// What the measurements said.
    pub verdict: Option<Verdict>,
    /// The stage whose turn it is.
    pub stage: Option<terms::Stage>,
}
