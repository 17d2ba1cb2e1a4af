//! `burnin retest`: runs the checks of a cluster on nodes that are out of service, with good partners.

use std::collections::BTreeSet;

use model::{AfterPass, ClusterSpec, Every, ImageSpec, Retest, Workflow, count};
use run_index::{NodeHistory, NodeState, Nodes};
use workflow::Resolved;

use crate::{
    args::Output,
    commands::{run, status},
    exit::{CliError, Exit},
    local::DataFolder,
};

/// Reads all judged runs: no run measures a node after it is drained, so its last run may be old.
const RUNS: usize = usize::MAX;

pub struct RetestRequest {
    pub nodes: Vec<String>,
    pub cluster: Option<String>,
    pub partners: Option<usize>,
    pub return_after_pass: bool,
}

/// Re-tests nodes and prints the result of the run. `given`: workflow with the checks; default: the workflow of the last run.
pub async fn retest(
    data: DataFolder,
    request: &RetestRequest,
    given: Option<Resolved>,
    output: Output,
) -> Result<Exit, CliError> {
    let known =
        data.run_index().nodes(request.cluster.as_deref(), RUNS).await.map_err(CliError::infrastructure)?;
    let chosen = chosen(&known, request)?;
    let Resolved { workflow: source, archives, warnings } = match given {
        Some(given) => given,
        None => {
            let (_, state) = data.state(&chosen[0].last_run).await?;
            let mut workflow = state.workflow.clone();
            // Use the image of the last run instead of building it again.
            workflow.image = state.image().map(|image| ImageSpec::Prebuilt(image.clone())).or(workflow.image);
            Resolved { workflow, archives: vec![], warnings: vec![] }
        }
    };
    let partners = partners(&known, &chosen, &source, request);
    let workflow =
        retest_workflow(source, &chosen[0].cluster, request, &partners).map_err(CliError::usage)?;
    status(format_args!(
        "re-test of {} with {}",
        request.nodes.join(", "),
        match partners.as_slice() {
            [] => "no partner".to_owned(),
            partners => partners.join(", "),
        }
    ));
    run::begin(data, Resolved { workflow, archives, warnings }, output).await
}

/// The histories of the named nodes, which must belong to one cluster.
fn chosen<'a>(known: &'a Nodes, request: &'a RetestRequest) -> Result<Vec<&'a NodeHistory>, CliError> {
    for (place, node) in request.nodes.iter().enumerate() {
        if request.nodes[..place].contains(node) {
            return Err(CliError::usage(format!("{node} is given twice; name each node once")));
        }
        if matching(known, node).next().is_none() {
            let why = "not measured by a judged run on an existing cluster; `burnin nodes --all` lists the known nodes";
            return Err(CliError::usage(format!("{node}: {why}")));
        }
    }
    let clusters_of =
        |node: &'a String| matching(known, node).map(|it| it.cluster.as_str()).collect::<BTreeSet<_>>();
    let common = request.nodes.iter().map(clusters_of).reduce(|one, other| &one & &other).unwrap_or_default();
    let common: Vec<_> = common.into_iter().collect();
    match common.as_slice() {
        [cluster] => {
            let of_cluster = |node: &'a String| matching(known, node).find(|it| it.cluster == *cluster);
            Ok(request.nodes.iter().filter_map(of_cluster).collect())
        }
        [] => {
            let nodes = request.nodes.join(", ");
            Err(CliError::usage(format!(
                "{nodes}: these nodes belong to several clusters; re-test each cluster separately"
            )))
        }
        several => {
            let (nodes, clusters) = (request.nodes.join(", "), several.join(", "));
            Err(CliError::usage(format!(
                "{nodes}: found in several clusters; name one with --cluster: {clusters}"
            )))
        }
    }
}

/// The nodes of this name, one for each cluster.
fn matching<'a>(known: &'a Nodes, name: &'a str) -> impl Iterator<Item = &'a NodeHistory> {
    known.nodes.iter().filter(move |node| node.node == name)
}

/// The good partners of the chosen nodes, at most as many as requested or needed for the workflow.
fn partners(
    known: &Nodes,
    chosen: &[&NodeHistory],
    source: &Workflow,
    request: &RetestRequest,
) -> Vec<String> {
    let nodes = source.cluster.as_ref().map_or(0, |cluster| cluster.system().nodes()) as usize;
    let wanted = request.partners.unwrap_or_else(|| nodes.saturating_sub(chosen.len()).max(1));
    let is_partner = |node: &&NodeHistory| {
        let good = matches!(node.state, NodeState::Good | NodeState::Returned);
        good && node.cluster == chosen[0].cluster && !request.nodes.contains(&node.node)
    };
    known.nodes.iter().filter(is_partner).take(wanted).map(|node| node.node.clone()).collect()
}

/// The checks of `source` on the nodes and their partners.
///
/// They omit the soak, which may last up to 168 hours, and the search for bad nodes, because the verdict decides about the named
/// nodes.
fn retest_workflow(
    source: Workflow,
    cluster: &str,
    request: &RetestRequest,
    partners: &[String],
) -> Result<Workflow, String> {
    let Some(ClusterSpec::Existing { system, name }) = &source.cluster else {
        return Err(format!(
            "{}: expected a workflow on the existing cluster {cluster}; name one with --workflow",
            source.name
        ));
    };
    if name != cluster {
        return Err(format!(
            "{}: expected a workflow on {cluster}, found one on {name}; name another with --workflow",
            source.name
        ));
    }
    let every =
        |check| source.benchmark_of(check).map(|it| it.program.command().map(|command| command.every));
    let measures = |wanted: fn(Option<Every>) -> bool| source.check_indices().filter_map(every).any(wanted);
    let next = "add one to the workflow, or name another workflow on this cluster with --workflow";
    if !measures(|every| every == Some(Every::Node)) {
        return Err(format!("{}: no check measures a node alone (`every: node`); {next}", source.name));
    }
    if !measures(|every| every != Some(Every::Node)) {
        return Err(format!(
            "{}: no check measures a node with partners, such as a collective; {next}",
            source.name
        ));
    }
    if partners.is_empty() {
        return Err(format!(
            "{cluster}: no other node is good or returned, so {} cannot be re-tested with a good partner; see `burnin nodes --all`",
            request.nodes.join(", ")
        ));
    }
    let system = clusters::for_retest(system, &request.nodes, partners)
        .map_err(|problem| format!("{cluster}: {problem}"))?;
    let after_pass = if request.return_after_pass { AfterPass::Return } else { AfterPass::Propose };
    Ok(Workflow {
        description: format!("re-test of {}", count(request.nodes.len() as u64, "node")),
        cluster: Some(ClusterSpec::Existing { system, name: cluster.to_owned() }),
        retest: Some(Retest { nodes: request.nodes.clone(), after_pass }),
        soak: None,
        locate: None,
        ..source
    })
}
