//! `burnin check` and `plan`: check a workflow, and print the stages and resources of a run.

use std::{fmt::Write, path::Path};

use cluster_deployed::Deployed;
use model::{
    BuildSpec, ChannelNotify, ClusterCost, ClusterSpec, DEPLOYED, Every, GithubNotify, ImageSpec, Notify,
    OutputFormat, PROCESSES, Program, Span, Stage, System, Timestamp, Workflow,
};
use service::{Clock, SystemClock};
use workflow::{FileProblem, Override, Resolved, SourceArchive, WorkflowHeader};

use crate::{
    commands::{note_styled, print_plain},
    diagnostics::{self, ProblemSeverity},
    exit::{CliError, Exit},
    output::{self, wrapped},
};

/// Checks a workflow and the files that it references.
pub fn check(path: &Path, values: Option<&Path>, set: &[Override], strict: bool) -> Result<Exit, CliError> {
    let Resolved { workflow, warnings, .. } =
        workflow::resolve_with_values(path, values, set).map_err(CliError::files)?;
    if strict && !warnings.is_empty() {
        return Err(CliError::files(workflow::FileProblems(warnings)));
    }
    warn(&warnings);
    print_plain(&format!("{}: workflow {} is feasible\n", path.display(), workflow.name));
    Ok(Exit::Pass)
}

/// Prints warnings on standard error.
pub fn warn(warnings: &[FileProblem]) {
    if !warnings.is_empty() {
        note_styled(&diagnostics::rendered(
            warnings,
            ProblemSeverity::Warning,
            output::colours(&std::io::stderr()),
        ));
    }
}

pub fn plan(path: &Path, values: Option<&Path>, set: &[Override]) -> Result<Exit, CliError> {
    let Resolved { workflow, archives, warnings } =
        workflow::resolve_with_values(path, values, set).map_err(CliError::files)?;
    warn(&warnings);
    let mut text = format!("{}\n", workflow.name);
    if !workflow.description.is_empty() {
        text += &wrapped("", workflow.description.trim());
    }
    for PlanLine { stage, limit, what } in steps(&workflow, &archives) {
        let limit = match limit {
            StepLimit::OfStage => format!("at most {}", workflow.limits.of(stage)),
            StepLimit::OfCheck(limit) => format!("at most {limit}"),
            StepLimit::NotRun => "not run".to_owned(),
        };
        text += &wrapped(&format!("  {stage:<8} {limit:<16} "), &what);
    }
    let mut rest = resources_text(&workflow);
    rest += &costs(&workflow);
    rest += &notify_text(&workflow.notify);
    rest += &starts(&workflow::read_header(path).map_err(CliError::files)?, SystemClock.now());
    rest.lines().for_each(|line| text += &wrapped("", line));
    print_plain(&text);
    Ok(Exit::Pass)
}

/// Channels that `burnin up` or the notifier would notify, and the events that cause a notice.
fn notify_text(notify: &[Notify]) -> String {
    let lines = notify.iter().map(|entry| match entry {
        Notify::Github(GithubNotify { status, check }) => {
            let marks = [(*status, "status"), (*check, "check")];
            let marks: Vec<_> =
                marks.into_iter().filter(|(enabled, _)| *enabled).map(|(_, mark)| mark).collect();
            format!("Notifies GitHub: {} of the commit whose push starts the run.\n", marks.join(" and "))
        }
        Notify::Channel(ChannelNotify { kind, name, on, .. }) => {
            let title = channels::kind(kind).map_or(kind.as_str(), |kind| kind.form().title);
            let on: Vec<_> = on.iter().map(|news| news.as_str()).collect();
            format!("Notifies {title} {name}: {}.\n", on.join(", "))
        }
    });
    lines.collect()
}

/// Triggers that `burnin up` or the gateway would serve, and the next scheduled start.
fn starts(offered: &WorkflowHeader, now: Timestamp) -> String {
    let on = &offered.on;
    let mut text = String::new();
    for push in &on.push {
        let refs = [push.branches.as_slice(), &push.tags].concat();
        let refs = if refs.is_empty() { "any branch".to_owned() } else { refs.join(", ") };
        _ = writeln!(text, "Starts automatically: pushes to {}, {refs}.", push.repository);
    }
    for schedule in &on.schedule {
        let next = schedule.read().ok().and_then(|zoned| zoned.next(now));
        let next = next.map_or_else(|| "never".to_owned(), output::display_time);
        _ = writeln!(text, "Starts automatically: {} in {}, next at {next}.", schedule.cron, schedule.zone);
    }
    for build in &on.build {
        _ = writeln!(text, "Starts automatically: successful builds of the trigger {}.", build.trigger);
    }
    for cluster in &on.cluster {
        let (system, name, source) = (cluster.system, &cluster.name, &cluster.source);
        _ = writeln!(text, "Starts automatically: {system} clusters named {name} offered by {source}.");
    }
    if !offered.parameters.is_empty() {
        _ = writeln!(text, "API requests may override: {}.", offered.parameters.join(", "));
    }
    text
}

struct PlanLine {
    stage: Stage,
    limit: StepLimit,
    what: String,
}

enum StepLimit {
    OfStage,
    OfCheck(Span),
    NotRun,
}

impl PlanLine {
    const fn new(stage: Stage, what: String) -> Self {
        Self { stage, limit: StepLimit::OfStage, what }
    }
}

fn steps(workflow: &Workflow, archives: &[SourceArchive]) -> Vec<PlanLine> {
    let mut steps = Vec::new();
    match &workflow.image {
        Some(ImageSpec::Build(build)) => {
            steps.push(PlanLine::new(Stage::Image, described(build, archives)));
        }
        Some(ImageSpec::Prebuilt(image)) => {
            steps.push(PlanLine::new(Stage::Image, format!("nothing to build: {}", image.digest)))
        }
        None => {}
    }
    match &workflow.cluster {
        Some(ClusterSpec::Provisioned(system)) if system.kind() == PROCESSES => {
            let nodes = system.nodes();
            steps.push(PlanLine::new(
                Stage::Cluster,
                format!("{nodes} local processes, one per node, provisioned"),
            ));
        }
        Some(ClusterSpec::Provisioned(system)) => {
            let Some(deployed) = Deployed::of(system) else { return steps };
            let nodes = system.nodes();
            let kind = deployed.system.kind();
            let deploy = described(&deployed.deploy, archives);
            let destroy = described(&deployed.destroy, archives);
            let what = format!(
                "a {kind} cluster of {}: deployed by a {deploy}; destroyed by a {destroy}",
                report::count(nodes, "node")
            );
            steps.push(PlanLine::new(Stage::Cluster, what));
        }
        Some(ClusterSpec::Existing { name, .. }) => {
            steps.push(PlanLine::new(Stage::Cluster, format!("{name}, existing cluster, not released")))
        }
        None => {}
    }
    steps.extend(checks(workflow));
    steps
}

/// Steps of the single benchmark, or of all checks.
fn checks(workflow: &Workflow) -> Vec<PlanLine> {
    let mut steps = Vec::new();
    for check in workflow.check_indices() {
        let Some(benchmark) = workflow.benchmark_of(check) else { continue };
        let mut what = described_program(&benchmark.program);
        let mut limit = StepLimit::OfStage;
        if let Some(named) = workflow.check(check) {
            what = format!("{}: {what}, by the criteria {}", named.name, benchmark.criteria.name);
            limit = named.limit.map_or(limit, StepLimit::OfCheck);
            let variables: Vec<_> =
                benchmark.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
            if !variables.is_empty() {
                what += &format!(", with {}", variables.join(" "));
            }
            if !named.needs.is_empty() {
                what += &format!(", if {} passed", named.needs.join(" and "));
            }
        }
        steps.push(PlanLine { stage: Stage::Job, limit, what });
    }
    if let Some(soak) = &workflow.soak {
        let what = format!(
            "then all checks again, round after round, until {} have passed or a check does not pass",
            soak.duration
        );
        steps.push(PlanLine::new(Stage::Job, what));
    }
    for (name, reason) in &workflow.excluded {
        let what = format!("{name}: {}", report::single_line(reason));
        steps.push(PlanLine { stage: Stage::Job, limit: StepLimit::NotRun, what });
    }
    let Some(benchmark) = workflow.benchmark_of(model::CheckIndex::FIRST) else { return steps };
    steps.push(PlanLine::new(
        Stage::Logs,
        "upload the output of every node to the bucket, manifest last".to_owned(),
    ));
    if workflow.checks.is_empty() {
        steps.push(PlanLine::new(Stage::Verdict, format!("by the criteria {}", benchmark.criteria.name)));
    }
    if let Some(locate) = &workflow.locate {
        let nodes = workflow.cluster.as_ref().map_or(0, |cluster| cluster.system().nodes());
        let tests = locate.tests.unwrap_or(4 * nodes);
        let what = format!(
            "if the verdict is fail: test at most {} of nodes to find the bad node",
            report::count(tests, "pair")
        );
        steps.push(PlanLine::new(Stage::Locate, what));
    }
    let benchmarks = workflow.check_indices().filter_map(|check| workflow.benchmark_of(check));
    let workloads = benchmarks.filter_map(|benchmark| benchmark.program.workload());
    let rows: usize = workloads.map(|workload| 2 * workload.sizes().len()).sum();
    let rows = if rows > 0 {
        format!("at most {}", report::count(rows as u64, "row"))
    } else {
        "the measurements".to_owned()
    };
    steps.push(PlanLine::new(Stage::Results, format!("load {rows} into the warehouse")));
    steps
}

/// Program and measured quantity.
fn described_program(program: &Program) -> String {
    match program {
        Program::NcclTests(workload) => {
            let sizes = workload.sizes();
            let range = |size: Option<&u64>| size.map_or_else(String::new, |size| report::size(*size));
            format!(
                "{}, {} from {} to {}, {}",
                workload.collective.as_str(),
                report::count(sizes.len() as u64, "size"),
                range(sizes.first()),
                range(sizes.last()),
                report::count(workload.iterations, "iteration")
            )
        }
        Program::Command(command) => {
            let every = match command.every {
                Every::Node => "on each node",
                Every::Rank => "for each rank",
                Every::Pair => "on pairs of nodes",
            };
            let read = match &command.read {
                OutputFormat::Format(name) => format!("read as {name}"),
                OutputFormat::Declared(_) => "read as the workflow declares".to_owned(),
            };
            format!("`{}` {every}, {read}", report::single_line(&command.argv.join(" ")))
        }
    }
}

fn described(build: &BuildSpec, archives: &[SourceArchive]) -> String {
    let count = build.config["steps"].as_array().map_or(0, Vec::len);
    let archive = build.source.as_ref().and_then(|source| {
        archives.iter().find(|archive| archive.object == source.object).map(|archive| archive.bytes.len())
    });
    let source = archive
        .map_or_else(String::new, |bytes| format!(", source archive of {}", report::size(bytes as u64)));
    format!("build config of {}{source}", report::count(count as u64, "step"))
}

/// Resources that exist during a run, and their maximum lifetime.
fn resources_text(workflow: &Workflow) -> String {
    let limits = &workflow.limits;
    let locate =
        workflow.locate.map_or(Default::default(), |_| limits.verdict.0 + limits.locate.0 + limits.grace.0);
    let each = |check| workflow.job_limit(check).0 + limits.logs.0 + limits.grace.0;
    let jobs: std::time::Duration = workflow.check_indices().map(each).sum();
    let jobs = if workflow.check_count() == 0 { limits.job.0 + limits.logs.0 + limits.grace.0 } else { jobs };
    let longest = limits.cluster.0 + jobs + locate + limits.grace.0 * 2;
    match &workflow.cluster {
        Some(ClusterSpec::Provisioned(system)) => {
            let ends = match system.kind() {
                DEPLOYED => "sweeps delete the cluster after the lifetime that its build steps received:",
                _ => "the cluster expires after",
            };
            format!(
                "Resources: one cluster at a time, at most {} of them, each for at most {}.\n\
                 If every service fails, {ends} {}.\n",
                limits.attempts,
                Span(longest.min(limits.lease.0)),
                limits.lease,
            )
        }
        _ => "Resources: none that must be released.\n".to_owned(),
    }
}

/// Cost of the parts that later runs use. A run that reuses them adds no cost.
fn kept_parts(system: &System, cost: &ClusterCost) -> String {
    let keep = Deployed::of(system).map(|deployed| deployed.keep).unwrap_or_default();
    let Some(longest) = keep.values().max() else { return String::new() };
    let parts: Vec<_> = keep.keys().map(String::as_str).collect();
    let price = match cost.kept_hour {
        Some(hour) => format!("at most {} {}", hour.for_hours_of(1, *longest), cost.currency),
        None => "at an unknown price (cost.kept_hour)".to_owned(),
    };
    format!(
        "Kept for later runs: {} for {longest}, {price}; `burnin sweep --release` deletes them earlier.\n",
        parts.join(", ")
    )
}

/// Line with the maximum cost of a run.
fn costs(workflow: &Workflow) -> String {
    let Some((cost, most)) = workflow.cost.as_ref().zip(lifecycle::max_cost(workflow)) else {
        return "Cost: unknown; the workflow sets no price (cost.node_hour).\n".to_owned();
    };
    let Some(ClusterSpec::Provisioned(system)) = &workflow.cluster else {
        return "Cost: nothing; the run provisions no cluster.\n".to_owned();
    };
    let (nodes, currency) = (system.nodes(), &cost.currency);
    let mut text = format!(
        "Cost: at most {most} {currency} ({} at {} per hour each).\n",
        report::count(nodes, "node"),
        cost.node_hour
    );
    text += &kept_parts(system, cost);
    let stopped = cost.budget.and_then(|budget| budget.pays_for(nodes, cost.node_hour));
    if let (Some(budget), Some(after)) = (cost.budget, stopped) {
        let grace = workflow.limits.grace;
        let after = Span(after.0.saturating_sub(grace.0));
        text += &format!(
            "The budget of {budget} covers {} of the cluster: a run that still uses the cluster after {after} is stopped.\n",
            Span(after.0 + grace.0)
        );
    }
    text
}
