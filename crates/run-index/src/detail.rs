//! A run whole.

use lifecycle::{RunState, owed};
use model::{Attempt, Reason, Record, Stage, Suspects, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Line;

/// A run with its stages.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Detail {
    /// `burnin/show/v1`.
    pub schema: &'static str,
    /// The run.
    #[serde(flatten)]
    pub line: Line,
    /// Why the verdict is what it is.
    pub reasons: Vec<Reason>,
    /// Which nodes are held to be bad, where they were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspects: Option<Suspects>,
    /// Every attempt of every stage, and every teardown, as far as they went.
    pub stages: Vec<StageDetail>,
    /// Ids of the commands that are owed to it now.
    pub owed: Vec<String>,
    /// Object name of the logs' manifest, once they are safe.
    pub logs: Option<String>,
    /// Number of the last record: what follows it is news.
    pub seq: u64,
}

/// One attempt of a stage, or a teardown.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StageDetail {
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

impl Detail {
    /// A run as it is at `now`.
    pub fn of(state: &RunState, records: &[Record], now: Timestamp) -> Self {
        let stages = report::timeline(records).into_iter().map(|line| StageDetail {
            stage: line.stage,
            attempt: line.attempt,
            teardown: line.teardown,
            began: line.began,
            ended: line.ended,
            outcome: line.outcome,
        });
        Self {
            schema: "burnin/show/v1",
            line: Line::of(state),
            reasons: state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default(),
            suspects: state.suspects().cloned(),
            stages: stages.collect(),
            owed: owed(state, now).iter().map(|owed| owed.command.id.to_string()).collect(),
            logs: state.logs().map(|logs| logs.manifest.clone()),
            seq: state.seq,
        }
    }
}
