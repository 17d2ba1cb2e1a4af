//! A run on one line.

use std::collections::BTreeMap;

use lifecycle::RunState;
use model::{ClusterSpec, Money, RunId, Span, Stage, Timestamp, Trigger, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a run still goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It owes its caller an answer, or has not given everything back.
    Open,
    /// The answer is settled and everything is given back.
    Closed,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The run.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// The kind of cluster it runs on: `processes`, `slurm`, `deployed`; null where it needs none.
    pub system: Option<String>,
    /// The cluster's name in its own world; null until it has one.
    pub cluster: Option<String>,
    /// What caused it.
    pub trigger: Trigger,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// Whether it still goes on.
    pub state: State,
    /// `open`, or how it ended: `completed`, `failed`, `timed_out` or `cancelled`.
    pub conclusion: String,
    /// What the measurements said.
    pub verdict: Option<Verdict>,
    /// The stage whose turn it is.
    pub stage: Option<Stage>,
    /// When the answer was settled.
    pub settled_at: Option<Timestamp>,
    /// When everything was given back as well.
    pub closed_at: Option<Timestamp>,
    /// What it was measured on, field by field; empty until it was judged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, String>,
    /// What it used of clusters that were rented for it; null where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What a run used of clusters that were rented for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Nodes of its cluster.
    pub nodes: u32,
    /// How long clusters were held: from being asked for to being confirmed gone.
    pub held: Span,
    /// How long of it nothing was measured.
    pub idle: Span,
    /// What that cost, where the workflow names a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Money>,
    /// In what it is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

impl Cost {
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

impl Line {
    /// The line of a run.
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
            system: spec.map(|spec| spec.system().name().to_owned()),
            cluster: state.cluster().map(|cluster| cluster.name.clone()).or(existing),
            trigger: state.trigger.clone(),
            requested_at: state.requested_at,
            state: if finished(state) { State::Closed } else { State::Open },
            conclusion: settled.map_or("open", |(conclusion, _)| conclusion.as_str()).to_owned(),
            verdict: state.verdict().map(|reached| reached.verdict),
            stage: state.frontier(),
            settled_at: state.settled.as_ref().map(|(_, at)| *at),
            closed_at: state.closed,
            setup: state.verdict().map(|reached| reached.fingerprint.clone()).unwrap_or_default(),
            cost: Cost::of(state),
        }
    }
}

/// Nothing is owed any more. Only a cluster that comes back could change that, and it leaves a hint.
pub(crate) fn finished(state: &RunState) -> bool {
    state.closed.is_some() && state.leases_returned()
}
