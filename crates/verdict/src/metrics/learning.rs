//! Learning of metrics: the median of healthy runs for each subject.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Severity},
};

use crate::{
    baseline::document::{CommonSpread, LEAST_SPREAD, MetricBaseline, MetricFleet, MetricKey},
    statistics::{deviation, median},
};

use super::{
    ambiguous, fleet,
    keys::{BorrowedKey, FleetName, described, values, worse},
    position::owned,
    tiers::{healthy, tiers},
};

/// Reason why a log is not a complete healthy run; `None` if it is one.
pub(crate) fn unfit(reading: &Reading) -> Option<String> {
    if reading.ended != LogEnd::Complete {
        return Some("the log is incomplete".to_owned());
    }
    let bad = |severity: Severity| matches!(severity, Severity::Hardware | Severity::WrongData);
    if let Some(finding) = reading.findings.iter().find(|finding| bad(finding.severity)) {
        return Some(format!("line {} has the finding {}", finding.line, finding.code));
    }
    let judged = reading.metrics.iter().filter(|metric| metric.better != Better::None);
    if ambiguous::has_one_value_per_key(reading)
        && let Some(contradiction) = ambiguous::contradicting(judged).first()
    {
        return Some(format!("the log has different values of one metric: {contradiction}"));
    }
    values(reading).is_empty().then(|| "the log has no judged value".to_owned())
}

/// Metrics learned from healthy runs.
#[derive(Debug, Default)]
pub(crate) struct LearnedMetrics {
    pub(crate) metrics: Vec<MetricBaseline>,
    pub(crate) fleets: Vec<MetricFleet>,
    /// The levels of the metrics in the later runs, oldest first.
    pub(crate) later: Vec<Vec<Option<f64>>>,
}

/// Learns the metrics of healthy runs. Only values that all runs measured are learned.
///
/// # Errors
/// Returns an error if the logs measure different values, with the index of the first differing log.
pub(crate) fn learn(readings: &[&Reading]) -> Result<LearnedMetrics, (usize, String)> {
    let runs: Vec<_> = readings.iter().map(|reading| values(reading)).collect();
    let (Some(first), Some(reading)) = (runs.first(), readings.first()) else {
        return Ok(LearnedMetrics::default());
    };
    for (log, run) in runs.iter().enumerate() {
        let differing = first.iter().find(|(key, _)| !run.contains_key(key));
        let differing = differing.or_else(|| run.iter().find(|(key, _)| !first.contains_key(key)));
        if let Some((_, (_, metric))) = differing {
            return Err((log, format!("{} of {}", metric.name, owned(&metric.subject))));
        }
    }
    let mut history = MetricHistory::of(reading);
    readings.iter().for_each(|reading| history.add(&reading.metrics));
    let all: Vec<_> = (0..readings.len()).collect();
    let keys = history.own.iter().map(|(key, at)| (*key, *at)).collect();
    Ok(history.learned(keys, &all, readings.len()))
}

/// The values of earlier runs that a run is compared with: the values of its nodes and of the whole job. Each is one number, 8 bytes,
/// because the metrics of hundreds of runs of a large fleet would need gigabytes.
#[derive(Debug)]
pub struct MetricHistory<'a> {
    /// Position in `runs` of each value that the run has.
    own: BTreeMap<BorrowedKey<'a>, usize>,
    /// Position in `runs` of each value that only earlier runs have.
    lost: BTreeMap<MetricKey, usize>,
    /// The nodes of the run; `None`: the whole job.
    nodes: BTreeSet<Option<&'a str>>,
    /// Printed resolution of each value, by position.
    resolutions: Vec<Option<f64>>,
    /// The values of each run, by position: NaN if the run lacks the value. The last positions may be absent.
    runs: Vec<Vec<f64>>,
}

impl<'a> MetricHistory<'a> {
    /// The history of this run, without earlier runs.
    #[must_use]
    pub fn of(current: &'a Reading) -> Self {
        let own: BTreeMap<_, _> = values(current).into_keys().zip(0..).collect();
        let nodes = own.keys().map(|at| at.position.node()).chain([None]).collect();
        let resolutions = vec![None; own.len()];
        Self { own, lost: BTreeMap::new(), nodes, resolutions, runs: Vec::new() }
    }

    /// Adds the next run, oldest first.
    pub fn add(&mut self, metrics: &[Metric]) {
        let mut run = vec![f64::NAN; self.resolutions.len()];
        for metric in metrics.iter().filter(|metric| metric.better != Better::None) {
            let key = BorrowedKey::of(metric);
            let Some(value) = metric.value.filter(|_| self.nodes.contains(&key.position.node())) else {
                continue;
            };
            let at = match self.own.get(&key) {
                Some(at) => *at,
                None => *self.lost.entry(key.owned()).or_insert_with(|| {
                    self.resolutions.push(None);
                    self.resolutions.len() - 1
                }),
            };
            if run.len() <= at {
                run.resize(at + 1, f64::NAN);
            }
            run[at] = worse(metric.better, run[at], value);
            self.resolutions[at] = self.resolutions[at].or(metric.resolution);
        }
        self.runs.push(run);
    }

    fn value(&self, run: usize, at: usize) -> Option<f64> {
        self.runs[run].get(at).copied().filter(|value| !value.is_nan())
    }

    /// Learns the values of the run that at least `fewest` of the runs `passed` have, each from the `most` oldest ones, and the values
    /// that the run has [lost](Self::missing_values). Returns them with the other values of the run.
    pub(crate) fn learn(
        &self,
        passed: &[usize],
        (fewest, most): (usize, usize),
    ) -> (LearnedMetrics, Vec<String>) {
        let is_known =
            |at: usize| passed.iter().filter(|run| self.value(**run, at).is_some()).nth(fewest - 1);
        let (mut keys, mut missing) = (self.missing_values(passed, fewest), Vec::new());
        for (key, at) in &self.own {
            match is_known(*at) {
                Some(_) => keys.push((*key, *at)),
                None => missing.push(described(&key.owned())),
            }
        }
        (self.learned(keys, passed, most), missing)
    }

    /// Values that the run lacks although it measured their nodes: the newest run on the node and at least `fewest` runs have them. They
    /// are learned, so that the comparison reports them as missing.
    fn missing_values(&self, passed: &[usize], fewest: usize) -> Vec<(BorrowedKey<'_>, usize)> {
        let mut newest: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        let lost = || self.lost.iter().map(|(key, at)| (BorrowedKey::learned(key), *at));
        if self.lost.is_empty() {
            return Vec::new();
        }
        let all: Vec<_> = self.own.iter().map(|(key, at)| (*key, *at)).chain(lost()).collect();
        for run in passed.iter().rev() {
            for (key, _) in all.iter().filter(|(_, at)| self.value(*run, *at).is_some()) {
                newest.entry(key.position.node()).or_insert(*run);
            }
        }
        let is_lost = |(key, at): &(BorrowedKey<'_>, usize)| {
            newest.get(&key.position.node()).is_some_and(|run| self.value(*run, *at).is_some())
                && passed.iter().filter(|run| self.value(**run, *at).is_some()).count() >= fewest
        };
        lost().filter(is_lost).collect()
    }

    /// Learns the values `keys`, each from the first `most` of the runs `passed` that have it.
    ///
    /// The levels of a metric begin with the first `most` of the runs `passed`, and all later runs follow. The level of a run includes
    /// every learned value that the run has. The values of a replacement node therefore start at a later run, which shortens neither the
    /// history of the other nodes nor the period whose levels include failed runs.
    fn learned(&self, keys: Vec<(BorrowedKey<'_>, usize)>, passed: &[usize], most: usize) -> LearnedMetrics {
        let mut by_fleet: BTreeMap<FleetName<'_>, Vec<(BorrowedKey<'_>, usize)>> = BTreeMap::new();
        for (key, at) in keys {
            by_fleet.entry(FleetName::of(&key)).or_default().push((key, at));
        }
        let first = &passed[..passed.len().min(most)];
        let since = first.last().map_or(self.runs.len(), |last| last + 1);
        let mut all =
            LearnedMetrics { later: vec![Vec::new(); self.runs.len() - since], ..Default::default() };
        for (name, keys) in by_fleet {
            let mut by_run = vec![Vec::new(); passed.len()];
            let mut resolution: f64 = 0.0;
            let measured: Vec<Vec<(usize, f64)>> = keys
                .iter()
                .map(|(_, at)| {
                    let runs = passed.iter().enumerate();
                    runs.filter_map(|(run, it)| Some((run, self.value(*it, *at)?))).take(most).collect()
                })
                .collect();
            for ((_, at), values) in keys.iter().zip(&measured) {
                values.iter().for_each(|(run, value)| by_run[*run].push(*value));
                resolution = resolution.max(self.resolutions[*at].unwrap_or(0.0));
            }
            let tiers = tiers(&by_run, resolution).filter(|_| name.better != Better::Exact);
            let mut differences = vec![Vec::new(); passed.len()];
            let from = all.metrics.len();
            for ((key, at), values) in keys.iter().zip(&measured) {
                let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
                let (value, spread) = match tiers {
                    Some(tiers) => tiers.median_and_spread(&plain),
                    None => {
                        let value = median(plain.clone());
                        let deviation = deviation(plain.into_iter(), value);
                        (value, if value == 0.0 { 0.0 } else { deviation / value.abs() })
                    }
                };
                all.metrics.push(MetricBaseline {
                    key: key.owned(),
                    value,
                    spread: spread.max(LEAST_SPREAD),
                    resolution: self.resolutions[*at],
                    common: None,
                });
                for (run, measured) in values.iter().filter(|_| value != 0.0) {
                    differences[*run].push(measured / healthy(tiers, value, *measured) - 1.0);
                }
            }
            let common = common(&differences);
            let learned = &mut all.metrics[from..];
            learned.iter_mut().filter(|it| it.value != 0.0).for_each(|it| it.common = common);
            let level = |run: usize| {
                let differences = keys.iter().zip(&*learned).filter(|(_, it)| it.value != 0.0);
                let differences = differences.filter_map(|((_, at), it)| {
                    let value = self.value(run, *at)?;
                    Some(value / healthy(tiers, it.value, value) - 1.0)
                });
                fleet::level(name.better, differences.collect())
            };
            let levels = first.iter().map(|run| level(*run)).collect();
            all.later.iter_mut().zip(since..).for_each(|(later, run)| later.push(level(run)));
            all.fleets.push(MetricFleet { key: name.owned(), levels, tiers });
        }
        all.metrics.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }
}

/// Minimum number of runs that show how all subjects change together.
const RUNS_IN_COMMON: usize = 3;

/// The changes that all subjects of a metric share from run to run. `differences`: the differences of the subjects in each run.
fn common(differences: &[Vec<f64>]) -> Option<CommonSpread> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    // The mean of a small number of subjects, such as those of a node that was replaced later, contains their own noise.
    let most = differences.iter().map(Vec::len).max().unwrap_or(0);
    let of_most = differences.iter().filter(|run| !run.is_empty() && 2 * run.len() >= most);
    let of_runs: Vec<f64> = of_most.map(|run| mean(run)).collect();
    if of_runs.len() < RUNS_IN_COMMON {
        return None;
    }
    let centre = mean(&of_runs);
    let squares: f64 = of_runs.iter().map(|it| (it - centre).powi(2)).sum();
    let deviation = (squares / (of_runs.len() - 1) as f64).sqrt();
    Some(CommonSpread { deviation, runs: of_runs.len() as u32 })
}
