//! Baseline of metrics: the median of healthy runs for each subject.

use std::collections::BTreeMap;

use model::{
    Criteria, PastTolerance, Settled, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Severity},
};

use crate::{
    baseline::document::{Baseline, CommonSpread, LEAST_SPREAD, MetricBaseline, MetricKey},
    fingerprint::Fingerprint,
    statistics::{deviation, median},
};

use super::{
    Found, listed,
    measured::{ByName, Measured, MeasuredValue, worse_by},
    place::{Place, owned},
    shift::{Shift, shift},
};

/// A [`MetricKey`], borrowed: a fleet has hundreds of thousands of values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BorrowedKey<'a> {
    name: &'a str,
    unit: &'a str,
    better: Better,
    place: Place<'a>,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> BorrowedKey<'a> {
    fn of(metric: &'a Metric) -> Self {
        let Metric { name, unit, better, subject, labels, .. } = metric;
        Self { name, unit, better: *better, place: Place::of(subject), labels }
    }

    fn learned(key: &'a MetricKey) -> Self {
        let MetricKey { name, unit, better, subject, labels } = key;
        Self { name, unit, better: *better, place: Place::of(subject), labels }
    }
}

fn key(metric: &Metric) -> MetricKey {
    MetricKey {
        name: metric.name.to_string(),
        unit: metric.unit.to_string(),
        better: metric.better,
        subject: owned(&metric.subject),
        labels: (*metric.labels).clone(),
    }
}

/// Judged values: evidence without a direction is not part of a baseline.
fn values(reading: &Reading) -> BTreeMap<BorrowedKey<'_>, (f64, &Metric)> {
    let judged = reading.metrics.iter().filter(|metric| metric.better != Better::None);
    judged.filter_map(|metric| Some((BorrowedKey::of(metric), (metric.value?, metric)))).collect()
}

/// Reason why a log is not a complete healthy run; `None` if it is one.
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

/// Learns the metrics of healthy runs. Only values that all runs measured are learned.
///
/// # Errors
/// Returns an error if the logs measure different values, with the index of the first differing log.
pub(crate) fn learn(readings: &[&Reading]) -> Result<Vec<MetricBaseline>, (usize, String)> {
    let runs: Vec<_> = readings.iter().map(|reading| values(reading)).collect();
    let Some(first) = runs.first() else { return Ok(Vec::new()) };
    for (log, run) in runs.iter().enumerate() {
        let differing = first.iter().find(|(key, _)| !run.contains_key(key));
        let differing = differing.or_else(|| run.iter().find(|(key, _)| !first.contains_key(key)));
        if let Some((_, (_, metric))) = differing {
            return Err((log, format!("{} of {}", metric.name, owned(&metric.subject))));
        }
    }
    let learned = |(at, (_, metric)): (&BorrowedKey<'_>, &(f64, &Metric))| {
        let all: Vec<f64> = runs.iter().filter_map(|run| run.get(at).map(|(value, _)| *value)).collect();
        let value = median(all.clone());
        let deviation = deviation(all.iter().copied(), value);
        let spread = if value == 0.0 { LEAST_SPREAD } else { (deviation / value.abs()).max(LEAST_SPREAD) };
        MetricBaseline { key: key(metric), value, spread, resolution: metric.resolution, common: None }
    };
    let mut all: Vec<_> = first.iter().map(learned).collect();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    add_common(&mut all, &runs);
    Ok(all)
}

/// Minimum number of runs that show how all subjects change together.
const RUNS_IN_COMMON: usize = 3;

/// Adds the changes that all subjects of a metric share from run to run.
fn add_common(learned: &mut [MetricBaseline], runs: &[BTreeMap<BorrowedKey<'_>, (f64, &Metric)>]) {
    if runs.len() < RUNS_IN_COMMON {
        return;
    }
    let mut means: BTreeMap<MetricIdentity, Vec<Vec<f64>>> = BTreeMap::new();
    for it in learned.iter().filter(|it| it.value != 0.0) {
        let of_metric = means.entry(kind(&it.key)).or_insert_with(|| vec![Vec::new(); runs.len()]);
        for (differences, run) in of_metric.iter_mut().zip(runs) {
            differences
                .extend(run.get(&BorrowedKey::learned(&it.key)).map(|(value, _)| value / it.value - 1.0));
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let spread = |differences: &Vec<Vec<f64>>| {
        let of_runs: Vec<f64> = differences.iter().map(|differences| mean(differences)).collect();
        let centre = mean(&of_runs);
        let squares: f64 = of_runs.iter().map(|it| (it - centre).powi(2)).sum();
        (squares / (of_runs.len() - 1) as f64).sqrt()
    };
    for it in learned {
        let deviation = means.get(&kind(&it.key)).map(spread);
        it.common = deviation.map(|deviation| CommonSpread { deviation, runs: runs.len() as u32 });
    }
}

/// Name, unit and labels, which all subjects of a metric have in common.
type MetricIdentity = (String, String, BTreeMap<String, String>);

fn kind(key: &MetricKey) -> MetricIdentity {
    (key.name.clone(), key.unit.clone(), key.labels.clone())
}

/// Compares every value with the baseline of its subject.
pub(super) fn judge<'a>(
    reading: &'a Reading,
    by_name: &ByName<'a>,
    (baseline, criteria): (&Baseline, &'a Criteria),
    fingerprint: &Fingerprint,
    found: &mut Found<'a>,
) {
    if baseline.metrics.is_empty() {
        let text = "the baseline was learned from nccl-tests and has no metrics".to_owned();
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
    let missing =
        baseline.metrics.iter().filter(|learned| !measured.contains_key(&BorrowedKey::learned(&learned.key)));
    let missing: Vec<_> = missing.map(|learned| described(&learned.key)).collect();
    if !missing.is_empty() {
        let text = format!("metrics of the baseline without a value: {}", listed(missing));
        found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
    }
    let mut worse = Vec::new();
    let mut compare = |value: MeasuredValue<'a>, learned: Learned, name: String| {
        let MeasuredValue { metric, value } = value;
        let PastTolerance { within, spreads } = criteria.past(metric);
        let accepted = within.max(spreads * learned.spread) * learned.value.abs();
        let distance = worse_by(metric.better, learned.value, value);
        if distance <= accepted.max(learned.resolution) {
            return;
        }
        found.blame_value(metric, 0.8);
        let percent = 100.0 * (value / learned.value - 1.0);
        let text = format!(
            "{name} {value} instead of {} {} ({percent:+.1} %, line {})",
            learned.value, metric.unit, metric.line
        );
        worse.push((distance / learned.value.abs(), text));
    };
    let mut differences: BTreeMap<_, Differences> = BTreeMap::new();
    for learned in &baseline.metrics {
        let Some((value, metric)) = measured.get(&BorrowedKey::learned(&learned.key)) else { continue };
        if criteria.settled(metric).is_none() {
            let key = &learned.key;
            if learned.value != 0.0 {
                let of_metric = differences.entry((&key.name, &key.unit, &key.labels)).or_default();
                of_metric.add(value / learned.value - 1.0, learned);
            }
            let value = MeasuredValue { metric, value: *value };
            compare(value, Learned::of(&[learned]), described(key));
        }
    }
    let settled =
        criteria.metrics.iter().filter_map(|criterion| Some((criterion, criterion.settled.as_ref()?)));
    for (criterion, window) in settled {
        let of_criterion = Measured::of(by_name, criterion);
        for value in of_criterion.values().into_iter().filter(|value| value.metric.better != Better::None) {
            let in_window = |it: &&MetricBaseline| is_in_window(&it.key, window, value.metric);
            let learned: Vec<_> = baseline.metrics.iter().filter(in_window).collect();
            if !learned.is_empty() {
                compare(value, Learned::of(&learned), of_criterion.name.clone());
            }
        }
    }
    worse.sort_by(|a, b| b.0.total_cmp(&a.0));
    let tests = differences.len();
    for ((name, _, labels), Differences { relative, resolution, common }) in differences {
        if let Some(Shift { mean, error, subjects }) = shift(relative, (resolution, common), tests) {
            let labels: String = labels.iter().map(|(name, value)| format!(" {name} {value}")).collect();
            let (mean, error) = (100.0 * mean, 100.0 * error);
            let text = format!(
                "{name}{labels} changed by {mean:+.2} % (+/- {error:.2} %) since the baseline on {subjects} subjects together"
            );
            found.add(Verdict::Pass, "SHIFTED", text);
        }
    }
    if !worse.is_empty() {
        let worse = listed(worse.into_iter().map(|(_, text)| text).collect());
        found.add(Verdict::Fail, "WORSE_THAN_BASELINE", format!("worse than the baseline: {worse}"));
    }
}

/// Relative differences of all subjects of a metric from their past.
#[derive(Default)]
struct Differences {
    relative: Vec<f64>,
    /// The largest printed step, relative to its value.
    resolution: f64,
    common: Option<CommonSpread>,
}

impl Differences {
    fn add(&mut self, relative: f64, learned: &MetricBaseline) {
        self.relative.push(relative);
        self.common = learned.common;
        self.resolution = self.resolution.max(learned.resolution.unwrap_or(0.0) / learned.value.abs());
    }
}

/// The baseline of one compared value.
struct Learned {
    value: f64,
    spread: f64,
    resolution: f64,
}

impl Learned {
    /// The medians of the learned values: a single value, or the values of a window. `learned` is not empty.
    fn of(learned: &[&MetricBaseline]) -> Self {
        Self {
            value: median(learned.iter().map(|it| it.value).collect()),
            spread: median(learned.iter().map(|it| it.spread).collect()),
            resolution: learned.iter().filter_map(|it| it.resolution).fold(0.0, f64::max),
        }
    }
}

/// Whether a learned value belongs to the settled window of this metric.
fn is_in_window(key: &MetricKey, window: &Settled, metric: &Metric) -> bool {
    let others = |(name, _): &(&String, &String)| **name != window.by;
    *metric.name == *key.name
        && *metric.unit == *key.unit
        && Place::of_metric(metric) == Place::of(&key.subject)
        && metric.labels.iter().filter(others).eq(key.labels.iter().filter(others))
        && window.contains(&key.labels)
}

fn described(key: &MetricKey) -> String {
    let labels: String = key.labels.iter().map(|(name, value)| format!(" {name} {value}")).collect();
    format!("{}{labels} of {}", key.name, key.subject)
}
