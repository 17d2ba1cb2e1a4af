//! Rules between the fields of a workflow file, and rules that its schema cannot express.

use std::{ops::RangeInclusive, time::Duration};

use model::Notify;

use crate::file::WorkflowFile;

/// Fields that a request must not override: the name, triggers and parameters would define another workflow,
/// and the requester must not choose the notified channels.
const FIXED: [&str; 5] = ["", "name", "notify", "on", "parameters"];

/// Permitted duration of a soak. Short soaks serve to try out a workflow.
const SOAK: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(168 * 3600);

/// Reports each broken rule with its field and the expectation.
///
/// `complete`: no section was left out because of its own problems, so the user omitted the absent sections.
pub(crate) fn check(file: &WorkflowFile, complete: bool, mut complain: impl FnMut(&str, String)) {
    if complete {
        check_sections(file, &mut complain);
        check_locate(file, &mut complain);
        check_soak(file, &mut complain);
    }
    if file.limits.attempts == 0 {
        complain("limits.attempts", "0 is less than the minimum of 1; write 1 or more".to_owned());
    }
    for (field, problem) in file.on.problems() {
        complain(&format!("on.{field}"), problem);
    }
    check_notices(file, &mut complain);
    check_parameters(file, &mut complain);
}

fn check_sections(file: &WorkflowFile, complain: &mut impl FnMut(&str, String)) {
    let measures = if file.benchmark.is_some() { Some("benchmark") } else { None };
    let measures = measures.or((!file.checks.is_empty()).then_some("checks"));
    let measures = measures.or(file.suite.as_ref().map(|_| "suite"));
    if file.suite.is_some() && (file.benchmark.is_some() || !file.checks.is_empty()) {
        complain(
            "suite",
            "cannot be combined with `benchmark` or `checks`; add them to the suite's file".to_owned(),
        );
    }
    if let Some(field) = measures.filter(|_| file.cluster.is_none()) {
        complain(field, "needs a `cluster` to run on".to_owned());
    }
    if file.benchmark.is_some() && !file.checks.is_empty() {
        complain(
            "checks",
            "cannot be combined with `benchmark`; make the benchmark the first check".to_owned(),
        );
    }
    if file.image.is_none() && file.cluster.is_none() && measures.is_none() {
        complain("", "has no effect: set `image`, `cluster` or both".to_owned());
    }
}

fn check_locate(file: &WorkflowFile, complain: &mut impl FnMut(&str, String)) {
    let Some(locate) = &file.locate else { return };
    for (field, problem) in locate.problems() {
        complain(&format!("locate.{field}"), problem);
    }
    if file.benchmark.is_none() && file.checks.is_empty() && file.suite.is_none() {
        complain(
            "locate",
            "needs a `benchmark`, `checks` or a `suite` to repeat on pairs of nodes; add one of them"
                .to_owned(),
        );
    }
}

fn check_soak(file: &WorkflowFile, complain: &mut impl FnMut(&str, String)) {
    let Some(soak) = &file.soak else { return };
    if file.checks.is_empty() && file.suite.is_none() {
        let why = "needs `checks` to repeat; write the benchmark as a check";
        complain("soak", why.to_owned());
    }
    if !SOAK.contains(&soak.duration.0) {
        complain("soak.for", format!("expected 10s to 168h, found {}", soak.duration));
    }
    if !(0.001..=0.5).contains(&soak.drift) {
        complain("soak.drift", format!("expected 0.001 to 0.5, found {}", soak.drift));
    }
}

fn check_notices(file: &WorkflowFile, complain: &mut impl FnMut(&str, String)) {
    for (field, problem) in channels::problems(&file.notify) {
        complain(&format!("notify{field}"), problem);
    }
    let github = file.notify.iter().position(|notify| matches!(notify, Notify::Github(_)));
    if let Some(at) = github.filter(|_| file.on.push.is_empty()) {
        let why = "needs `on.push`: only a run started by a push has a commit";
        complain(&format!("notify[{at}].github"), why.to_owned());
    }
}

fn check_parameters(file: &WorkflowFile, complain: &mut impl FnMut(&str, String)) {
    for (at, field) in file.parameters.iter().enumerate() {
        let section = field.split('.').next().unwrap_or_default();
        if FIXED.contains(&section) {
            complain(&format!("parameters[{at}]"), "is not a field that can be overridden".to_owned());
        }
    }
}
