//! What a run was made of: the things one copies out of a report.

use serde::Serialize;
use terms::{ClusterSpec, ImageSpec};

use crate::{Story, text, words};

/// Nodes and files that are named one by one.
const NAMED: usize = 32;

/// A named value.
#[derive(Serialize)]
pub struct Detail {
    name: &'static str,
    value: String,
    /// To be copied rather than read.
    code: bool,
}

/// Everything known, in the order of a run.
pub fn details(story: &Story<'_>) -> Vec<Detail> {
    let state = story.state;
    let mut details = Vec::new();
    let mut add = |name, value: Option<String>, code| {
        details.extend(value.filter(|value| !value.is_empty()).map(|value| Detail { name, value, code }));
    };
    let workflow = &state.workflow;
    add("workflow", Some(words::because(&workflow.name, &workflow.description)), false);
    add("trigger", Some(format!("{} by {}", state.trigger.kind, state.trigger.by)), false);
    add("requested", Some(text::moment(state.requested_at)), false);
    add("settled", state.settled.as_ref().map(|(_, at)| text::moment(*at)), false);
    add("closed", state.closed.map(text::moment), false);
    if let Some(ImageSpec::Build(build)) = &workflow.image {
        add(
            "source",
            build.source.as_ref().map(|source| format!("{} {}", source.object, source.sha256)),
            true,
        );
    }
    if let Some(image) = state.image() {
        add("image", Some(image.reference.clone()), true);
        add("image digest", Some(image.digest.clone()), true);
        let files = image.files.iter().map(|file| format!("{} ({})", file.name, text::size(file.size_bytes)));
        add("image files", Some(listed(files)), false);
    }
    if let Some(cluster) = state.cluster() {
        let held = match &workflow.cluster {
            Some(ClusterSpec::Rent(_)) => "rented for this run",
            _ => "already there",
        };
        add("cluster", Some(format!("{}, {held}", cluster.name)), false);
        let nodes = cluster.nodes.iter().map(|node| match node.slots {
            1 => node.name.clone(),
            slots => format!("{} ({slots} slots)", node.name),
        });
        add("nodes", Some(format!("{}: {}", cluster.nodes.len(), listed(nodes))), false);
        add("endpoint", Some(cluster.endpoint.clone()), true);
    }
    add("benchmark", workflow.benchmark.as_ref().map(|it| words::workload(&it.workload)), true);
    add("job", state.job().map(words::job), false);
    if let Some(logs) = state.logs() {
        add("logs manifest", Some(logs.manifest.clone()), true);
        add("manifest sha256", Some(logs.sha256.clone()), true);
    }
    if let Some(results) = state.results() {
        add("results", Some(format!("{} in {}", text::count(results.rows, "row"), results.table)), false);
        add("load", Some(results.load.clone()), true);
    }
    if let Some(benchmark) = &workflow.benchmark {
        let criteria = &benchmark.criteria;
        add(
            "criteria",
            Some(words::because(&criteria.name, criteria.source.as_deref().unwrap_or(""))),
            false,
        );
    }
    if let Some(reached) = state.verdict() {
        add("criteria digest", Some(reached.criteria.clone()), true);
        add("log sha256", reached.log_sha256.clone(), true);
        add("verdict object", Some(reached.object.clone()), true);
    }
    details
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut listed: Vec<_> = names.take(NAMED).collect();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join(", ")
}
