//! The nodes of existing clusters: states with dates and evidence.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    response::Response,
};
use run_index::{NodeChange, NodeHistory, NodeState};
use serde::{Deserialize, Serialize};

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    times::DisplayTime,
};

/// Number of newest judged runs that are read. Older runs are read if they suspected, drained or re-tested nodes.
const RUNS: usize = 300;

#[derive(Deserialize)]
pub struct NodesQuery {
    cluster: Option<String>,
}

#[derive(Serialize)]
struct NodesPage {
    cluster: Option<String>,
    /// Number of nodes.
    count: usize,
    /// Number of judged runs that were read.
    runs: u64,
    /// Number of older judged runs that were not read.
    older_runs: u64,
    /// Nodes that are not good, worst first.
    nodes: Vec<NodeRow>,
    good: Vec<NodeRow>,
}

#[derive(Serialize)]
struct NodeRow {
    node: String,
    cluster: String,
    state: String,
    tone: &'static str,
    runs: u64,
    /// All changes, newest first.
    changes: Vec<ChangeRow>,
}

#[derive(Serialize)]
struct ChangeRow {
    at: DisplayTime,
    run: String,
    state: String,
    evidence: String,
}

/// Handler of `GET /nodes`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Query(query): Query<NodesQuery>,
) -> Result<Response, ErrorPage> {
    let cluster = query.cluster.filter(|name| !name.is_empty());
    let nodes = dashboard.run_index.nodes(cluster.as_deref(), RUNS).await?;
    let now = dashboard.clock.now();
    let change = |change: &NodeChange| ChangeRow {
        at: DisplayTime::of(change.at, now),
        run: change.run.to_string(),
        state: change.state.to_string(),
        evidence: change.evidence.join("; "),
    };
    let row = |node: &NodeHistory| NodeRow {
        node: node.node.clone(),
        cluster: node.cluster.clone(),
        state: node.state.to_string(),
        tone: tone(node.state),
        runs: node.runs,
        changes: node.changes.iter().rev().map(change).collect(),
    };
    let (good, others): (Vec<_>, Vec<_>) = nodes.nodes.iter().partition(|node| node.state == NodeState::Good);
    let data = NodesPage {
        cluster,
        count: nodes.nodes.len(),
        runs: nodes.runs,
        older_runs: nodes.older_runs,
        nodes: others.into_iter().map(row).collect(),
        good: good.into_iter().map(row).collect(),
    };
    Ok(frame::page(dashboard.beside_gateway, "Nodes", "nodes.html", data))
}

const fn tone(state: NodeState) -> &'static str {
    match state {
        NodeState::FailedAgain | NodeState::Drained => "bad",
        NodeState::InRetest | NodeState::Suspected => "unsure",
        NodeState::Returned | NodeState::Good => "good",
    }
}
