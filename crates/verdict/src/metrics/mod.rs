//! Verdict on the metrics and findings of any benchmark.
//!
//! Judged in this order; the gravest reason counts: end of the program, coverage, plausibility, findings, bounds, peers, baseline.
//! A missing or unreadable value is never a pass.

mod baseline;
mod bounds;
mod findings;
mod suspects;

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Criteria, MetricCriterion, Reason, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Scope, Subject},
};

pub(crate) use baseline::{learn, unfit};

use crate::{
    evidence::RunEvidence,
    fingerprint::Fingerprint,
    judge::{Judgement, gravity, verdict},
    sanity,
    standard::Standard,
};

use suspects::Evidence;

/// Maximum number of subjects named in one reason.
const NAMED: usize = 8;

/// Whether the log is one of a benchmark whose measurements are metrics.
pub(crate) fn is_about_metrics(evidence: &RunEvidence<'_>) -> bool {
    let reading = evidence.reading;
    reading.tables.is_empty()
        && (reading.format.is_some() || !reading.metrics.is_empty() || !reading.findings.is_empty())
}

/// The verdict. Deterministic: the same evidence and standard give the same verdict.
pub(crate) fn judge(
    evidence: &RunEvidence<'_>,
    standard: &Standard<'_>,
    fingerprint: Fingerprint,
) -> Judgement {
    let reading = evidence.reading;
    let none = Criteria::named("none");
    let criteria = standard.criteria.unwrap_or(&none);
    let mut found = Found::default();
    found.reasons.extend(sanity::job(evidence));
    ended(reading, &mut found);
    if !evidence.missing_nodes.is_empty() {
        let text = format!("no measurement of {}", listed(evidence.missing_nodes.to_vec()));
        found.add(Verdict::Inconclusive, "NODES_MISSING", text);
    }
    for criterion in &criteria.metrics {
        coverage(reading, criterion, &mut found);
        plausible(reading, criterion, &mut found);
    }
    findings::judge(reading, &mut found);
    for criterion in &criteria.metrics {
        bounds::judge(reading, criterion, &mut found);
    }
    statements(reading, criteria, &mut found);
    if let Some(learned) = standard.baseline {
        baseline::judge(reading, learned, &fingerprint, &mut found);
    }
    bounded(reading, criteria, standard, &mut found);
    if found.reasons.is_empty() {
        found.add(Verdict::Pass, "METRICS_GOOD", good(reading));
    }
    let Found { mut reasons, evidence } = found;
    reasons.sort_by_key(|reason| gravity(reason.weighs));
    let verdict = verdict(&reasons);
    Judgement {
        schema: "burnin/verdict/v1".to_owned(),
        verdict,
        reasons,
        diagnoses: Vec::new(),
        suspects: suspects::suspects(evidence, reading),
        fingerprint,
    }
}

/// Reasons, and the evidence against subjects.
#[derive(Default)]
struct Found {
    reasons: Vec<Reason>,
    evidence: Vec<Evidence>,
}

impl Found {
    fn add(&mut self, weighs: Verdict, code: &'static str, text: String) {
        self.reasons.push(Reason::new(weighs, code, text));
    }

    /// A reason that a subject shows; `what` names the metric or finding, `strength` is the confidence that the subject itself
    /// is bad, 0 to 1.
    fn blame(&mut self, subject: &Subject, what: &str, strength: f64) {
        self.evidence.push(Evidence { subject: subject.clone(), what: what.to_owned(), strength });
    }
}

fn ended(reading: &Reading, found: &mut Found) {
    let error = reading.first_error.as_deref();
    match reading.ended {
        // An error in a complete log is stated by its findings or by unmeasured values; the line itself is no evidence of a defect.
        LogEnd::Complete => {}
        LogEnd::Failed => {
            let error = error.unwrap_or("it does not state the reason");
            found.add(Verdict::Fail, "BENCHMARK_FAILED", format!("the program failed: {error}"));
        }
        LogEnd::Truncated => {
            let text = match error {
                Some(error) => format!("the log is incomplete: {error}"),
                None => "the log stops before the program's end mark".to_owned(),
            };
            found.add(Verdict::Inconclusive, "TRUNCATED", text);
        }
        LogEnd::Empty => {
            let error = error.map_or_else(String::new, |error| format!("; the first error is: {error}"));
            found.add(Verdict::Inconclusive, "NO_METRICS", format!("the log has no measurement{error}"));
        }
    }
}

/// The metrics of a criterion.
fn matching<'a>(
    reading: &'a Reading,
    criterion: &'a MetricCriterion,
) -> impl Iterator<Item = &'a Metric> + Clone {
    reading.metrics.iter().filter(move |metric| {
        let labeled = |(name, value): (&String, &String)| metric.labels.get(name) == Some(value);
        *metric.name == *criterion.metric && criterion.labels.iter().all(labeled)
    })
}

/// Subjects expected and seen, and values that the program could not measure.
fn coverage(reading: &Reading, criterion: &MetricCriterion, found: &mut Found) {
    let name = described(criterion);
    let metrics: Vec<_> = matching(reading, criterion).collect();
    if metrics.is_empty() {
        found.add(Verdict::Inconclusive, "NOT_MEASURED", format!("{name} is not in the log"));
        return;
    }
    let seen: BTreeSet<_> = metrics.iter().map(|metric| place(&metric.subject)).collect();
    if let Some(expected) = criterion.subjects.filter(|expected| *expected as usize != seen.len()) {
        let text = format!("{name} is measured for {} instead of {expected} subjects", seen.len());
        found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
    }
    if metrics.iter().all(|metric| metric.scope == Scope::Gpu) && !reading.gpus.is_empty() {
        let known = reading.gpus.iter().map(|gpu| place(&gpu.subject));
        let missing: Vec<_> = known.filter(|gpu| !seen.contains(gpu)).map(|gpu| gpu.to_string()).collect();
        if !missing.is_empty() {
            let text = format!("{name} is not measured for {}", listed(missing));
            found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
        }
    }
    let unmeasurable: Vec<_> = metrics.iter().filter(|metric| metric.value.is_none()).collect();
    if let Some(first) = unmeasurable.first().filter(|_| !criterion.may_be_unmeasurable) {
        let why = first.unmeasurable.as_deref().unwrap_or("no value");
        let subjects = listed(unmeasurable.iter().map(|metric| metric.subject.to_string()).collect());
        let text = format!("{name} has no value for {subjects}: {why} (line {})", first.line);
        found.add(Verdict::Inconclusive, "UNMEASURABLE", text);
    }
}

/// Unit and range. Only judged metrics need a known unit.
fn plausible(reading: &Reading, criterion: &MetricCriterion, found: &mut Found) {
    let name = described(criterion);
    for metric in matching(reading, criterion) {
        let required = criterion.unit.as_deref();
        if let Some(unit) = required.filter(|unit| **unit != *metric.unit) {
            let text = format!("{name} is in `{}` and not in `{unit}` (line {})", metric.unit, metric.line);
            found.add(Verdict::Inconclusive, "UNKNOWN_UNIT", text);
            return;
        }
        if required.is_none() && !metric.has_known_unit() {
            let text = format!(
                "{name} is in the unknown unit `{}` (line {}); name it in `unit` of the criteria if the bounds are in it",
                metric.unit, metric.line
            );
            found.add(Verdict::Inconclusive, "UNKNOWN_UNIT", text);
            return;
        }
        let Some(value) = metric.value else { continue };
        let is_rate = metric.better == Better::Higher || metric.better == Better::Lower;
        if !value.is_finite() || (is_rate && value < 0.0) || (metric.better == Better::Higher && value == 0.0)
        {
            let text =
                format!("{name} is {value} {} for {} (line {})", metric.unit, metric.subject, metric.line);
            found.add(Verdict::Inconclusive, "IMPLAUSIBLE", text);
        }
    }
}

/// Results that the program itself states as 1 (good) or 0 (bad), such as `gpu_burn.passed`. A criterion for the metric replaces
/// this rule.
fn statements(reading: &Reading, criteria: &Criteria, found: &mut Found) {
    let mut failed: BTreeMap<&str, Vec<&Metric>> = BTreeMap::new();
    for metric in stated(reading, criteria) {
        match metric.value {
            Some(1.0) => {}
            Some(_) => failed.entry(&metric.name).or_default().push(metric),
            None => {
                let why = metric.unmeasurable.as_deref().unwrap_or("no value");
                let text = format!("{} has no result for {}: {why}", metric.name, metric.subject);
                found.add(Verdict::Inconclusive, "UNMEASURABLE", text);
            }
        }
    }
    for (name, metrics) in failed {
        let accused: BTreeSet<_> = reading.findings.iter().map(|finding| place(&finding.subject)).collect();
        // A finding of the same subject gives the reason, and weighs by its severity.
        let without: Vec<_> =
            metrics.iter().filter(|metric| !accused.contains(&place(&metric.subject))).collect();
        for metric in &without {
            found.blame(&metric.subject, name, 0.9);
        }
        if !without.is_empty() {
            let subjects = listed(without.iter().map(|metric| metric.subject.to_string()).collect());
            found.add(Verdict::Fail, "TEST_FAILED", format!("{name} failed for {subjects}"));
        }
    }
}

fn stated<'a>(reading: &'a Reading, criteria: &'a Criteria) -> impl Iterator<Item = &'a Metric> {
    reading.metrics.iter().filter(|metric| {
        // Other values are measurements whose exact value the criteria must name.
        let states = metric.value.is_none_or(|value| value == 0.0 || value == 1.0);
        metric.better == Better::Exact
            && *metric.unit == *"1"
            && states
            && criteria.metrics.iter().all(|criterion| *criterion.metric != *metric.name)
    })
}

/// A pass needs a bound on some value: a criterion, a baseline, or the program's own statement.
fn bounded(reading: &Reading, criteria: &Criteria, standard: &Standard<'_>, found: &mut Found) {
    let bounded = criteria.metrics.iter().any(MetricCriterion::bounds)
        || criteria.data_only
        || standard.baseline.is_some()
        || stated(reading, criteria).next().is_some();
    if !bounded && reading.ended == LogEnd::Complete {
        let text = "nothing bounds the measured values: add `metrics` to the criteria, or give a baseline"
            .to_owned();
        found.add(Verdict::Inconclusive, "UNBOUNDED", text);
    }
}

fn good(reading: &Reading) -> String {
    let values = reading.metrics.iter().filter(|metric| metric.value.is_some()).count();
    let subjects: BTreeSet<_> = reading.metrics.iter().map(|metric| place(&metric.subject)).collect();
    format!("{values} values of {} subjects are complete and within their bounds", subjects.len())
}

/// A subject by its place, without serial number and bus id, which not every line of a log has.
fn place(subject: &Subject) -> Subject {
    Subject { serial: None, bus_id: None, ..subject.clone() }
}

fn described(criterion: &MetricCriterion) -> String {
    let labels: Vec<_> = criterion.labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
    match labels.is_empty() {
        true => criterion.metric.clone(),
        false => format!("{} ({})", criterion.metric, labels.join(", ")),
    }
}

fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join("; ")
}
