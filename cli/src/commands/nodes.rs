//! `burnin nodes`: the nodes of existing clusters with their states, dates and evidence.

use comfy_table::{Table, presets};
use model::count;
use run_index::{NodeState, Nodes};

use crate::{
    args::Output,
    commands::{print, print_json},
    exit::{CliError, Exit},
    local::DataFolder,
    output::display_time,
};

/// Prints the nodes. Exit code 1 if a node is neither good nor returned, 2 if no node is known.
pub async fn nodes(
    data: DataFolder,
    cluster: Option<&str>,
    limit: usize,
    all: bool,
    output: Output,
) -> Result<Exit, CliError> {
    let nodes = data.run_index().nodes(cluster, limit).await.map_err(CliError::infrastructure)?;
    match output {
        Output::Json => print_json(&nodes),
        Output::Human => print(&text(&nodes, cluster, all)),
    }
    let is_bad = |state| !matches!(state, NodeState::Good | NodeState::Returned);
    Ok(if nodes.nodes.is_empty() {
        Exit::Inconclusive
    } else if nodes.nodes.iter().any(|node| is_bad(node.state)) {
        Exit::Fail
    } else {
        Exit::Pass
    })
}

fn text(nodes: &Nodes, cluster: Option<&str>, all: bool) -> String {
    let of = cluster.map_or_else(String::new, |name| format!(" of {name}"));
    if nodes.nodes.is_empty() {
        return format!(
            "no judged run on nodes{of}; only nodes of existing clusters are listed; see `burnin runs`\n"
        );
    }
    let shown: Vec<_> = nodes.nodes.iter().filter(|node| all || node.state != NodeState::Good).collect();
    let good = nodes.nodes.iter().filter(|node| node.state == NodeState::Good).count() as u64;
    let total = count(nodes.nodes.len() as u64, "node");
    let mut text = format!("{total}{of}, {good} good, by {}", count(nodes.runs, "run"));
    if nodes.older_runs > 0 {
        let older = count(nodes.older_runs, "older run");
        text += &format!(" ({older} not read; see --last)");
    }
    text.push('\n');
    if shown.is_empty() {
        return text;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["node", "cluster", "state", "since", "run", "evidence"]);
    for node in shown {
        let Some(change) = node.changes.last() else { continue };
        table.add_row([
            report::single_line(&node.node),
            report::single_line(&node.cluster),
            node.state.to_string(),
            display_time(change.at),
            change.run.to_string(),
            report::shortened_line(&change.evidence.join("; "), EVIDENCE),
        ]);
    }
    format!("{text}{table}\n")
}

/// Maximum width of the evidence, columns.
const EVIDENCE: usize = 60;
