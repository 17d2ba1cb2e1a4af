//! Learns a baseline from healthy runs.

use std::collections::{BTreeMap, BTreeSet};

use model::measurement::{LogEnd, Reading, Table};

use super::document::{Baseline, BaselinePoint, LEAST_SPREAD, Region, SizeKey, halves, regions};
use crate::{
    fingerprint::Fingerprint,
    metrics::{self, LearnedMetrics, MetricHistory},
    repeat::{self, RepeatGroup, RepeatLevel},
    statistics::{deviation, median},
    table::one_rank,
};

/// Reason why no baseline can be learned.
#[derive(Clone, Debug, PartialEq)]
pub enum Unlearnable {
    /// The list of logs is empty.
    Nothing,
    /// A log is not one complete healthy run.
    Unfit {
        /// Index of the log, starting at 0.
        log: usize,
        /// Reason why the run is incomplete or not healthy, for display.
        why: String,
    },
    /// The logs are not comparable.
    Mixed {
        /// Index of the first log that differs from the first one.
        log: usize,
        /// The field of the fingerprint that differs.
        field: String,
    },
    /// The logs are comparable but do not repeat: they have several levels, or one level with a large spread.
    Unrepeated {
        /// The levels, fastest first.
        groups: Vec<RepeatGroup>,
        /// The plateau of each log.
        levels: Vec<RepeatLevel>,
    },
}

/// A run whose values the baseline includes.
#[derive(Clone, Debug)]
pub struct Healthy<'a> {
    /// Measurements of the run.
    pub reading: &'a Reading,
    /// Environment of the run.
    pub fingerprint: Fingerprint,
}

/// Learns from comparable healthy runs, oldest first. Five runs suffice. With fewer than five, the estimated spread is
/// unreliable: the minimum tolerances then apply, around a level that one outlier can shift.
///
/// # Errors
/// Returns an error if a log is not one complete healthy run, the logs are not comparable, or their values are
/// not reproducible.
pub fn learn(runs: &[Healthy<'_>]) -> Result<Baseline, Unlearnable> {
    if are_about_metrics(runs) {
        return of_metrics(runs);
    }
    let (baseline, levels) = curve(runs)?;
    match repeat::repeats(&levels) {
        true => Ok(baseline),
        false => Err(Unlearnable::Unrepeated { groups: repeat::groups(&levels), levels }),
    }
}

/// Learns without the outliers, at most a fifth of the runs. Returns the outliers.
///
/// # Errors
/// Returns an error if a log is not one complete healthy run, the logs are not comparable, or they do not repeat.
pub fn learn_without_outliers(runs: &[Healthy<'_>]) -> Result<(Baseline, Vec<RepeatLevel>), Unlearnable> {
    if are_about_metrics(runs) {
        return Ok((of_metrics(runs)?, Vec::new()));
    }
    let (_, levels) = curve(runs)?;
    let unrepeated = || Unlearnable::Unrepeated { groups: repeat::groups(&levels), levels: levels.clone() };
    let out = repeat::outliers(&levels).ok_or_else(unrepeated)?;
    let kept = runs.iter().enumerate().filter(|(run, _)| !out.contains(run));
    let kept: Vec<_> = kept.map(|(_, run)| run.clone()).collect();
    // The remaining runs may not repeat either.
    let baseline = learn(&kept).map_err(|_| unrepeated())?;
    Ok((baseline, levels.iter().filter(|level| out.contains(&level.run)).copied().collect()))
}

fn are_about_metrics(runs: &[Healthy<'_>]) -> bool {
    runs.first().is_some_and(|run| run.reading.tables.is_empty() && run.reading.format.is_some())
}

/// Learns the metrics of benchmarks other than nccl-tests, without a curve.
fn of_metrics(runs: &[Healthy<'_>]) -> Result<Baseline, Unlearnable> {
    for (log, run) in runs.iter().enumerate() {
        if let Some(why) = metrics::unfit(run.reading) {
            return Err(Unlearnable::Unfit { log, why });
        }
    }
    let fingerprint = common_fingerprint(runs.iter().map(|run| &run.fingerprint))?;
    let readings: Vec<_> = runs.iter().map(|run| run.reading).collect();
    let learned = metrics::learn(&readings).map_err(|(log, field)| Unlearnable::Mixed { log, field })?;
    Ok(without_curve(fingerprint, runs.len(), learned))
}

fn without_curve(fingerprint: Fingerprint, runs: usize, learned: LearnedMetrics) -> Baseline {
    let LearnedMetrics { metrics, fleets, later: _ } = learned;
    Baseline {
        schema: "burnin/baseline/v1".to_owned(),
        fingerprint,
        runs: u32::try_from(runs).unwrap_or(u32::MAX),
        plateau_spread: 0.0,
        levels: Vec::new(),
        repeats_within: None,
        points: Vec::new(),
        metrics,
        fleets,
    }
}

/// A baseline of the values that a run and the runs before it have in common.
#[derive(Clone, Debug)]
pub struct Paired {
    /// Baseline of the common values, learned from the oldest runs; without values if the runs have none in common.
    pub baseline: Baseline,
    /// Levels of the metrics in all later runs, oldest first: one level for each of the baseline's fleets.
    pub earlier: Vec<Vec<Option<f64>>>,
    /// Values of the run with too few earlier runs for a baseline; for display.
    pub missing: Vec<String>,
}

/// Learns the metrics that a run has in common with at least `fewest` healthy runs of its history, each from its `most` oldest runs: a
/// scheduler may choose other nodes for each run. `healthy`: their positions in the history, oldest first, and fingerprints.
///
/// # Errors
/// Returns an error if the runs are not comparable.
pub fn learn_paired(
    history: &MetricHistory<'_>,
    healthy: &[(usize, &Fingerprint)],
    (fewest, most): (usize, usize),
) -> Result<Paired, Unlearnable> {
    let fingerprint = common_fingerprint(healthy.iter().map(|(_, fingerprint)| *fingerprint))?;
    let runs: Vec<_> = healthy.iter().map(|(run, _)| *run).collect();
    let (mut learned, missing) = history.learn(&runs, (fewest, most));
    let earlier = std::mem::take(&mut learned.later);
    Ok(Paired { baseline: without_curve(fingerprint, runs.len().min(most), learned), earlier, missing })
}

/// The fields of all runs. A field that several runs contain must have the same value in all of them.
fn common_fingerprint<'a>(
    runs: impl IntoIterator<Item = &'a Fingerprint>,
) -> Result<Fingerprint, Unlearnable> {
    let mut runs = runs.into_iter().enumerate();
    let mut fingerprint = runs.next().ok_or(Unlearnable::Nothing)?.1.clone();
    for (log, run) in runs {
        if let Some(field) = fingerprint.differences(run).next() {
            return Err(Unlearnable::Mixed { log, field: field.name.to_owned() });
        }
        fingerprint.fill(run);
    }
    Ok(fingerprint)
}

/// The plateau of each run, whether or not the runs repeat.
///
/// # Errors
/// Returns an error if a log is not one complete healthy run, or the logs are not comparable.
pub fn levels(runs: &[Healthy<'_>]) -> Result<Vec<RepeatLevel>, Unlearnable> {
    curve(runs).map(|(_, levels)| levels)
}

/// The curve of the runs, whether or not they repeat, and the plateau of each.
fn curve(runs: &[Healthy<'_>]) -> Result<(Baseline, Vec<RepeatLevel>), Unlearnable> {
    let mut tables = Vec::new();
    for (log, run) in runs.iter().enumerate() {
        tables.push(complete_table(run.reading).map_err(|why| Unlearnable::Unfit { log, why })?);
    }
    let fingerprint = common_fingerprint(runs.iter().map(|run| &run.fingerprint))?;
    for log in 1..runs.len() {
        let keys = |table| halves(table).map(|(key, _)| key).collect::<BTreeSet<_>>();
        if keys(tables[0]) != keys(tables[log]) {
            return Err(Unlearnable::Mixed { log, field: "set of sizes".to_owned() });
        }
    }
    let mut times: BTreeMap<SizeKey, Vec<(f64, f64)>> = BTreeMap::new();
    for table in &tables {
        for (key, half) in halves(table) {
            times.entry(key).or_default().push((half.time_us, half.busbw));
        }
    }
    let mut points = Vec::new();
    for (key, mut runs) in times {
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (time_us, busbw) = runs[runs.len() / 2];
        let relative = runs.iter().map(|(time, _)| time / time_us);
        points.push(BaselinePoint {
            key,
            region: Region::Slope,
            time_us,
            busbw,
            spread: deviation(relative, 1.0),
        });
    }
    divide(&mut points);
    pool(&mut points);
    let mut baseline = Baseline {
        schema: "burnin/baseline/v1".to_owned(),
        fingerprint,
        runs: u32::try_from(tables.len()).unwrap_or(u32::MAX),
        plateau_spread: LEAST_SPREAD,
        levels: Vec::new(),
        repeats_within: None,
        points,
        metrics: Vec::new(),
        fleets: Vec::new(),
    };
    let level = |(run, table): (usize, &&Table)| {
        Some(RepeatLevel { run, slower: baseline.level(table)?, busbw: baseline.plateau_busbw(table) })
    };
    let levels: Vec<RepeatLevel> = tables.iter().enumerate().filter_map(level).collect();
    baseline.levels = levels.iter().map(|level| level.slower).collect();
    baseline.plateau_spread = deviation(baseline.levels.iter().copied(), 0.0).max(LEAST_SPREAD);
    baseline.repeats_within = Some(repeat::furthest(baseline.levels.iter().copied()));
    Ok((baseline, levels))
}

fn complete_table(reading: &Reading) -> Result<&Table, String> {
    let [table] = reading.tables.as_slice() else {
        return Err(format!("expected one table, found {}", reading.tables.len()));
    };
    if table.ended != LogEnd::Complete {
        return Err("the table has no summary, so the log is truncated".to_owned());
    }
    if halves(table).any(|(_, half)| half.wrong.is_some_and(|wrong| wrong > 0)) {
        return Err("the benchmark reported wrong data".to_owned());
    }
    if table.rows.is_empty() {
        return Err("the table has no rows".to_owned());
    }
    if one_rank(table) {
        return Err("one rank measures no link: its bus bandwidth is 0 by definition".to_owned());
    }
    if table.unmeasured > 0 || table.rows.iter().any(|row| row.partial.is_some()) {
        return Err("a row of the table is truncated or has an unreadable number".to_owned());
    }
    Ok(table)
}

fn divide(points: &mut [BaselinePoint]) {
    let curve: Vec<_> = points.iter().map(|point| (point.key.size_bytes, point.time_us)).collect();
    for (point, region) in points.iter_mut().zip(regions(&curve)) {
        point.region = region;
    }
}

/// Five runs are too few to estimate the spread of one point, so a point's spread is at least the median of its region.
fn pool(points: &mut [BaselinePoint]) {
    for region in Region::ALL {
        let spreads =
            points.iter().filter(|point| point.region == region).map(|point| point.spread).collect();
        let pooled = median(spreads).max(LEAST_SPREAD);
        for point in points.iter_mut().filter(|point| point.region == region) {
            point.spread = point.spread.max(pooled);
        }
    }
}
