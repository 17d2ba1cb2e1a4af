//! Details of a run.

use lifecycle::{RunState, owed};
use model::{Attempt, Reason, Record, Stage, Suspects, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use report::StageLine;

use crate::RunSummary;

/// A run with its stages.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunDetail {
    /// `burnin/show/v1`.
    pub schema: String,
    /// Summary of the run.
    #[serde(flatten)]
    pub line: RunSummary,
    /// Reasons of the verdict.
    pub reasons: Vec<Reason>,
    /// Suspected nodes, if they were searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspects: Option<Suspects>,
    /// All started attempts of stages and teardowns.
    pub stages: Vec<StageDetail>,
    /// Ids of the pending commands.
    pub owed: Vec<String>,
    /// Object name of the logs' manifest, once collected.
    pub logs: Option<String>,
    /// Sequence number of the last record.
    pub seq: u64,
}

/// One attempt of a stage, or a teardown.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StageDetail {
    /// Name of the stage; `cluster` for a teardown, too.
    pub stage: Stage,
    /// Name of its check, if the workflow has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// Whether this is the release of the attempt's cluster.
    pub teardown: bool,
    /// Start of the attempt.
    pub began: Timestamp,
    /// End of the attempt.
    pub ended: Option<Timestamp>,
    /// Result, for display.
    pub outcome: String,
}

impl RunDetail {
    /// Details of a run at `now`.
    pub fn of(state: &RunState, records: &[Record], now: Timestamp) -> Self {
        let stages = report::timeline(records).into_iter().map(StageDetail::from);
        Self {
            schema: "burnin/show/v1".to_owned(),
            line: RunSummary::of(state),
            reasons: state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default(),
            suspects: state.suspects().cloned(),
            stages: stages.collect(),
            owed: owed(state, now).iter().map(|owed| owed.command.id.to_string()).collect(),
            logs: state.logs().map(|logs| logs.manifest.clone()),
            seq: state.seq,
        }
    }
}

impl From<StageLine> for StageDetail {
    fn from(line: StageLine) -> Self {
        let StageLine { stage, check, attempt, teardown, began, ended, outcome } = line;
        Self { stage, check, attempt, teardown, began, ended, outcome }
    }
}

impl From<StageDetail> for StageLine {
    fn from(detail: StageDetail) -> Self {
        let StageDetail { stage, check, attempt, teardown, began, ended, outcome } = detail;
        Self { stage, check, attempt, teardown, began, ended, outcome }
    }
}
