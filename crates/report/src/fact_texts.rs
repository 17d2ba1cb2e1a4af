//! Texts for facts, conclusions and records. Codes of external systems are kept.

use model::{
    Attempt, Cluster, Conclusion, Fact, Failure, Image, JobEnd, Node, Program, RecordEntry, RetestedNode,
    Returned, Step, Suspects, Timestamp, Workflow,
};

use crate::{ReportInput, RunLocations, text};

/// Maximum number of node names in a line.
const NODES_NAMED: usize = 4;

pub fn fact(fact: &Fact) -> String {
    match fact {
        Fact::RunRequested(requested) => {
            format!("{}, {}", requested.workflow.name, requested.trigger)
        }
        Fact::CancelRequested(cancel) => with_reason(&cancel.by, &cancel.reason),
        Fact::ImageAccepted(it) | Fact::ClusterAccepted(it) | Fact::JobAccepted(it) => it.handle.clone(),
        Fact::ImageBuilt(it) => image(it),
        Fact::ClusterReady(it) => cluster(it),
        Fact::ClusterDeleted(it) => format!("{} is gone: {}", it.name, it.evidence),
        Fact::JobDone(it) => job(it),
        Fact::LogsCollected(it) => {
            format!("{}, {}", text::count(it.objects, "object"), text::size(it.size_bytes))
        }
        Fact::ResultsLoaded(it) => format!("{} in {}", text::count(it.rows, "row"), it.table),
        Fact::VerdictReached(it) => it.verdict.to_string(),
        Fact::NodesLocated(it) => suspects(it),
        Fact::ImageFailed(it)
        | Fact::ClusterFailed(it)
        | Fact::JobFailed(it)
        | Fact::LogsFailed(it)
        | Fact::ResultsFailed(it)
        | Fact::VerdictFailed(it)
        | Fact::NodesFailed(it) => failure(it),
        Fact::RunClosed(it) => conclusion(&it.conclusion),
        Fact::RunUsed(it) => format!("{} for {}", text::count(it.nodes, "node"), it.held),
    }
}

pub fn failure(failure: &Failure) -> String {
    format!("{}: {}", failure.code, failure.message)
}

/// The code and the first line; the full message is in the conclusion of the run.
pub fn one_line(failure: &Failure) -> String {
    format!("{}: {}", failure.code, failure.message.lines().next().unwrap_or_default())
}

pub fn image(image: &Image) -> String {
    let digest = text::short_digest(&image.digest);
    match image.files.len() as u64 {
        0 => digest,
        files => format!("{digest}, {}", text::count(files, "file")),
    }
}

pub fn cluster(cluster: &Cluster) -> String {
    let nodes = cluster.nodes.len() as u64;
    let mut words = text::count(nodes, "node");
    if u64::from(cluster.slots()) != nodes {
        words += &format!(", {}", text::count(cluster.slots(), "slot"));
    }
    if cluster.nodes.iter().any(|node| Node::is_placeholder(&node.name)) {
        return words + ", chosen by the scheduler";
    }
    let names: Vec<_> = cluster.nodes.iter().take(NODES_NAMED).map(|node| node.name.as_str()).collect();
    if !names.is_empty() {
        let more = if cluster.nodes.len() > NODES_NAMED { ", …" } else { "" };
        words += &format!(": {}{more}", names.join(", "));
    }
    words
}

pub fn job(end: &JobEnd) -> String {
    match (end.exit_code, end.signal) {
        (Some(code), None) => format!("{}, exit code {code}", end.state),
        (Some(code), Some(signal)) => format!("{}, exit code {code}, signal {signal}", end.state),
        (None, Some(signal)) => format!("{}, signal {signal}", end.state),
        (None, None) => end.state.clone(),
    }
}

/// Name of a step's check, if the workflow has several checks and the stage belongs to one.
pub fn check_of(workflow: &Workflow, step: Step) -> Option<String> {
    let named = workflow.check(step.check).filter(|_| step.stage.is_of_check());
    named.map(|_| text::single_line(&workflow.check_name(step.check)))
}

/// `job`, or `job of bandwidth` in a workflow with several checks.
pub fn step(workflow: &Workflow, step: Step) -> String {
    match check_of(workflow, step) {
        Some(check) => format!("{} of {check}", step.stage),
        None => step.stage.to_string(),
    }
}

pub fn conclusion(conclusion: &Conclusion) -> String {
    match conclusion {
        Conclusion::Completed => "completed".to_owned(),
        Conclusion::Failed { stage, check, failure } => {
            format!("failed at {}: {}", stage.of(*check), failure.code)
        }
        Conclusion::TimedOut { stage, check } => format!("timed out at {}", stage.of(*check)),
        Conclusion::Cancelled { by } => format!("cancelled by {by}"),
        Conclusion::Yielded { stage, check, .. } => {
            format!("yielded to other jobs at {}", stage.of(*check))
        }
    }
}

/// Suspects, and the number of pairs run.
pub fn suspects(suspects: &Suspects) -> String {
    if !suspects.retested.is_empty() {
        return retested(&suspects.retested);
    }
    let nodes = suspects.nodes.iter().map(|suspect| suspect.node.clone());
    let links = suspects.links.iter().map(|[a, b]| format!("{a} with {b}"));
    let named: Vec<_> = nodes.chain(links).collect();
    let named = if named.is_empty() { "no suspect".to_owned() } else { named.join(", ") };
    format!("{named}, {}", text::count(suspects.tests, "pair"))
}

/// The nodes that passed a re-test, and the actions.
fn retested(nodes: &[RetestedNode]) -> String {
    let in_service = |node: &&RetestedNode| node.returned == Returned::Applied;
    let named = |in_service: Vec<&RetestedNode>| {
        in_service.into_iter().map(|it| it.node.clone()).collect::<Vec<_>>().join(", ")
    };
    let (returned, others): (Vec<_>, Vec<_>) = nodes.iter().partition(in_service);
    match (returned.is_empty(), others.is_empty()) {
        (false, true) => format!("returned to service: {}", named(returned)),
        (true, _) => format!("passed, not returned: {}", named(others)),
        (false, false) => {
            format!("returned to service: {}; not returned: {}", named(returned), named(others))
        }
    }
}

/// The name and the reason, as `NAME: REASON`; only the name if the reason is blank.
pub fn with_reason(who: &str, why: &str) -> String {
    if why.trim().is_empty() { who.to_owned() } else { format!("{who}: {why}") }
}

/// Title and text of a record.
pub fn entry(entry: &RecordEntry) -> (String, String) {
    let of = |what: &str, attempt: &Attempt| {
        let check = if attempt.check.is_first() {
            String::new()
        } else {
            format!(" of check {}", attempt.check.0 + 1)
        };
        match attempt.number {
            1 => format!("{what}{check}"),
            later => format!("{what}{check}, attempt {later}"),
        }
    };
    match entry {
        RecordEntry::Accepted { attempt, fact: it, .. } => {
            let kind = it.event_type();
            let short = kind.strip_prefix("dev.burnin.").and_then(|kind| kind.strip_suffix(".v1"));
            (of(short.unwrap_or(kind), attempt), fact(it))
        }
        RecordEntry::AttemptOpened { stage, attempt, because } => {
            (of(&format!("{stage} retried"), attempt), failure(because))
        }
        RecordEntry::Overdue { stage, attempt } => {
            (of(&format!("{stage} overdue"), attempt), "limit exceeded; its state is being polled".to_owned())
        }
        RecordEntry::TimedOut { stage, attempt } => {
            (of(&format!("{stage} timed out"), attempt), "no response to a poll after its limit".to_owned())
        }
        RecordEntry::OverBudget { spent, budget } => {
            ("over budget".to_owned(), format!("{spent} of {budget} spent"))
        }
        RecordEntry::Closed { conclusion: how } => ("run closed".to_owned(), conclusion(how)),
    }
}

/// The program and its arguments, in the program's own flags.
pub fn program(program: &Program) -> String {
    let workload = match program {
        Program::NcclTests(workload) => workload,
        Program::Command(command) => return text::single_line(&command.argv.join(" ")),
    };
    let flags = workload.extra_args.flags().map(|(flag, value)| format!(" {flag} {value}"));
    let datatype = workload.datatype.map(|datatype| format!(" -d {}", datatype.as_str()));
    let more: String = datatype.into_iter().chain(flags).collect();
    let (step, by) = workload.step();
    format!(
        "{}_perf -b {} -e {} {step} {by} -n {} -w {} -c {}{more}",
        workload.collective.as_str(),
        workload.min_bytes,
        workload.max_bytes,
        workload.iterations,
        workload.warmup_iterations,
        u8::from(workload.check),
    )
}

/// Storage locations; the most useful one last, so that it is directly above the next prompt.
pub fn locations(locations: &RunLocations) -> Vec<(&'static str, &str)> {
    let known = [
        ("ledger", Some(&locations.ledger)),
        ("artefacts", Some(&locations.artefacts)),
        ("logs", locations.logs.as_ref()),
        ("warehouse", Some(&locations.warehouse)),
        ("report", locations.report.as_ref()),
    ];
    let known = known.into_iter().filter_map(|(name, location)| Some((name, location?.as_str())));
    known.filter(|(_, location)| !location.is_empty()).collect()
}

/// Subtitle of a report: cause, time and duration of a run, or the criteria and baseline of logs.
pub fn subtitle(input: &ReportInput<'_>) -> String {
    subtitle_with(input, text::utc)
}

/// Like [`subtitle`], with times formatted by `time`.
pub fn subtitle_with(input: &ReportInput<'_>, time: impl Fn(Timestamp) -> String) -> String {
    if let Some(run) = input.run {
        let state = run.state;
        let took = text::duration(state.recorded_at.since(state.requested_at));
        return format!("{}, {}, {}, {took}", state.workflow.name, state.trigger, time(state.requested_at));
    }
    let criteria = input.standard.criteria.map(|criteria| format!("the criteria {}", criteria.name));
    let learned = |runs: u32| format!("a baseline of {}", text::count(runs, "healthy run"));
    let baseline = input.standard.baseline.map(|baseline| learned(baseline.runs));
    let by: Vec<_> = criteria.into_iter().chain(baseline).collect();
    if by.is_empty() {
        return "judged without criteria or baseline".to_owned();
    }
    format!("judged by {}", by.join(" and "))
}
