//! Baseline of metrics: the median of healthy runs for each subject.

use std::collections::BTreeMap;

use model::{
    Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Severity},
};

use crate::{
    baseline::{Baseline, LEAST_SPREAD, MetricBaseline, MetricKey},
    fingerprint::Fingerprint,
    statistics::median,
};

use super::{Found, bounds::worse_by, listed, place};

/// Scales the median absolute deviation of normal noise to its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// Minimum accepted distance from the median, relative: with a few runs the spread is poorly known.
const LEAST: f64 = 0.05;
/// Accepted distance from the median, in robust standard deviations.
const SPREADS: f64 = 5.0;

fn key(metric: &Metric) -> MetricKey {
    MetricKey {
        name: metric.name.to_string(),
        unit: metric.unit.to_string(),
        better: metric.better,
        subject: place(&metric.subject),
        labels: metric.labels.clone(),
    }
}

/// Judged values: evidence without a direction is not part of a baseline.
fn values(reading: &Reading) -> BTreeMap<MetricKey, (f64, &Metric)> {
    let judged = reading.metrics.iter().filter(|metric| metric.better != Better::None);
    judged.filter_map(|metric| Some((key(metric), (metric.value?, metric)))).collect()
}

/// Why a log is not one complete healthy run, if it is not.
pub(crate) fn unfit(reading: &Reading) -> Option<String> {
    if reading.ended != LogEnd::Complete {
        return Some("it is not complete".to_owned());
    }
    let bad = |severity: Severity| matches!(severity, Severity::Hardware | Severity::WrongData);
    if let Some(finding) = reading.findings.iter().find(|finding| bad(finding.severity)) {
        return Some(format!("it has the finding {} on line {}", finding.code, finding.line));
    }
    values(reading).is_empty().then(|| "it has no judged value".to_owned())
}

/// Learns the metrics of healthy runs. Only values of every run are learned.
///
/// # Errors
/// Returns an error with the index of the first log that measures something else than the first one.
pub(crate) fn learn(readings: &[&Reading]) -> Result<Vec<MetricBaseline>, (usize, String)> {
    let runs: Vec<_> = readings.iter().map(|reading| values(reading)).collect();
    let Some(first) = runs.first() else { return Ok(Vec::new()) };
    for (log, run) in runs.iter().enumerate() {
        let differing = first.keys().find(|key| !run.contains_key(key));
        let differing = differing.or_else(|| run.keys().find(|key| !first.contains_key(key)));
        if let Some(MetricKey { name, subject, .. }) = differing {
            return Err((log, format!("{name} of {subject}")));
        }
    }
    let learned = |(key, (_, metric)): (&MetricKey, &(f64, &Metric))| {
        let all: Vec<f64> = runs.iter().filter_map(|run| run.get(key).map(|(value, _)| *value)).collect();
        let value = median(all.clone());
        let deviation = MAD_TO_SIGMA * median(all.iter().map(|other| (other - value).abs()).collect());
        let spread = if value == 0.0 { LEAST_SPREAD } else { (deviation / value.abs()).max(LEAST_SPREAD) };
        MetricBaseline { key: key.clone(), value, spread, resolution: metric.resolution }
    };
    Ok(first.iter().map(learned).collect())
}

/// Compares every value with the baseline of its subject.
pub(super) fn judge(reading: &Reading, baseline: &Baseline, fingerprint: &Fingerprint, found: &mut Found) {
    if baseline.metrics.is_empty() {
        let text = "the baseline is one of nccl-tests and has no metrics".to_owned();
        found.add(Verdict::Inconclusive, "BASELINE_OF_ANOTHER_PROGRAM", text);
        return;
    }
    let differences = baseline.fingerprint.differences(fingerprint);
    let changed: Vec<_> = differences.filter(|it| it.is_identity()).map(|it| it.to_string()).collect();
    if !changed.is_empty() {
        let text = format!("not comparable with the baseline: {}", changed.join(", "));
        found.add(Verdict::Inconclusive, "BASELINE_NOT_COMPARABLE", text);
        return;
    }
    let measured = values(reading);
    let missing = baseline.metrics.iter().filter(|learned| !measured.contains_key(&learned.key));
    let missing: Vec<_> = missing.map(|learned| described(&learned.key)).collect();
    if !missing.is_empty() {
        let text = format!("of the baseline's metrics these have no value: {}", listed(missing));
        found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
    }
    let mut worse = Vec::new();
    for learned in &baseline.metrics {
        let Some((value, metric)) = measured.get(&learned.key) else { continue };
        let accepted = (LEAST * learned.value.abs()).max(SPREADS * learned.spread * learned.value.abs());
        let accepted = accepted.max(learned.resolution.unwrap_or(0.0));
        if worse_by(metric.better, learned.value, *value) <= accepted {
            continue;
        }
        found.blame(&metric.subject, &metric.name, 0.8);
        let percent = 100.0 * (value / learned.value - 1.0);
        let text = format!(
            "{} {value} instead of {} {} ({percent:+.1} %, line {})",
            described(&learned.key),
            learned.value,
            metric.unit,
            metric.line
        );
        worse.push((worse_by(metric.better, learned.value, *value) / learned.value.abs(), text));
    }
    worse.sort_by(|a, b| b.0.total_cmp(&a.0));
    if !worse.is_empty() {
        let worse = listed(worse.into_iter().map(|(_, text)| text).collect());
        found.add(Verdict::Fail, "WORSE_THAN_BASELINE", format!("worse than the baseline: {worse}"));
    }
}

fn described(key: &MetricKey) -> String {
    let labels: String = key.labels.iter().map(|(name, value)| format!(" {name} {value}")).collect();
    format!("{}{labels} of {}", key.name, key.subject)
}
