//! Verdict on the metrics and findings of any benchmark.
//!
//! The checks run in this order, and the most severe reason decides: end of the program, coverage, plausibility,
//! findings, bounds, peers, baseline. A missing or unreadable value is never a pass.

mod ambiguous;
mod bounds;
mod comparison;
mod findings;
mod fleet;
mod hardware;
mod keys;
mod learning;
mod levels;
mod library;
mod measured;
mod pair_search;
mod pairs;
mod peers;
mod position;
mod shift;
mod suspects;
mod tiers;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use model::{
    Criteria, MetricCriterion, Reason, Verdict, count,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Subject},
};

pub use learning::MetricHistory;
pub(crate) use learning::{LearnedMetrics, learn, unfit};
pub use library::{DeviceReference, REFERENCES};
pub use pair_search::{from_pair_metrics, pair_metrics, units_of_pairs};

use crate::{
    evidence::RunEvidence,
    fingerprint::Fingerprint,
    judgement::{Judgement, severity, verdict},
    locate::Suspect,
    sanity,
    standard::Standard,
};

use measured::{ByName, Measured};
use position::SubjectPosition;
use suspects::Evidence;

/// Code of the finding of a pair of nodes whose program failed.
pub const PAIR_FAILED: &str = "PAIR_FAILED";

/// Maximum number of subjects named in one reason.
const NAMED: usize = 8;

/// Whether the log's benchmark reports metrics instead of tables.
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
    let none = Criteria::named("none");
    let criteria = standard.criteria.unwrap_or(&none);
    let directed = directed(evidence.reading, criteria);
    let reading = &*directed;
    let evidence = &RunEvidence { reading, ..*evidence };
    let mut found = FoundReasons::default();
    found.reasons.extend(sanity::job_of_metrics(evidence));
    ended(reading, &mut found);
    if !evidence.missing_nodes.is_empty() {
        let text = format!("no measurement of {}", listed(evidence.missing_nodes.to_vec()));
        found.add(Verdict::Inconclusive, "NODES_MISSING", text);
    }
    let by_name = ByName::of(reading);
    let measured: Vec<_> =
        criteria.metrics.iter().map(|criterion| Measured::of(&by_name, criterion)).collect();
    for measured in &measured {
        measured.coverage(evidence, &mut found);
        measured.plausible(&mut found);
        measured.has_direction(&mut found);
    }
    ambiguous::judge(reading, &by_name, criteria, &mut found);
    listed_gpus(evidence, &measured, &mut found);
    findings::judge(reading, &mut found);
    hardware::judge(evidence, criteria.evidence, &mut found);
    for measured in &measured {
        bounds::judge(measured, reading, &mut found);
    }
    statements(reading, criteria, &mut found);
    if let Some(learned) = standard.baseline {
        comparison::judge(reading, &by_name, (learned, criteria, standard), &fingerprint, &mut found);
    }
    found.reasons.extend(standard.learned.iter().cloned());
    bounded(reading, criteria, standard, &mut found);
    if found.reasons.iter().all(|reason| reason.weighs == Verdict::Pass) {
        found.add(Verdict::Pass, "METRICS_GOOD", pass_text(reading));
    }
    let FoundReasons { mut reasons, mut evidence, pairs: bad_pairs } = found;
    for (name, bad) in bad_pairs {
        let is_bad = |metric: &Metric| bad.iter().any(|other| std::ptr::eq(*other, metric));
        let measured = by_name.named(name).iter().filter(|metric| metric.value.is_some());
        evidence.extend(pairs::evidence(name, measured.map(|metric| (&metric.subject, !is_bad(metric)))));
    }
    evidence.extend(failed_pairs(reading));
    reasons.sort_by_key(|reason| severity(reason.weighs));
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

/// Compares the GPUs that the log names with those that the cluster's settings state, if no criterion judges a metric of GPUs: a diagnosis
/// that did not list a GPU has no finding about it.
fn listed_gpus(evidence: &RunEvidence<'_>, measured: &[Measured<'_>], found: &mut FoundReasons<'_>) {
    let is_judged = |measured: &Measured<'_>| measured.is_of_gpus() || measured.criterion.subjects.is_some();
    let Some(stated) = evidence.gpus.filter(|_| !measured.iter().any(is_judged)) else { return };
    let reading = evidence.reading;
    let listed_ones = reading.gpus.iter().map(|gpu| &gpu.subject);
    let subjects = listed_ones.chain(reading.metrics.iter().map(|metric| &metric.subject));
    // A log without the names of nodes may list the GPUs of several nodes by the same numbers.
    let seen: BTreeSet<_> = subjects
        .filter(|subject| subject.node.is_some() && subject.gpu.is_some() && subject.peer.is_none())
        .map(|subject| SubjectPosition::of(subject).device())
        .collect();
    let lacking = measured::fewer_than_stated(&seen, reading, stated);
    if !lacking.is_empty() {
        let lacking = listed(lacking);
        let text = format!("the log does not name all GPUs that the cluster's settings state: {lacking}");
        found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
    }
}

/// The reading, with the directions that the criteria state.
#[must_use]
pub fn directed<'a>(reading: &'a Reading, criteria: &Criteria) -> Cow<'a, Reading> {
    if criteria.metrics.iter().all(|criterion| criterion.better.is_none()) {
        return Cow::Borrowed(reading);
    }
    let mut reading = reading.clone();
    for metric in &mut reading.metrics {
        metric.better = criteria.better(metric).unwrap_or(metric.better);
    }
    Cow::Owned(reading)
}

/// Reasons from the hardware evidence of the nodes, and its suspects.
pub(crate) fn hardware(
    evidence: &RunEvidence<'_>,
    criteria: Option<&Criteria>,
) -> (Vec<Reason>, Vec<Suspect>) {
    let rule = criteria.map(|criteria| criteria.evidence).unwrap_or_default();
    let mut found = FoundReasons::default();
    hardware::judge(evidence, rule, &mut found);
    (found.reasons, suspects::suspects(found.evidence, evidence.reading))
}

#[derive(Default)]
struct FoundReasons<'a> {
    reasons: Vec<Reason>,
    evidence: Vec<Evidence>,
    /// Bad values of pairs, by the name of the metric.
    pairs: BTreeMap<&'a str, Vec<&'a Metric>>,
}

impl<'a> FoundReasons<'a> {
    fn add(&mut self, weighs: Verdict, code: &'static str, text: String) {
        self.reasons.push(Reason::new(weighs, code, text));
    }

    /// Records a value as evidence against its subject. A value of a pair is evidence against the pair, not against one of its ends.
    fn blame_value(&mut self, metric: &'a Metric, strength: f64) {
        if metric.subject.peer.is_some() {
            self.pairs.entry(&metric.name).or_default().push(metric);
        } else {
            self.blame(&metric.subject, &metric.name, strength);
        }
    }

    /// Records evidence against a subject. `what`: name of the metric or finding; `strength`: confidence that the
    /// subject itself is bad, 0 to 1.
    fn blame(&mut self, subject: &Subject, what: &str, strength: f64) {
        self.evidence.push(Evidence { subject: subject.clone(), what: what.to_owned(), strength });
    }
}

/// Records evidence against ends and links, from pairs whose program failed.
fn failed_pairs(reading: &Reading) -> Vec<Evidence> {
    let failed = reading.findings.iter().filter(|finding| finding.code == PAIR_FAILED);
    let failed: BTreeSet<_> = failed.map(|finding| &finding.subject).collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let measured: BTreeSet<_> = reading.metrics.iter().map(|metric| &metric.subject).collect();
    let good = measured.difference(&failed).map(|subject| (*subject, true));
    pairs::evidence(PAIR_FAILED, good.chain(failed.iter().map(|subject| (*subject, false))))
}

fn ended(reading: &Reading, found: &mut FoundReasons<'_>) {
    let error = reading.first_error.as_deref();
    match reading.ended {
        // In a complete log, findings or unmeasured values report an error; the error line itself is no evidence of a defect.
        LogEnd::Complete => {}
        LogEnd::Failed => {
            let error = error.unwrap_or("the log states no reason");
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

/// Results that the program itself states as 1 (good) or 0 (bad), such as `gpu_burn.passed`. A criterion that bounds the
/// metric replaces this rule.
fn statements<'a>(reading: &'a Reading, criteria: &'a Criteria, found: &mut FoundReasons<'a>) {
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
        let accused: BTreeSet<_> =
            reading.findings.iter().map(|finding| SubjectPosition::of(&finding.subject)).collect();
        // If the subject also has a finding, only the finding is a reason, with its severity.
        let without: Vec<_> =
            metrics.iter().filter(|metric| !accused.contains(&SubjectPosition::of_metric(metric))).collect();
        for metric in without.iter().copied().copied() {
            found.blame_value(metric, 0.9);
        }
        if !without.is_empty() {
            let subjects = listed(without.iter().map(|metric| metric.subject.to_string()).collect());
            found.add(Verdict::Fail, "TEST_FAILED", format!("{name} failed for {subjects}"));
        }
    }
}

fn stated<'a>(reading: &'a Reading, criteria: &'a Criteria) -> impl Iterator<Item = &'a Metric> {
    reading.metrics.iter().filter(|metric| {
        // Values other than 0 and 1 are measurements; a criterion must state their exact value.
        let states = metric.value.is_none_or(|value| value == 0.0 || value == 1.0);
        metric.better == Better::Exact
            && *metric.unit == *"1"
            && states
            && !criteria.metrics.iter().any(|it| it.bounds() && it.selects(&metric.name, &metric.labels))
    })
}

/// A pass needs a bound on at least one value: a criterion, a baseline, or the program's own statement.
fn bounded(reading: &Reading, criteria: &Criteria, standard: &Standard<'_>, found: &mut FoundReasons<'_>) {
    let bounded = criteria.metrics.iter().any(MetricCriterion::bounds)
        || criteria.data_only
        || standard.baseline.is_some()
        || stated(reading, criteria).next().is_some();
    if !bounded && reading.ended == LogEnd::Complete {
        let text = "no criterion and no baseline bounds the measured values: add `metrics` to the criteria, or use a baseline"
            .to_owned();
        found.add(Verdict::Inconclusive, "UNBOUNDED", text);
    }
}

fn pass_text(reading: &Reading) -> String {
    let values = reading.metrics.iter().filter(|metric| metric.value.is_some()).count() as u64;
    let subjects: BTreeSet<_> = reading.metrics.iter().map(SubjectPosition::of_metric).collect();
    let are = if values == 1 { "is" } else { "are" };
    let (values, subjects) = (count(values, "value"), count(subjects.len() as u64, "subject"));
    format!("{values} of {subjects} {are} complete and within their bounds")
}

fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names.join("; ")
}
