//! Comparison of a run with the learned values of its subjects and metrics.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Criteria, PastTolerance, Settled, Verdict,
    measurement::Reading,
    metric::{Better, Metric, Subject},
};

use crate::{
    baseline::document::{Baseline, CommonSpread, MetricBaseline, MetricFleet, MetricKey, Tiers},
    fingerprint::Fingerprint,
    standard::Standard,
    statistics::median,
};

use super::{
    FoundReasons, fleet,
    keys::{BorrowedKey, FleetName, SubjectValues, described, values},
    levels::SubjectIndex,
    listed,
    measured::{ByName, Measured, MeasuredValue, worse_by},
    position::{SubjectPosition, owned},
    shift::{Shift, shift},
    tiers::healthy,
};

/// Compares every value with the baseline of its subject, and every metric with its history.
pub(super) fn judge<'a>(
    reading: &'a Reading,
    by_name: &ByName<'a>,
    (baseline, criteria, standard): (&Baseline, &'a Criteria, &Standard<'_>),
    fingerprint: &Fingerprint,
    found: &mut FoundReasons<'a>,
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
    let is_stated = standard.learned.iter().any(|reason| reason.code == "PAST_INCOMPLETE");
    unpaired(reading, &measured, (baseline, criteria, is_stated), found);
    let index = SubjectIndex::of(baseline);
    let mut worse = Vec::new();
    let mut at_other: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut failed: BTreeSet<&str> = BTreeSet::new();
    let mut compare = |value: MeasuredValue<'a>, learned: Learned, name: String| {
        let MeasuredValue { metric, value } = value;
        let PastTolerance { within, spreads } = criteria.past(metric);
        let accepted = (within.max(spreads * learned.spread) * learned.value.abs()).max(learned.resolution);
        let distance = worse_by(metric.better, learned.value, value);
        if distance <= accepted {
            return;
        }
        let is_at_other = |tiers: &Tiers| {
            (value - tiers.other(learned.value)).abs() <= accepted.min(tiers.half()).max(learned.resolution)
        };
        if learned.tiers.as_ref().is_some_and(is_at_other) {
            at_other.entry(&metric.name).or_default().push(owned(&metric.subject).to_string());
            return;
        }
        found.blame_value(metric, 0.8);
        failed.insert(&metric.name);
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
            let tiers = index.tiers(key);
            if learned.value != 0.0 {
                let of_metric = differences.entry((&key.name, &key.unit, &key.labels)).or_default();
                of_metric.add(value / healthy(tiers, learned.value, *value) - 1.0, learned);
            }
            let value = MeasuredValue { metric, value: *value };
            compare(value, Learned::of(&[learned], tiers), described(key));
        }
    }
    // A metric with the direction `exact` has no worse value of a key: compare all values, not only the one in `measured`.
    let exact = reading.metrics.iter().filter(|metric| metric.better == Better::Exact);
    for metric in exact.filter(|metric| criteria.settled(metric).is_none() && !is_running_total(metric)) {
        let is_compared = measured
            .get(&BorrowedKey::of(metric))
            .is_some_and(|(_, compared)| std::ptr::eq(*compared, metric));
        let (Some(value), Some(learned), false) = (metric.value, index.learned(metric), is_compared) else {
            continue;
        };
        let name = described(&learned.key);
        compare(MeasuredValue { metric, value }, Learned::of(&[learned], None), name);
    }
    let settled =
        criteria.metrics.iter().filter_map(|criterion| Some((criterion, criterion.settled.as_ref()?)));
    for (criterion, window) in settled {
        let of_criterion = Measured::of(by_name, criterion);
        for value in of_criterion.values().into_iter().filter(|value| value.metric.better != Better::None) {
            let in_window = |it: &&MetricBaseline| is_in_window(&it.key, window, value.metric);
            let learned: Vec<_> = baseline.metrics.iter().filter(in_window).collect();
            if let Some(first) = learned.first() {
                let tiers = index.tiers(&first.key);
                compare(value, Learned::of(&learned, tiers), of_criterion.name.clone());
            }
        }
    }
    worse.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (name, subjects) in at_other {
        let count = subjects.len();
        let text = format!(
            "{name}: {count} subjects changed to the other of two healthy levels: {}",
            listed(subjects)
        );
        found.add(Verdict::Pass, "TWO_LEVELS", text);
    }
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
    // A metric that is worse in this run is reported once.
    let steady = |fleet: &MetricFleet| !failed.contains(fleet.key.name.as_str());
    fleet::changes(
        baseline,
        criteria,
        standard,
        (index.levels(&reading.metrics), steady),
        &mut found.reasons,
    );
    if !worse.is_empty() {
        let worse = listed(worse.into_iter().map(|(_, text)| text).collect());
        found.add(Verdict::Fail, "WORSE_THAN_BASELINE", format!("worse than the baseline: {worse}"));
    }
}

/// Reports the values that are only in the baseline or only in this run, because each subject is compared with its own past. Missing values
/// of a node that this run measured, and a run or a baseline with less than half of the values, are inconclusive.
fn unpaired(
    reading: &Reading,
    measured: &SubjectValues<'_>,
    (baseline, criteria, is_stated): (&Baseline, &Criteria, bool),
    found: &mut FoundReasons<'_>,
) {
    let subjects = || reading.metrics.iter().map(|metric| &metric.subject);
    let mut nodes: BTreeSet<_> = subjects().filter_map(|subject| subject.node.as_deref()).collect();
    nodes.extend(subjects().filter_map(peer_node));
    let windows: BTreeMap<(&str, SubjectPosition<'_>), &Metric> = measured
        .values()
        .filter(|(_, metric)| criteria.settled(metric).is_some())
        .map(|(_, metric)| ((&*metric.name, SubjectPosition::of_metric(metric)), *metric))
        .collect();
    let (mut missing, mut other_nodes) = (Vec::new(), Vec::new());
    for learned in &baseline.metrics {
        let key = &learned.key;
        // The number of values in a window depends on the duration of the run: the criterion states the minimum.
        if measured.contains_key(&BorrowedKey::learned(key))
            || windows.contains_key(&(key.name.as_str(), SubjectPosition::of(&key.subject)))
        {
            continue;
        }
        let mut ends = key.subject.node.as_deref().into_iter().chain(peer_node(&key.subject));
        let elsewhere = !nodes.is_empty() && ends.any(|node| !nodes.contains(node));
        if elsewhere { &mut other_nodes } else { &mut missing }.push(described(key));
    }
    let few = 2 * (missing.len() + other_nodes.len()) > baseline.metrics.len();
    if few {
        missing.append(&mut other_nodes);
    }
    if !missing.is_empty() {
        let text = format!("metrics of the baseline without a value: {}", listed(missing));
        found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
    }
    let count = |values: usize| model::count(values as u64, "value");
    if !other_nodes.is_empty() {
        let text = format!(
            "this run did not measure the nodes of {} of the baseline: {}",
            count(other_nodes.len()),
            listed(other_nodes)
        );
        found.add(Verdict::Pass, "PAST_INCOMPLETE", text);
    }
    let learned: BTreeSet<_> = baseline.metrics.iter().map(|it| BorrowedKey::learned(&it.key)).collect();
    let known: BTreeSet<_> = learned.iter().map(FleetName::of).collect();
    let of_known: Vec<_> = measured.iter().filter(|(at, _)| known.contains(&FleetName::of(at))).collect();
    let new = of_known
        .iter()
        .filter(|(at, (_, metric))| !learned.contains(*at) && criteria.settled(metric).is_none());
    let new: Vec<_> = new.map(|(_, (_, metric))| described(&BorrowedKey::of(metric).owned())).collect();
    // If the baseline was learned for this run, the reasons of the learning already state the new values.
    if !new.is_empty() && !is_stated {
        let few = 2 * new.len() > of_known.len();
        let weighs = if few { Verdict::Inconclusive } else { Verdict::Pass };
        let text =
            format!("{} of {} have no baseline value: {}", new.len(), count(of_known.len()), listed(new));
        found.add(weighs, "PAST_INCOMPLETE", text);
    }
}

/// Whether the metric is a total that a training log prints after each iteration: only the last value is the result.
fn is_running_total(metric: &Metric) -> bool {
    matches!(&*metric.name, "training.nan_iterations" | "training.skipped_iterations")
}

/// The second node of a pair of nodes. The other end of a pair of GPUs is not a node.
fn peer_node(subject: &Subject) -> Option<&str> {
    subject.peer.as_deref().filter(|_| subject.node.is_some() && subject.gpu.is_none())
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
    tiers: Option<Tiers>,
}

impl Learned {
    /// The medians of the learned values: a single value, or the values of a window. `learned` is not empty.
    fn of(learned: &[&MetricBaseline], tiers: Option<Tiers>) -> Self {
        Self {
            value: median(learned.iter().map(|it| it.value).collect()),
            spread: median(learned.iter().map(|it| it.spread).collect()),
            resolution: learned.iter().filter_map(|it| it.resolution).fold(0.0, f64::max),
            tiers,
        }
    }
}

/// Whether a learned value belongs to the settled window of this metric.
fn is_in_window(key: &MetricKey, window: &Settled, metric: &Metric) -> bool {
    let others = |(name, _): &(&String, &String)| **name != window.by;
    *metric.name == *key.name
        && *metric.unit == *key.unit
        && SubjectPosition::of_metric(metric) == SubjectPosition::of(&key.subject)
        && metric.labels.iter().filter(others).eq(key.labels.iter().filter(others))
        && window.contains(&key.labels)
}
