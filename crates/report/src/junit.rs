//! Report for a CI system: JUnit XML, one suite per run or log, one test case per check.
//!
//! A fail is a `failure`. An inconclusive result is an `error`, which CI systems show as not green and distinct from failures: the check
//! could not be performed. A check skipped because of an earlier problem is `skipped`. CI systems show it as green, but the earlier problem
//! is already red.

mod area;

use std::collections::BTreeSet;

use model::{Conclusion, Reason, Verdict};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};
use verdict::{
    Judgement,
    bounds::{Bounds, JudgedTable},
    reference::regions_of,
};

use crate::{
    ReportInput, ReportedLog,
    checks::{self, CheckLine},
    evidence,
    findings::{self, Tone},
    fingerprint,
    metrics::{Metrics, metrics},
    summary, text,
};
use area::CheckArea;

/// Maximum number of reasons per case.
const REASONS: usize = 50;
/// Maximum length of a reason, characters.
const TEXT: usize = 500;
/// Maximum number of diagnoses per suite, with their evidence.
const DIAGNOSES: usize = 20;
const LINES: usize = 3;
/// Maximum number of suspects per suite.
const SUSPECTS: usize = 30;
/// Maximum number of metrics and of findings per suite.
const VALUES: usize = 200;
/// Maximum number of suites.
const SUITES: usize = 1000;

/// The report. Consistent with the verdict: a fail has a failure, an inconclusive result only errors, a pass
/// neither.
#[must_use]
pub fn junit(input: &ReportInput<'_>) -> String {
    let mut report = Report::new(text::shortened(&input.title(), TEXT));
    match input.run {
        Some(run) => {
            let log = input.logs.first();
            let mut suite = suite(
                input,
                log,
                run.state.run.as_str(),
                findings::reasons(input),
                input.reported_judgement(),
            );
            suite.test_cases.insert(0, conclusion(input));
            suite.test_cases.extend(checks(input));
            count(&mut suite);
            report.add_test_suite(suite);
        }
        None => {
            for log in input.logs.iter().take(SUITES) {
                let reasons = log.judgement.map_or(&[][..], |judgement| &judgement.reasons);
                let mut suite = suite(input, Some(log), log.name, reasons, log.judgement);
                count(&mut suite);
                report.add_test_suite(suite);
            }
        }
    }
    // Writing to memory cannot fail.
    report.to_string().unwrap_or_default()
}

/// Sets the counts of the suite; cases are added in several places.
fn count(suite: &mut TestSuite) {
    let of = |wanted: NonSuccessKind| {
        let cases = suite.test_cases.iter().map(|case| &case.status);
        cases
            .filter(|status| matches!(status, TestCaseStatus::NonSuccess { kind, .. } if *kind == wanted))
            .count()
    };
    let (failures, errors) = (of(NonSuccessKind::Failure), of(NonSuccessKind::Error));
    let skipped =
        suite.test_cases.iter().filter(|case| matches!(case.status, TestCaseStatus::Skipped { .. }));
    suite.skipped = skipped.count();
    (suite.tests, suite.failures, suite.errors) = (suite.test_cases.len(), failures, errors);
}

fn suite(
    input: &ReportInput<'_>,
    log: Option<&ReportedLog<'_>>,
    name: &str,
    reasons: &[Reason],
    judgement: Option<&Judgement>,
) -> TestSuite {
    let name = text::shortened(name, TEXT);
    let reasons = &findings::merged(reasons)[..];
    let mut suite = TestSuite::new(name.clone());
    for field in fingerprint::fields(input) {
        suite.add_property(Property::new(text::single_line(field.name), text::shortened(field.value, TEXT)));
    }
    for (name, value) in values(&input_of_log(input, log)) {
        suite.add_property(Property::new(text::single_line(&name), text::shortened(&value, TEXT)));
    }
    for area in areas(input, log, reasons) {
        let mut case = case(area, reasons);
        case.set_classname(name.clone());
        suite.test_cases.push(case);
    }
    let red = |case: &TestCase| matches!(case.status, TestCaseStatus::NonSuccess { .. });
    let verdict = judgement.map(|judgement| judgement.verdict).or(input.verdict());
    if !suite.test_cases.iter().any(red) && verdict != Some(Verdict::Pass) && judgement.is_some() {
        let mut case =
            TestCase::new("verdict", broken(NonSuccessKind::Error, "NO_REASON", "no reason is recorded"));
        case.set_classname(name);
        suite.test_cases.push(case);
    }
    let output = judgement_text(input, log, judgement);
    if !output.is_empty() {
        match suite.test_cases.iter_mut().find(|case| red(case)) {
            Some(case) => _ = case.set_system_out(output),
            None => _ = suite.set_system_out(output),
        }
    }
    suite
}

/// The report about one log: with several logs, each suite reports only its own log.
fn input_of_log<'a>(input: &ReportInput<'a>, log: Option<&ReportedLog<'a>>) -> ReportInput<'a> {
    match (input.run, log) {
        (None, Some(log)) => ReportInput { logs: vec![*log], judgement: log.judgement, ..input.clone() },
        _ => input.clone(),
    }
}

/// Metrics and findings: `metric gemm.throughput dtype=bf16` and its median and worst value; `finding XID_79 gpu 3` and its text.
fn values(input: &ReportInput<'_>) -> Vec<(String, String)> {
    let Metrics { metrics, findings } = metrics(input);
    let mut values = Vec::new();
    for metric in metrics.iter().take(VALUES) {
        let labels: String = metric.labels.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let unit = &metric.unit;
        let of = model::count(metric.subjects, "subject");
        let mut value = metric.median.map_or_else(
            || metric.reason.clone().unwrap_or_else(|| "no value".to_owned()),
            |median| format!("median {median} {unit} of {of}"),
        );
        if let Some(worst) = &metric.worst {
            value += &format!(", worst {} {unit} of {}", worst.value, worst.subject);
        }
        values.push((format!("metric {}{labels}", metric.name), value));
    }
    for finding in findings.iter().take(VALUES) {
        values.push((format!("finding {} {}", finding.code, finding.subject), finding.text.clone()));
    }
    let omitted = metrics.len().saturating_sub(VALUES) + findings.len().saturating_sub(VALUES);
    if omitted > 0 {
        values.push(("omitted".to_owned(), format!("{omitted} metrics and findings")));
    }
    values
}

/// All requested and all reported checks.
fn areas(input: &ReportInput<'_>, log: Option<&ReportedLog<'_>>, reasons: &[Reason]) -> BTreeSet<CheckArea> {
    let mut areas: BTreeSet<_> = reasons.iter().map(CheckArea::of).collect();
    if reasons.is_empty() {
        return areas;
    }
    areas.insert(CheckArea::Sanity);
    if let Some(criteria) = input.standard.criteria {
        areas.extend(criteria.network.as_ref().map(|_| CheckArea::Network));
        areas.extend((!criteria.floors.is_empty()).then_some(CheckArea::Floors));
        areas.extend((!criteria.references.is_empty()).then_some(CheckArea::Reference(None)));
        let table = log.and_then(|log| log.reading.tables.first());
        let subject = table.map(|table| JudgedTable::of(table, input.requested()));
        let reference = subject.and_then(|subject| Bounds::of(&subject, criteria).reference);
        let regions = reference.iter().flat_map(|reference| regions_of(reference));
        areas.extend(regions.map(|region| CheckArea::Reference(Some(region))));
    }
    if let Some(baseline) = input.standard.baseline {
        areas.extend([CheckArea::Baseline(None), CheckArea::History]);
        areas.extend(baseline.points.iter().map(|point| CheckArea::Baseline(Some(point.region))));
    }
    areas
}

fn case(area: CheckArea, reasons: &[Reason]) -> TestCase {
    let here: Vec<_> = reasons.iter().filter(|reason| CheckArea::of(reason) == area).collect();
    let description = |reasons: &[&Reason]| {
        let lines = reasons.iter().take(REASONS);
        let lines = lines.map(|it| text::shortened(&format!("{}: {}", it.code, it.text), TEXT));
        let more = reasons.len().saturating_sub(REASONS);
        lines.chain((more > 0).then(|| format!("and {more} more"))).collect::<Vec<_>>().join("\n")
    };
    let most_severe = |weighs| here.iter().find(|reason| reason.weighs == weighs);
    let broke = |kind, reason: &Reason| {
        let mut status = broken(kind, &reason.code, &reason.text);
        status.set_description(description(&here));
        TestCase::new(area.name(), status)
    };
    match (most_severe(Verdict::Fail), most_severe(Verdict::Inconclusive)) {
        (Some(reason), _) => broke(NonSuccessKind::Failure, reason),
        (None, Some(reason)) => broke(NonSuccessKind::Error, reason),
        (None, None) if here.is_empty() && !compared(area, reasons) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message("not compared: see the other cases");
            TestCase::new(area.name(), status)
        }
        (None, None) => {
            let mut case = TestCase::new(area.name(), TestCaseStatus::success());
            if !here.is_empty() {
                case.set_system_out(description(&here));
            }
            case
        }
    }
}

/// Whether the area was compared: at least one reason concerns the area and does not report a refused comparison.
fn compared(area: CheckArea, reasons: &[Reason]) -> bool {
    reasons.iter().any(|reason| CheckArea::of(reason).goes_with(area) && !CheckArea::refuses(reason))
}

fn broken(kind: NonSuccessKind, code: &str, why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(text::shortened(code, TEXT)).set_message(text::shortened(why, TEXT));
    status
}

fn skipped(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(text::shortened(why, TEXT));
    status
}

/// One case for each check of the run.
fn checks(input: &ReportInput<'_>) -> Vec<TestCase> {
    let Some(run) = input.run else { return Vec::new() };
    let case = |line: CheckLine| {
        let code = line.why.split(':').next().unwrap_or_default();
        let status = match line.tone {
            Tone::Good => TestCaseStatus::success(),
            Tone::Excluded => skipped(&line.why),
            Tone::Bad => broken(NonSuccessKind::Failure, code, &line.why),
            Tone::Unsure | Tone::Busy => broken(NonSuccessKind::Error, &line.word, &line.why),
        };
        let mut case = TestCase::new(format!("check {}", text::shortened(&line.name, TEXT)), status);
        case.set_classname(run.state.run.to_string());
        case
    };
    checks::checks(&run).into_iter().map(case).collect()
}

fn conclusion(input: &ReportInput<'_>) -> TestCase {
    let settled = input.run.and_then(|run| run.state.settled.as_ref()).map(|(how, _)| how);
    let why = || {
        let notes = findings::notes(input);
        notes.first().map_or_else(String::new, |note| format!("{} {}", note.head, note.text))
    };
    let status = match settled {
        Some(Conclusion::Completed) => TestCaseStatus::success(),
        Some(how) => broken(NonSuccessKind::Error, how.as_str(), &why()),
        None => broken(NonSuccessKind::Error, "open", &why()),
    };
    let mut case = TestCase::new("run", status);
    let run = input.run.map(|run| run.state.run.to_string());
    case.set_classname(run.unwrap_or_default());
    case
}

/// The verdict in one sentence, diagnoses with their evidence, suspects, and the next step.
fn judgement_text(
    input: &ReportInput<'_>,
    log: Option<&ReportedLog<'_>>,
    judgement: Option<&Judgement>,
) -> String {
    let own = input_of_log(input, log);
    let mut lines: Vec<_> = summary::sentence(&own).into_iter().collect();
    let (diagnoses, more) = evidence::diagnoses(judgement, DIAGNOSES, LINES);
    for diagnosis in diagnoses {
        lines.push(format!("{}: {}", diagnosis.cause, text::single_line(&diagnosis.advice)));
        lines.extend(diagnosis.hosts.map(|hosts| format!("  shown by {}", text::single_line(&hosts))));
        lines.extend(diagnosis.lines.iter().map(|line| format!("  {}", text::shortened(line, TEXT))));
        lines.extend(
            (diagnosis.more > 0).then(|| format!("  and {}", text::count(diagnosis.more, "more such line"))),
        );
    }
    lines.extend((more > 0).then(|| format!("diagnoses omitted: {more}")));
    let (suspects, more) = evidence::suspects(judgement, SUSPECTS);
    lines.extend(suspects.iter().map(|(name, surely)| format!("suspect: {name}, confidence {surely:.2}")));
    lines.extend((more > 0).then(|| format!("suspects omitted: {more}")));
    lines.extend(summary::next(&own).map(|next| format!("Next: {}", text::single_line(&next))));
    lines.join("\n")
}
