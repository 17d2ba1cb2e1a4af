//! One JSON document for all webhooks, so that receivers need one schema.

use model::{Failure, News, Reason, RunId, Stage, Timestamp, Trigger, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Outcome of a closed run, in the classes that notices distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Completed with the verdict pass, or without a verdict.
    Passed,
    /// Verdict fail.
    Failed,
    /// Verdict inconclusive.
    Inconclusive,
    /// The infrastructure failed.
    Broken,
    /// Cancelled by a user or a trigger.
    Cancelled,
    /// Yielded to other jobs, before any check failed.
    Yielded,
}

/// Webhook payload, schema `burnin/notice/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    /// Schema of the document: always `burnin/notice/v1`.
    pub schema: String,
    /// Notice id, identical on every delivery: use it to drop duplicates.
    pub id: String,
    /// Kind of change.
    pub news: News,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Start of the reported failure.
    pub since: Timestamp,
    /// First failed run.
    pub first_run: RunId,
    /// Id of the reported run.
    pub run: RunId,
    /// Workflow of the reported run.
    pub workflow: String,
    /// Kind of cluster.
    pub system: Option<String>,
    /// Cluster name at its provider.
    pub cluster: Option<String>,
    /// Trigger of the run.
    pub trigger: Trigger,
    /// Time at which the run was requested.
    pub requested_at: Timestamp,
    /// Time at which the run was closed and all its resources were released.
    pub closed_at: Timestamp,
    /// `completed`, `failed`, `timed_out`, `cancelled` or `yielded`.
    pub conclusion: String,
    /// Verdict on the measurements.
    pub verdict: Option<Verdict>,
    /// Reasons of the verdict.
    pub reasons: Vec<Reason>,
    /// Failure outside the benchmark.
    pub failure: Option<StageFailure>,
    /// URL of the run.
    pub link: Option<String>,
}

/// The stage that failed the run, with its cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageFailure {
    /// Failed stage.
    pub stage: Stage,
    /// Failure; null after a timeout without a response.
    pub failure: Option<Failure>,
}
