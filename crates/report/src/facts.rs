//! Details of a run, for reference and copying.

use std::{collections::BTreeMap, time::Duration};

use model::{ClusterSpec, ImageSpec, Timestamp, measurement::Device};
use serde::Serialize;

use crate::{ReportInput, ReportedRun, fact_texts, rounds, text};

/// Maximum number of listed nodes and files.
const NAMED: usize = 32;

#[derive(Serialize)]
pub struct NamedValue {
    name: &'static str,
    value: String,
    /// Whether the value is shown as code, because readers copy it, such as a path or a digest.
    code: bool,
    /// The value in machine-readable form, if it is a time.
    time: Option<String>,
}

/// All known details, in the order of the stages.
pub fn details(input: &ReportInput<'_>) -> Vec<NamedValue> {
    let mut details = input.run.map_or_else(Vec::new, |run| of_run(&run));
    let mut add = |name, value: Option<String>| {
        details.extend(value.filter(|value| !value.is_empty()).map(|value| NamedValue {
            name,
            value,
            code: false,
            time: None,
        }));
    };
    let table = input.logs.first().and_then(|log| log.reading.tables.first());
    add("devices", table.map(|table| devices(&table.devices)));
    if let Some(criteria) = input.standard.criteria {
        add(
            "criteria",
            Some(fact_texts::with_reason(&criteria.name, criteria.source.as_deref().unwrap_or(""))),
        );
    }
    let baseline = input.standard.baseline;
    add(
        "baseline",
        baseline.map(|baseline| format!("learned from {}", text::count(baseline.runs, "healthy run"))),
    );
    details
}

fn of_run(run: &ReportedRun<'_>) -> Vec<NamedValue> {
    let state = run.state;
    let workflow = &state.workflow;
    let named = |name, value: Option<String>, code| {
        let value = value.filter(|value| !value.is_empty());
        value.map(|value| NamedValue { name, value, code, time: None })
    };
    let time_value = |name, at: Option<Timestamp>| {
        let (value, time) = (text::utc(at?), Some(at?.to_string()));
        Some(NamedValue { name, value, code: false, time })
    };
    let first = [
        named("workflow", Some(fact_texts::with_reason(&workflow.name, &workflow.description)), false),
        named("trigger", Some(state.trigger.to_string()), false),
        time_value("requested", Some(state.requested_at)),
        time_value("settled", state.settled.as_ref().map(|(_, at)| *at)),
        time_value("closed", state.closed),
    ];
    let mut details: Vec<_> = first.into_iter().flatten().collect();
    let mut add = |name, value: Option<String>, code| details.extend(named(name, value, code));
    if let Some(ImageSpec::Build(build)) = &workflow.image {
        add("source", build.source.as_ref().map(|source| source.object.clone()), true);
        add("source sha256", build.source.as_ref().map(|source| source.sha256.clone()), true);
    }
    if let Some(image) = state.image() {
        add("image", Some(image.reference.clone()), true);
        add("image digest", Some(image.digest.clone()), true);
        let files = image.files.iter().map(|file| format!("{} ({})", file.name, text::size(file.size_bytes)));
        add("image files", Some(listed(files)), false);
    }
    if let Some(cluster) = state.cluster() {
        let held = match &workflow.cluster {
            Some(ClusterSpec::Provisioned(_)) => "provisioned for this run",
            _ => "existing",
        };
        add("cluster", Some(format!("{}, {held}", cluster.name)), false);
        let named = |name: &str| cluster.nodes.iter().find(|node| node.name == name);
        let names = state.node_names();
        let nodes = names.iter().map(|name| match named(name).map(|node| node.slots) {
            None | Some(1) => (*name).to_owned(),
            Some(slots) => format!("{name} ({slots} slots)"),
        });
        let nodes = if names.is_empty() { "chosen by the scheduler".to_owned() } else { listed(nodes) };
        add("nodes", Some(format!("{}: {nodes}", cluster.nodes.len())), false);
        add("endpoint", Some(cluster.access.to_string()), true);
    }
    add("benchmark", workflow.benchmark.as_ref().map(|it| fact_texts::program(&it.program)), true);
    add("soak", rounds::progress(state), false);
    for check in state.summarized_checks() {
        let Some(named) = workflow.check(check) else { continue };
        let verdict = match state.verdict_of(check) {
            Some(reached) => reached.verdict.to_string(),
            None if state.skipped(check) => format!("skipped: needs {}", named.needs.join(", ")),
            None => "no verdict".to_owned(),
        };
        let program = fact_texts::program(&named.benchmark.program);
        add("check", Some(format!("{}: {verdict}: {program}", text::single_line(&named.name))), true);
    }
    let shown = run.shown_check();
    if let Some(logs) = state.logs_of(shown) {
        add("logs manifest", Some(logs.manifest.clone()), true);
        add("manifest sha256", Some(logs.sha256.clone()), true);
    }
    add("load", state.results_of(shown).map(|results| results.load.clone()), true);
    if let Some(reached) = state.verdict_of(shown) {
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

/// `8 × NVIDIA H200`: counted device names.
fn devices(devices: &[Device]) -> String {
    let mut counts = BTreeMap::new();
    for name in devices.iter().filter_map(|device| device.name.as_deref()) {
        *counts.entry(name).or_insert(0_u32) += 1;
    }
    listed(counts.into_iter().map(|(name, count)| format!("{count} × {name}")))
}

/// Usage of provisioned clusters: time, idle time and cost.
pub fn costs(input: &ReportInput<'_>) -> Vec<NamedValue> {
    let Some(run) = input.run else { return Vec::new() };
    let usage = run.state.usage(run.state.recorded_at);
    if usage.held.0 == Duration::ZERO {
        return Vec::new();
    }
    let node_hours = usage.held.0.as_secs_f64() * f64::from(usage.nodes) / 3600.0;
    let part = 100.0 * usage.idle().0.as_secs_f64() / usage.held.0.as_secs_f64();
    let detail = |name, value| NamedValue { name, value, code: false, time: None };
    let held = format!(
        "{} of {}, {node_hours:.2} node hours",
        text::duration(usage.held),
        text::count(usage.nodes, "node")
    );
    let idle = format!("{}, {part:.0} % of it", text::duration(usage.idle()));
    let spent = spent(&run).map(|spent| detail("spent", spent));
    [detail("clusters held", held), detail("idle", idle)].into_iter().chain(spent).collect()
}

/// The cost, if the workflow states a price.
fn spent(run: &ReportedRun<'_>) -> Option<String> {
    let cost = run.state.workflow.cost.as_ref()?;
    let spent = run.state.usage(run.state.recorded_at).spent?;
    let budget = cost.budget.map_or_else(String::new, |budget| format!(" of a budget of {budget}"));
    Some(format!("{spent} {}{budget}, {} per node hour", cost.currency, cost.node_hour))
}
