//! Baseline of metrics: the median of healthy runs for each subject.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Criteria, PastTolerance, Settled, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Severity, Subject},
};

use crate::{
    baseline::document::{
        Baseline, CommonSpread, FleetKey, LEAST_SPREAD, MetricBaseline, MetricFleet, MetricKey, Tiers,
    },
    fingerprint::Fingerprint,
    standard::Standard,
    statistics::{deviation, median},
};

use super::{
    FoundReasons, fleet, listed,
    measured::{ByName, Measured, MeasuredValue, worse_by},
    place::{SubjectPlace, owned},
    shift::{Shift, shift},
    tiers::{healthy, tiers},
};

/// A [`MetricKey`], borrowed: a fleet has hundreds of thousands of values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BorrowedKey<'a> {
    name: &'a str,
    unit: &'a str,
    better: Better,
    place: SubjectPlace<'a>,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> BorrowedKey<'a> {
    fn of(metric: &'a Metric) -> Self {
        let Metric { name, unit, better, subject, labels, .. } = metric;
        Self { name, unit, better: *better, place: SubjectPlace::of(subject), labels }
    }

    fn learned(key: &'a MetricKey) -> Self {
        let MetricKey { name, unit, better, subject, labels } = key;
        Self { name, unit, better: *better, place: SubjectPlace::of(subject), labels }
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
fn values(reading: &Reading) -> SubjectValues<'_> {
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

/// Metrics learned from healthy runs.
#[derive(Debug, Default)]
pub(crate) struct LearnedMetrics {
    pub(crate) metrics: Vec<MetricBaseline>,
    pub(crate) fleets: Vec<MetricFleet>,
}

type SubjectValues<'a> = BTreeMap<BorrowedKey<'a>, (f64, &'a Metric)>;

/// Learns the metrics of healthy runs. Only values that all runs measured are learned.
///
/// # Errors
/// Returns an error if the logs measure different values, with the index of the first differing log.
pub(crate) fn learn(readings: &[&Reading]) -> Result<LearnedMetrics, (usize, String)> {
    let runs: Vec<_> = readings.iter().map(|reading| values(reading)).collect();
    let Some(first) = runs.first() else { return Ok(LearnedMetrics::default()) };
    for (log, run) in runs.iter().enumerate() {
        let differing = first.iter().find(|(key, _)| !run.contains_key(key));
        let differing = differing.or_else(|| run.iter().find(|(key, _)| !first.contains_key(key)));
        if let Some((_, (_, metric))) = differing {
            return Err((log, format!("{} of {}", metric.name, owned(&metric.subject))));
        }
    }
    Ok(learned(first.keys().copied(), &runs, runs.len()))
}

/// Learns the values of `current` that at least `fewest` runs have, each from its `most` oldest runs, and the values that `current` has
/// [`lost`]. Returns them with the number of runs,
/// from the first one, that they were learned from, and the other values of `current`.
pub(crate) fn learn_paired(
    readings: &[&Reading],
    current: &Reading,
    (fewest, most): (usize, usize),
) -> (LearnedMetrics, usize, Vec<String>) {
    let runs: Vec<_> = readings.iter().map(|reading| values(reading)).collect();
    let current = values(current);
    let (mut keys, mut missing, mut used) = (Vec::new(), Vec::new(), 0);
    for at in lost(&runs, &current, fewest) {
        let with = runs.iter().enumerate().filter(|(_, run)| run.contains_key(&at)).take(most);
        used = used.max(with.map(|(run, _)| run + 1).last().unwrap_or(0));
        keys.push(at);
    }
    for (at, (_, metric)) in &current {
        let mut with = runs.iter().enumerate().filter(|(_, run)| run.contains_key(at)).take(most);
        let known: Vec<_> = with.by_ref().map(|(run, _)| run).collect();
        match known.last() {
            Some(last) if known.len() >= fewest => {
                keys.push(*at);
                used = used.max(last + 1);
            }
            _ => missing.push(described(&key(metric))),
        }
    }
    (learned(keys.into_iter(), &runs[..used], most), used, missing)
}

/// Values that this run lacks although it measured their nodes: the newest run on the node and at least `fewest` runs have them. They are
/// learned, so that the comparison reports them as missing.
fn lost<'a>(
    runs: &[SubjectValues<'a>],
    current: &SubjectValues<'_>,
    fewest: usize,
) -> BTreeSet<BorrowedKey<'a>> {
    // Values of the whole job have no node.
    let nodes: BTreeSet<Option<&str>> = current.keys().map(|at| at.place.node()).chain([None]).collect();
    let mut newest: BTreeMap<Option<&str>, &SubjectValues<'a>> = BTreeMap::new();
    for run in runs.iter().rev() {
        for at in run.keys().filter(|at| nodes.contains(&at.place.node())) {
            newest.entry(at.place.node()).or_insert(run);
        }
    }
    let of_newest = newest.iter().flat_map(|(node, run)| run.keys().filter(|at| at.place.node() == *node));
    let is_lost = |at: &&BorrowedKey<'a>| {
        !current.contains_key(*at) && runs.iter().filter(|run| run.contains_key(*at)).count() >= fewest
    };
    of_newest.filter(is_lost).copied().collect()
}

/// Learns these values, each from the first `most` runs that have it.
fn learned<'a>(
    keys: impl Iterator<Item = BorrowedKey<'a>>,
    runs: &[SubjectValues<'a>],
    most: usize,
) -> LearnedMetrics {
    let mut by_fleet: BTreeMap<FleetName<'a>, Vec<BorrowedKey<'a>>> = BTreeMap::new();
    for at in keys {
        by_fleet.entry(FleetName::of(&at)).or_default().push(at);
    }
    let mut all = LearnedMetrics::default();
    for (name, keys) in by_fleet {
        let of_key = |at: &BorrowedKey<'a>| -> Vec<(usize, f64, &Metric)> {
            let known = runs.iter().enumerate();
            known
                .filter_map(|(run, values)| values.get(at).map(|(value, it)| (run, *value, *it)))
                .take(most)
                .collect()
        };
        let measured: Vec<_> = keys.iter().map(of_key).filter(|values| !values.is_empty()).collect();
        let mut by_run = vec![Vec::new(); runs.len()];
        let mut resolution: f64 = 0.0;
        for (run, value, metric) in measured.iter().flatten() {
            by_run[*run].push(*value);
            resolution = resolution.max(metric.resolution.unwrap_or(0.0));
        }
        let tiers = tiers(&by_run, resolution).filter(|_| name.better != Better::Exact);
        let mut differences = vec![Vec::new(); runs.len()];
        let from = all.metrics.len();
        for values in &measured {
            let plain: Vec<f64> = values.iter().map(|(_, value, _)| *value).collect();
            let (value, spread) = match tiers {
                Some(tiers) => tiers.middle(&plain),
                None => {
                    let value = median(plain.clone());
                    let deviation = deviation(plain.into_iter(), value);
                    (value, if value == 0.0 { 0.0 } else { deviation / value.abs() })
                }
            };
            let metric = values[0].2;
            let spread = spread.max(LEAST_SPREAD);
            all.metrics.push(MetricBaseline {
                key: key(metric),
                value,
                spread,
                resolution: metric.resolution,
                common: None,
            });
            for (run, measured, _) in values.iter().filter(|_| value != 0.0) {
                differences[*run].push(measured / healthy(tiers, value, *measured) - 1.0);
            }
        }
        let common = common(&differences);
        all.metrics[from..].iter_mut().filter(|it| it.value != 0.0).for_each(|it| it.common = common);
        let level = |differences: Vec<f64>| fleet::level(name.better, differences);
        all.fleets.push(MetricFleet {
            key: name.owned(),
            levels: differences.into_iter().map(level).collect(),
            tiers,
        });
    }
    all.metrics.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

/// Minimum number of runs that show how all subjects change together.
const RUNS_IN_COMMON: usize = 3;

/// The changes that all subjects of a metric share from run to run. `differences`: those of each run.
fn common(differences: &[Vec<f64>]) -> Option<CommonSpread> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let of_runs: Vec<f64> = differences.iter().filter(|run| !run.is_empty()).map(|run| mean(run)).collect();
    if of_runs.len() < RUNS_IN_COMMON {
        return None;
    }
    let centre = mean(&of_runs);
    let squares: f64 = of_runs.iter().map(|it| (it - centre).powi(2)).sum();
    let deviation = (squares / (of_runs.len() - 1) as f64).sqrt();
    Some(CommonSpread { deviation, runs: of_runs.len() as u32 })
}

/// Name, unit, direction and labels, which all subjects of a metric have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FleetName<'a> {
    name: &'a str,
    unit: &'a str,
    better: Better,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> FleetName<'a> {
    const fn of(key: &BorrowedKey<'a>) -> Self {
        let BorrowedKey { name, unit, better, labels, place: _ } = *key;
        Self { name, unit, better, labels }
    }

    fn learned(key: &'a FleetKey) -> Self {
        let FleetKey { name, unit, better, labels } = key;
        Self { name, unit, better: *better, labels }
    }

    fn owned(&self) -> FleetKey {
        FleetKey {
            name: self.name.to_owned(),
            unit: self.unit.to_owned(),
            better: self.better,
            labels: self.labels.clone(),
        }
    }
}

/// The learned values by subject, and the tiers by metric.
struct SubjectIndex<'a> {
    learned: BTreeMap<BorrowedKey<'a>, &'a MetricBaseline>,
    fleets: BTreeMap<FleetName<'a>, (usize, Option<Tiers>)>,
}

impl<'a> SubjectIndex<'a> {
    fn of(baseline: &'a Baseline) -> Self {
        let learned = baseline.metrics.iter().map(|it| (BorrowedKey::learned(&it.key), it)).collect();
        let fleets = baseline.fleets.iter().enumerate();
        let fleets = fleets.map(|(at, it)| (FleetName::learned(&it.key), (at, it.tiers))).collect();
        Self { learned, fleets }
    }

    fn tiers(&self, key: &MetricKey) -> Option<Tiers> {
        self.fleets.get(&FleetName::of(&BorrowedKey::learned(key))).and_then(|(_, tiers)| *tiers)
    }

    /// The level of each metric of a run, in the order of the baseline's fleets.
    fn levels(&self, metrics: &[Metric]) -> Vec<Option<f64>> {
        let mut differences = vec![Vec::new(); self.fleets.len()];
        for metric in metrics {
            let key = BorrowedKey::of(metric);
            let (Some(value), Some(learned)) = (metric.value, self.learned.get(&key)) else { continue };
            let Some((at, tiers)) = self.fleets.get(&FleetName::of(&key)) else { continue };
            if learned.value != 0.0 {
                differences[*at].push(value / healthy(*tiers, learned.value, value) - 1.0);
            }
        }
        let mut levels = vec![None; differences.len()];
        for (name, (at, _)) in &self.fleets {
            levels[*at] = fleet::level(name.better, std::mem::take(&mut differences[*at]));
        }
        levels
    }
}

impl Baseline {
    /// The level of each metric of later runs, in the order of [`Baseline::fleets`]: the median over its subjects of the excess over their
    /// healthy values in the worse direction, relative.
    pub fn fleet_levels<'a>(&self, runs: impl IntoIterator<Item = &'a [Metric]>) -> Vec<Vec<Option<f64>>> {
        let index = SubjectIndex::of(self);
        runs.into_iter().map(|metrics| index.levels(metrics)).collect()
    }

    /// A baseline with its fleets, which one of an older version lacks.
    #[must_use]
    pub fn with_fleets(mut self) -> Self {
        if self.fleets.is_empty() {
            let names: BTreeSet<_> =
                self.metrics.iter().map(|it| FleetName::of(&BorrowedKey::learned(&it.key))).collect();
            let fleet =
                |name: FleetName<'_>| MetricFleet { key: name.owned(), levels: Vec::new(), tiers: None };
            self.fleets = names.into_iter().map(fleet).collect();
        }
        self
    }
}

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

/// States the values that only the baseline or only this run has: each subject is compared with its own past. Missing values of a
/// node that this run measured, and a run or a baseline with less than half of the values, are inconclusive.
fn unpaired(
    reading: &Reading,
    measured: &SubjectValues<'_>,
    (baseline, criteria, is_stated): (&Baseline, &Criteria, bool),
    found: &mut FoundReasons<'_>,
) {
    let subjects = || reading.metrics.iter().map(|metric| &metric.subject);
    let mut nodes: BTreeSet<_> = subjects().filter_map(|subject| subject.node.as_deref()).collect();
    nodes.extend(subjects().filter_map(peer_node));
    let windows: BTreeMap<(&str, SubjectPlace<'_>), &Metric> = measured
        .values()
        .filter(|(_, metric)| criteria.settled(metric).is_some())
        .map(|(_, metric)| ((&*metric.name, SubjectPlace::of_metric(metric)), *metric))
        .collect();
    let (mut missing, mut other_nodes) = (Vec::new(), Vec::new());
    for learned in &baseline.metrics {
        let key = &learned.key;
        // The number of values in a window depends on the duration of the run: the criterion states the minimum.
        if measured.contains_key(&BorrowedKey::learned(key))
            || windows.contains_key(&(key.name.as_str(), SubjectPlace::of(&key.subject)))
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
            "{} of the baseline are of nodes that this run did not measure: {}",
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
    let new: Vec<_> = new.map(|(_, (_, metric))| described(&key(metric))).collect();
    // The learned reasons state them if the baseline was learned for this run.
    if !new.is_empty() && !is_stated {
        let few = 2 * new.len() > of_known.len();
        let weighs = if few { Verdict::Inconclusive } else { Verdict::Pass };
        let text = format!("{} of {} have no past: {}", new.len(), count(of_known.len()), listed(new));
        found.add(weighs, "PAST_INCOMPLETE", text);
    }
}

/// The second node of a pair of nodes. The other end of a pair of GPUs is no node.
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
        && SubjectPlace::of_metric(metric) == SubjectPlace::of(&key.subject)
        && metric.labels.iter().filter(others).eq(key.labels.iter().filter(others))
        && window.contains(&key.labels)
}

fn described(key: &MetricKey) -> String {
    let labels: String = key.labels.iter().map(|(name, value)| format!(" {name} {value}")).collect();
    format!("{}{labels} of {}", key.name, key.subject)
}
