//! JSON printed by the command line: an interface. Its schemas lie in `schemas/cli`.

use schemars::JsonSchema;
use serde::Serialize;
use terms::{Attempt, Reason, RunId, Stage, Suspects, Timestamp, Verdict, measurement::Reading};

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

/// What `burnin show --output json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShowDocument {
    /// `burnin/show/v1`.
    pub schema: &'static str,
    /// The run.
    #[serde(flatten)]
    pub line: RunLine,
    /// Why the verdict is what it is.
    pub reasons: Vec<Reason>,
    /// Which nodes are held to be bad, where they were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspects: Option<Suspects>,
    /// Every attempt of every stage, and every teardown, as far as they went.
    pub stages: Vec<StageDocument>,
    /// Ids of the commands that are owed to it now.
    pub owed: Vec<String>,
    /// Object name of the logs' manifest, once they are safe.
    pub logs: Option<String>,
}

/// One attempt of a stage, or a teardown.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StageDocument {
    /// The stage; `cluster` for a teardown too.
    pub stage: Stage,
    /// The attempt.
    pub attempt: Attempt,
    /// The giving back of the attempt's cluster.
    pub teardown: bool,
    /// When its turn came.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// What came of it, for people.
    pub outcome: String,
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
