use lifecycle::{RunState, owed};
use model::{Attempt, Reason, Record, RetestedNode, Stage, Suspects, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use report::{FindingSummary, MetricSummary, StageLine};
use verdict::locate::Suspect;

use crate::{RunReport, RunSummary};

/// A run with its stages: the document `burnin/show/v1`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunDetail {
    /// `burnin/show/v1`.
    pub schema: String,
    /// Summary of the run.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// Reasons of the verdict.
    pub reasons: Vec<Reason>,
    /// The shown check, if the workflow has several; `suspects`, `metrics` and `findings` are those of this check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Suspected nodes of the search, if one ran; otherwise the suspects of the verdict, if it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspects: Option<ShownSuspects>,
    /// Nodes that passed their re-test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retested: Vec<RetestedNode>,
    /// Metrics over all subjects of the shown check; absent from a server's response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSummary>,
    /// Findings of the shown check; absent from a server's response.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingSummary>,
    /// All started attempts of stages and teardowns.
    pub stages: Vec<StageDetail>,
    /// Ids of the pending commands.
    pub owed: Vec<String>,
    /// Object name of the logs' manifest, once collected.
    pub logs: Option<String>,
    /// Sequence number of the last record.
    pub seq: u64,
}

/// Suspects of a run or a check.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ShownSuspects {
    /// The stage `locate` searched for bad nodes.
    Located {
        /// Result of the search.
        #[serde(flatten)]
        located: Suspects,
        /// Suspects of the verdict before the search, if it was read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        judged: Vec<Suspect>,
    },
    /// Suspects of the verdict, highest confidence first.
    Judged(Vec<Suspect>),
}

impl ShownSuspects {
    fn of(located: Option<Suspects>, judged: &[Suspect]) -> Option<Self> {
        match located {
            Some(located) => Some(Self::Located { located, judged: judged.to_vec() }),
            None if judged.is_empty() => None,
            None => Some(Self::Judged(judged.to_vec())),
        }
    }

    /// The result of the search; `None` if only the verdict names suspects.
    #[must_use]
    pub fn located(&self) -> Option<&Suspects> {
        match self {
            Self::Located { located, .. } => Some(located),
            Self::Judged(_) => None,
        }
    }
}

/// One attempt of a stage, or a teardown.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StageDetail {
    /// Name of the stage; for a teardown the name is `cluster`.
    pub stage: Stage,
    /// Name of the stage's check, if the workflow has several checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The attempt, such as `1`; from the second check on with the number of the check, such as `c2a1`.
    pub attempt: Attempt,
    /// Whether this is the release of the attempt's cluster.
    pub teardown: bool,
    /// Start of the attempt.
    pub began: Timestamp,
    /// End of the attempt; null while the attempt is running.
    pub ended: Option<Timestamp>,
    /// Result, for display.
    pub outcome: String,
}

impl RunDetail {
    pub fn of(state: &RunState, records: &[Record], now: Timestamp) -> Self {
        let stages = report::timeline(records).into_iter().map(StageDetail::from);
        Self {
            schema: "burnin/show/v1".to_owned(),
            summary: RunSummary::of(state),
            reasons: state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default(),
            check: None,
            suspects: ShownSuspects::of(state.suspects().cloned(), &[]),
            retested: state.retested().to_vec(),
            metrics: Vec::new(),
            findings: Vec::new(),
            stages: stages.collect(),
            owed: owed(state, now).iter().map(|owed| owed.command.id.to_string()).collect(),
            logs: state.logs().map(|logs| logs.manifest.clone()),
            seq: state.seq,
        }
    }

    /// Details of a run with the metrics and suspects of the reported check, at `now`.
    pub fn of_report(report: &RunReport, now: Timestamp) -> Self {
        let (state, check) = (&report.state, report.shown_check());
        let judged = report.judgement().map_or(&[][..], |judgement| &judgement.suspects);
        let report::Metrics { metrics, findings } = report::metrics(&report.input());
        let detail = Self::of(state, &report.records, now);
        // If no check was requested, `reasons`, the search and the logs are those of the whole run.
        let (reasons, located, logs) = match report.requested_check() {
            Some(check) => (
                state.verdict_of(check).map_or_else(Vec::new, |reached| reached.reasons.clone()),
                state.suspects_of(check),
                state.logs_of(check).map(|logs| logs.manifest.clone()),
            ),
            None => (detail.reasons, state.suspects(), detail.logs),
        };
        Self {
            check: state.workflow.check(check).map(|check| check.name.clone()),
            reasons,
            suspects: ShownSuspects::of(located.cloned(), judged),
            metrics,
            findings,
            logs,
            ..detail
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
