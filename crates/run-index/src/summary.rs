//! Summary of a run: an entry of its lists and of the document `burnin/runs/v1`.

use std::collections::BTreeMap;

use lifecycle::RunState;
use model::{CheckIndex, ClusterSpec, Money, RunId, Span, Stage, Timestamp, Trigger, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a run is open or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The result is pending, or resources are not yet released.
    Open,
    /// The result is final and all resources are released.
    Closed,
}

/// State, result and cost of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// Id of the run.
    pub run: RunId,
    /// Name of the workflow that was requested.
    pub workflow: String,
    /// Kind of cluster: `processes`, `slurm`, `deployed`; null without a cluster.
    pub system: Option<String>,
    /// Name of the cluster in its scheduler; null until the cluster is ready.
    pub cluster: Option<String>,
    /// Cause of the run.
    pub trigger: Trigger,
    /// Time of the request.
    pub requested_at: Timestamp,
    /// Open or closed.
    pub state: RunStatus,
    /// `open`, or the conclusion: `completed`, `failed`, `timed_out`, `cancelled` or `yielded`.
    pub conclusion: String,
    /// Verdict on the measurements; null without a verdict.
    pub verdict: Option<Verdict>,
    /// Current stage.
    pub stage: Option<Stage>,
    /// The checks, in order of execution; empty for a single benchmark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSummary>,
    /// Time at which the result became final.
    pub settled_at: Option<Timestamp>,
    /// Time at which all resources were released.
    pub closed_at: Option<Timestamp>,
    /// Environment of the measurement, field by field; empty before the verdict.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, String>,
    /// Usage of provisioned clusters; null without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<RunCost>,
    /// Whether the run suspects, drains or re-tests nodes of an existing cluster; null in summaries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_nodes: Option<bool>,
}

/// A named check of a run, with its state and result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckSummary {
    /// Name of the check, unique within the workflow.
    pub name: String,
    /// `waiting`, `running`, `judged`, `failed` (no verdict was reached) or `skipped` (an earlier check that it needs did not
    /// pass) or `excluded` (the workflow declares that it does not run).
    pub state: CheckState,
    /// Verdict of the check; null before it is judged.
    pub verdict: Option<Verdict>,
    /// Codes of the verdict's reasons, most severe first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Declared reason of an excluded check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// Number of passed rounds of a soak. State, verdict and reasons are those of the first round that did not pass, otherwise of
    /// the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_passed: Option<u16>,
}

/// State of a check, from `waiting` to `judged`, `failed` or `skipped`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields of this type document its values")]
pub enum CheckState {
    Waiting,
    Running,
    Judged,
    Failed,
    Skipped,
    Excluded,
}

impl CheckState {
    /// Spelling in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Judged => "judged",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Excluded => "excluded",
        }
    }
}

impl CheckSummary {
    /// The named checks of a run, then those that the workflow excludes; empty for a single benchmark.
    pub fn all(state: &RunState) -> Vec<Self> {
        let named = state.summarized_checks();
        let named = named.filter_map(|check| Some((check, state.workflow.check(check)?)));
        let summary = |(check, named): (CheckIndex, &model::Check)| {
            let reached = state.verdict_of(check);
            let current = state.current_step().is_some_and(|step| step.check == check);
            let began = state.stage(Stage::Job.of(check)).is_some();
            Self {
                name: named.name.clone(),
                state: match reached {
                    Some(_) => CheckState::Judged,
                    None if state.skipped(check) => CheckState::Skipped,
                    None if current && began => CheckState::Running,
                    None if began || state.settled.is_some() => CheckState::Failed,
                    None => CheckState::Waiting,
                },
                verdict: reached.map(|reached| reached.verdict),
                reasons: reached.map_or_else(Vec::new, |reached| {
                    reached.reasons.iter().map(|reason| reason.code.clone()).collect()
                }),
                excluded: None,
                rounds_passed: state.rounds_passed(check),
            }
        };
        let excluded = state.workflow.excluded.iter().map(|(name, reason)| Self {
            name: name.clone(),
            state: CheckState::Excluded,
            verdict: None,
            reasons: Vec::new(),
            excluded: Some(reason.clone()),
            rounds_passed: None,
        });
        named.map(summary).chain(excluded).collect()
    }
}

/// Usage of a run's provisioned clusters: nodes, time and cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCost {
    /// Number of requested nodes.
    pub nodes: u32,
    /// Total time of the clusters, each from its request to its confirmed deletion.
    pub held: Span,
    /// Part of `held` without a running job of the benchmark.
    pub idle: Span,
    /// Cost; absent if the workflow has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Money>,
    /// Currency of `spent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

impl RunCost {
    fn of(state: &RunState) -> Option<Self> {
        let usage = state.usage(state.recorded_at);
        let used = usage.held > Span::default();
        used.then(|| Self {
            nodes: usage.nodes,
            held: usage.held,
            idle: usage.idle(),
            spent: usage.spent,
            currency: state.workflow.cost.as_ref().map(|cost| cost.currency.clone()),
        })
    }
}

impl RunSummary {
    pub fn of(state: &RunState) -> Self {
        let spec = state.workflow.cluster.as_ref();
        let existing = match spec {
            Some(ClusterSpec::Existing { name, .. }) => Some(name.clone()),
            _ => None,
        };
        let settled = state.closed.and(state.settled.as_ref());
        Self {
            run: state.run.clone(),
            workflow: state.workflow.name.clone(),
            system: spec.map(|spec| spec.system().kind().to_owned()),
            cluster: state.cluster().map(|cluster| cluster.name.clone()).or(existing),
            trigger: state.trigger.clone(),
            requested_at: state.requested_at,
            state: if finished(state) { RunStatus::Closed } else { RunStatus::Open },
            conclusion: settled.map_or("open", |(conclusion, _)| conclusion.as_str()).to_owned(),
            verdict: state.verdict().map(|reached| reached.verdict),
            stage: state.current_step().map(|step| step.stage),
            checks: CheckSummary::all(state),
            settled_at: state.settled.as_ref().map(|(_, at)| *at),
            closed_at: state.closed,
            setup: state.worst_check().map(|check| setup(state, check)).unwrap_or_default(),
            cost: RunCost::of(state),
            changes_nodes: Some(changes_nodes(state)),
        }
    }
}

/// Whether the run is evidence against a node of an existing cluster, or re-tests one.
fn changes_nodes(state: &RunState) -> bool {
    let suspects = |check| {
        state.verdict_of(check).is_some_and(|reached| !reached.suspects.is_empty())
            || state.suspects_of(check).is_some_and(|located| !located.nodes.is_empty())
    };
    matches!(state.workflow.cluster, Some(ClusterSpec::Existing { .. }))
        && (state.workflow.retest.is_some() || state.checks().any(suspects))
}

/// Setup of a judged check, without the number of the round of a soak.
pub(crate) fn setup(state: &RunState, check: CheckIndex) -> BTreeMap<String, String> {
    let mut setup = state.verdict_of(check).map(|reached| reached.fingerprint.clone()).unwrap_or_default();
    if let (Some(name), Some(named)) = (setup.get_mut("check"), state.workflow.check(check)) {
        name.clone_from(&named.name);
    }
    setup
}

/// Whether the run has no pending work. Only a reappearing cluster adds work, and the conductor then writes a hint.
pub(crate) fn finished(state: &RunState) -> bool {
    state.closed.is_some() && state.leases_returned()
}
