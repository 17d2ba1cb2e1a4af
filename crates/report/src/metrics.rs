//! Metrics and findings of all logs together, summarized over their subjects.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    measurement::Reading,
    metric::{Better, Metric, Scope, Severity, Subject},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::Judgement;

use crate::{ReportInput, measured, text};

/// Maximum number of log names in one text.
const PROGRAMS: usize = 4;
/// Maximum length of a metric with its labels, characters.
const NAME: usize = 80;

/// One metric over all its subjects. The field names are an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSummary {
    /// Name of the metric, such as `gemm.throughput`.
    pub name: String,
    /// Properties that distinguish values of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Unit of all values.
    pub unit: String,
    /// Direction of improvement.
    pub better: Better,
    /// Kind of subject.
    pub scope: Scope,
    /// Number of subjects, measured or not.
    pub subjects: u64,
    /// Number of subjects with a value.
    pub measured: u64,
    /// Number of values; a subject may have several.
    pub values: u64,
    /// Number of values that the program could not measure.
    pub unmeasurable: u64,
    /// The program's first reason for a value that it could not measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Median of all values; null without a value.
    pub median: Option<f64>,
    /// The worst value: the lowest or highest one, or for `exact` the value farthest from the median. Null without a value,
    /// and for a metric that is never judged.
    pub worst: Option<WorstValue>,
}

/// The worst value of a metric, with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorstValue {
    /// The worst value, in the metric's unit.
    pub value: f64,
    /// The first subject with this value.
    pub subject: Subject,
    /// Number of other values that are equal.
    pub others: u64,
    /// Name of the log that contains the value.
    pub log: String,
    /// Line of the log, starting at 1.
    pub line: u64,
}

/// A finding of one subject. The field names are an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingSummary {
    /// Stable code of the finding, such as `XID_79`.
    pub code: String,
    /// Kind of cause.
    pub severity: Severity,
    /// The affected part of the cluster.
    pub subject: Subject,
    /// Number of occurrences.
    pub times: u64,
    /// The program's own text at the first occurrence.
    pub text: String,
    /// Log of the first occurrence.
    pub log: String,
    /// Line of the first occurrence, starting at 1.
    pub line: u64,
}

/// Metrics and findings of a report, most relevant first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Evidence of suspects first, metrics that are never judged last; otherwise in the order of the logs.
    pub metrics: Vec<MetricSummary>,
    /// Most severe first; otherwise in the order of the logs.
    pub findings: Vec<FindingSummary>,
}

/// Metrics and findings of all logs of a report.
#[must_use]
pub fn metrics(input: &ReportInput<'_>) -> Metrics {
    let logs = logs(input);
    Metrics { metrics: summaries(&logs, input.reported_judgement()), findings: findings(&logs) }
}

/// Metrics in the order of the logs: evidence of suspects has no priority, so that the order is equal for all runs.
pub(crate) fn in_log_order(input: &ReportInput<'_>) -> Vec<MetricSummary> {
    summaries(&logs(input), None)
}

/// Metrics of all logs, evidence of suspects first.
pub(crate) fn summaries_of(input: &ReportInput<'_>) -> Vec<MetricSummary> {
    summaries(&logs(input), input.reported_judgement())
}

/// Every single log: the parts of a run, otherwise the separate logs.
pub(crate) fn logs<'a>(input: &ReportInput<'a>) -> Vec<(&'a str, &'a Reading)> {
    match input.parts.is_empty() {
        true => input.logs.iter().map(|log| (log.name, log.reading)).collect(),
        false => input.parts.clone(),
    }
}

/// Metrics that agree in these properties are comparable.
type MetricColumns<'a> = (&'a str, &'a BTreeMap<String, String>, &'a str, Better, Scope);

/// Values of one kind, each with its log.
type ValueGroup<'a> = (MetricColumns<'a>, Vec<(&'a str, &'a Metric)>);

fn summaries(logs: &[(&str, &Reading)], judgement: Option<&Judgement>) -> Vec<MetricSummary> {
    let mut groups: Vec<ValueGroup<'_>> = Vec::new();
    let mut positions: BTreeMap<MetricColumns<'_>, usize> = BTreeMap::new();
    for (log, metric) in logs.iter().flat_map(|(log, reading)| reading.metrics.iter().map(|it| (*log, it))) {
        let kind = (&*metric.name, &*metric.labels, &*metric.unit, metric.better, metric.scope);
        let at = *positions.entry(kind).or_insert_with(|| {
            groups.push((kind, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push((log, metric));
    }
    let accused: BTreeSet<&str> = judgement
        .into_iter()
        .flat_map(|judgement| &judgement.suspects)
        .flat_map(|suspect| suspect.evidence.iter().map(String::as_str))
        .collect();
    let mut summaries: Vec<_> = groups.iter().map(summary).collect();
    summaries
        .sort_by_key(|summary| (!accused.contains(summary.name.as_str()), summary.better == Better::None));
    summaries
}

fn summary((kind, metrics): &ValueGroup<'_>) -> MetricSummary {
    let (name, labels, unit, better, scope) = *kind;
    let subjects: BTreeSet<_> = metrics.iter().map(|(log, metric)| identity(log, metric)).collect();
    let values: Vec<_> =
        metrics.iter().filter_map(|(log, metric)| Some((metric.value?, *log, *metric))).collect();
    let measured: BTreeSet<_> = values.iter().map(|(_, log, metric)| identity(log, metric)).collect();
    let median = median(values.iter().map(|(value, ..)| *value).collect());
    let unmeasurable = || metrics.iter().filter_map(|(_, metric)| metric.unmeasurable.as_ref());
    MetricSummary {
        name: name.to_owned(),
        labels: labels.clone(),
        unit: unit.to_owned(),
        better,
        scope,
        subjects: subjects.len() as u64,
        measured: measured.len() as u64,
        values: values.len() as u64,
        unmeasurable: unmeasurable().count() as u64,
        reason: unmeasurable().next().map(|reason| reason.to_string()),
        median,
        worst: median.and_then(|median| worst(&values, better, median)),
    }
}

/// Equal subjects without a node are distinct in different logs, unless the subject is the whole cluster.
fn identity<'a>(log: &'a str, metric: &'a Metric) -> (&'a Subject, Option<&'a str>) {
    let subject = &metric.subject;
    let is_named = subject.node.is_some() || subject.rank.is_some() || metric.scope == Scope::World;
    (subject, (!is_named).then_some(log))
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    // Each value is halved before the addition, because the sum of two finite values may be infinite.
    Some(if values.len() % 2 == 1 { upper } else { values[values.len() / 2 - 1] / 2.0 + upper / 2.0 })
}

fn worst(values: &[(f64, &str, &Metric)], better: Better, median: f64) -> Option<WorstValue> {
    let badness = |value: f64| match better {
        Better::Higher => Some(-value),
        Better::Lower => Some(value),
        Better::Exact => Some((value - median).abs()),
        Better::None => None,
    };
    let mut found: Option<(f64, WorstValue)> = None;
    for (value, log, metric) in values {
        let bad = badness(*value)?;
        match &mut found {
            Some((known, worst)) if bad.total_cmp(known).is_eq() => worst.others += 1,
            Some((known, _)) if bad.total_cmp(known).is_lt() => {}
            found => {
                let (subject, log) = (metric.subject.clone(), (*log).to_owned());
                *found =
                    Some((bad, WorstValue { value: *value, subject, others: 0, log, line: metric.line }));
            }
        }
    }
    found.map(|(_, worst)| worst)
}

fn findings(logs: &[(&str, &Reading)]) -> Vec<FindingSummary> {
    let mut found: Vec<FindingSummary> = Vec::new();
    let mut positions = BTreeMap::new();
    for (log, finding) in logs.iter().flat_map(|(log, reading)| reading.all_findings().map(|it| (*log, it))) {
        let log_if_no_node = finding.subject.node.is_none().then_some(log);
        let at = *positions
            .entry((finding.code.as_str(), finding.severity, &finding.subject, log_if_no_node))
            .or_insert_with(|| {
                found.push(FindingSummary {
                    code: finding.code.clone(),
                    severity: finding.severity,
                    subject: finding.subject.clone(),
                    times: 0,
                    text: finding.text.clone(),
                    log: log.to_owned(),
                    line: finding.line,
                });
                found.len() - 1
            });
        found[at].times += 1;
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// The section of a report, as text: unescaped and bounded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MetricsSection {
    /// Program, number of values and end, for each kind of log.
    pub programs: Vec<String>,
    pub rows: Vec<ShownMetric>,
    pub more_rows: usize,
    /// Number of metrics without a measured value, by the program's reason: `17 metrics without a value: Waived`.
    pub unmeasured: Vec<String>,
    pub findings: Vec<ShownFinding>,
    pub more_findings: usize,
}

/// One metric over all its subjects, for display.
#[derive(Clone, Debug, Serialize)]
pub struct ShownMetric {
    /// Name and labels, such as `gemm.throughput dtype=bf16`.
    pub name: String,
    pub unit: String,
    /// Number of subjects; if some have no value, also the number of measured subjects: `7 of 8`.
    pub subjects: String,
    pub median: String,
    pub worst: String,
    /// The worst subject, and the number of equal values.
    pub subject: String,
    /// Whether the metric is evidence against a suspect.
    pub is_bad: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct ShownFinding {
    pub code: String,
    pub severity: &'static str,
    pub subject: String,
    /// The program's text, and the number of occurrences.
    pub text: String,
}

impl MetricsSection {
    /// The section with at most `rows` metrics and `findings` findings; `None` if no log has metrics or findings.
    pub fn of(input: &ReportInput<'_>, rows: usize, findings: usize) -> Option<Self> {
        let found = metrics(input);
        let programs = programs(input);
        if programs.is_empty() && found == Metrics::default() {
            return None;
        }
        let suspects = || input.reported_judgement().into_iter().flat_map(|judgement| &judgement.suspects);
        let is_bad = |name: &str| suspects().any(|it| it.evidence.iter().any(|evidence| evidence == name));
        let (measured, without): (Vec<_>, Vec<_>) = found.metrics.iter().partition(|row| row.values > 0);
        Some(Self {
            programs,
            rows: measured.iter().take(rows).map(|row| row_of(row, is_bad(&row.name))).collect(),
            more_rows: measured.len().saturating_sub(rows),
            unmeasured: unmeasured(&without),
            findings: found.findings.iter().take(findings).map(finding_of).collect(),
            more_findings: found.findings.len().saturating_sub(findings),
        })
    }
}

/// One line for each reason, most frequent first.
fn unmeasured(without: &[&MetricSummary]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for row in without {
        *reasons.entry(row.reason.as_deref().unwrap_or("no reason given")).or_default() += 1;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let more: u64 = reasons.iter().skip(PROGRAMS).map(|(_, times)| times).sum();
    let line = |times, why: &str| format!("{} without a value: {why}", text::count(times, "metric"));
    let named = reasons.iter().take(PROGRAMS).map(|(why, times)| line(*times, &text::shortened(why, NAME)));
    named.chain((more > 0).then(|| line(more, "other reasons"))).collect()
}

/// One line for each log of a program with metrics; for a run, one line for all of them.
fn programs(input: &ReportInput<'_>) -> Vec<String> {
    let logs = input.logs.iter().filter(|log| log.reading.format.is_some());
    let of = |log: &crate::ReportedLog<'_>| {
        let program = measured::text_without_table(log.reading)?;
        Some(if input.logs.len() > 1 { format!("{}: {program}", log.name) } else { program })
    };
    let mut programs: Vec<_> = logs.filter_map(of).collect();
    let more = programs.len().saturating_sub(PROGRAMS);
    programs.truncate(PROGRAMS);
    programs.extend((more > 0).then(|| format!("and {}", text::count(more as u64, "more log"))));
    programs
}

fn row_of(row: &MetricSummary, is_bad: bool) -> ShownMetric {
    let subjects = match row.measured == row.subjects {
        true => row.subjects.to_string(),
        false => format!("{} of {}", row.measured, row.subjects),
    };
    let worst = row.worst.as_ref();
    let subject = match worst {
        Some(WorstValue { subject, log, others: 0, .. }) => subject_or_log(subject, log),
        Some(WorstValue { others, .. }) if others + 1 == row.values => "all are equal".to_owned(),
        Some(WorstValue { subject, log, others, .. }) => {
            format!("{} and {others} more", subject_or_log(subject, log))
        }
        None => String::new(),
    };
    ShownMetric {
        name: name(row),
        unit: text::shortened(&row.unit, 16),
        subjects,
        median: row.median.map_or_else(|| "-".to_owned(), number),
        worst: worst.map_or_else(|| "-".to_owned(), |worst| number(worst.value)),
        subject,
        is_bad,
    }
}

/// The subject, or the log if no field of the subject is known.
pub fn subject_or_log(subject: &Subject, log: &str) -> String {
    let name = if subject.is_unknown() { log.to_owned() } else { subject.to_string() };
    text::shortened(&name, NAME)
}

fn finding_of(finding: &FindingSummary) -> ShownFinding {
    let times = match finding.times {
        1 => String::new(),
        times => format!(" ({times} times)"),
    };
    ShownFinding {
        code: text::shortened(&finding.code, 40),
        severity: severity(finding.severity),
        subject: subject_or_log(&finding.subject, &finding.log),
        text: text::shortened(&finding.text, 400) + &times,
    }
}

fn name(row: &MetricSummary) -> String {
    name_with_labels(&row.name, &row.labels)
}

/// A metric with its labels, such as `gemm.throughput dtype=bf16`, shortened.
pub(crate) fn name_with_labels(name: &str, labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(label, value)| format!(" {label}={value}"));
    text::shortened(&(name.to_owned() + &labels.collect::<String>()), NAME)
}

pub const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Unknown => "unknown",
        Severity::Software => "software",
        Severity::Configuration => "configuration",
        Severity::WrongData => "wrong data",
        Severity::Hardware => "hardware",
    }
}

/// A value as printed by the program, in at most twelve significant digits: a median may have more.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    match value == 0.0 || (1e-4..1e12).contains(&value.abs()) {
        true => rounded.to_string(),
        false => format!("{rounded:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn values_keep_the_digits_of_the_log() {
        for (value, expected) in [
            (0.0, "0"),
            (51.47, "51.47"),
            ((51.47 + 51.48) / 2.0, "51.475"),
            (0.0117, "0.0117"),
            (1_000_000.0, "1000000"),
            (123_456_789.25, "123456789.25"),
            (1.37e-9, "1.37e-9"),
            (6.02e23, "6.02e23"),
            (-3.5, "-3.5"),
            (f64::NAN, "n/a"),
        ] {
            assert_eq!(number(value), expected);
        }
    }
}
