//! Baselines: the curve of a healthy cluster, learned robustly from a few runs.
//!
//! Times are compared, not bandwidths: nccl-tests prints times with more digits, and small sizes have a
//! bandwidth of `0.00`. Location is the median over runs; scale is the median absolute deviation, pooled over
//! a region of the curve because five runs are too few for a single point (Rousseeuw and Croux, *Alternatives
//! to the Median Absolute Deviation*, 1993, for the estimators and their behaviour in small samples). One bad
//! point in one run affects neither.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    measurement::{Half, LogEnd, Reading, Table},
    metric::Better,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    fingerprint::Fingerprint,
    metrics,
    repeat::{self, RepeatGroup, RepeatLevel},
    statistics::{deviation, median},
    table::one_rank,
};

/// Minimum fraction of the best bandwidth that belongs to the plateau.
const PLATEAU: f64 = 0.8;
/// Points with up to this multiple of the shortest time belong to the latency region.
const LATENCY: f64 = 2.0;
/// Minimum relative spread: no hardware repeats more exactly, even if five runs do.
pub const LEAST_SPREAD: f64 = 0.002;

/// A baseline: the document `burnin/baseline/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// `burnin/baseline/v1`.
    pub schema: String,
    /// Fields common to all runs; differences from a judged run are reported.
    pub fingerprint: Fingerprint,
    /// Number of runs learned from.
    pub runs: u32,
    /// Spread of a whole run's plateau around the median, relative.
    pub plateau_spread: f64,
    /// Excess plateau time of each run over the median, relative, oldest first: the start of the history.
    #[serde(default)]
    pub levels: Vec<f64>,
    /// Largest distance of a run's plateau from the median, relative. Absent from a baseline of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats_within: Option<f64>,
    /// One point per size, type, operation and placement.
    #[serde(default)]
    pub points: Vec<BaselinePoint>,
    /// Healthy values of the metrics of other benchmarks than nccl-tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricBaseline>,
}

/// Healthy values of a metric of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricBaseline {
    /// Name, unit, subject and labels, without serial number and bus id: a replaced device takes the place of the old one.
    #[serde(flatten)]
    pub key: MetricKey,
    /// Median over the runs, in the metric's unit.
    pub value: f64,
    /// Robust standard deviation over the runs, relative to the median.
    pub spread: f64,
    /// Printed resolution, in the metric's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// Changes of all subjects together from run to run, if three runs or more show them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<CommonSpread>,
}

/// Run-to-run changes that all subjects of a metric share, such as those of a room's temperature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommonSpread {
    /// Standard deviation of the mean over all subjects, relative.
    pub deviation: f64,
    /// Number of runs.
    pub runs: u32,
}

/// Fields in which two comparable values of a metric agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct MetricKey {
    /// Name of the metric.
    pub name: String,
    /// Unit of the value.
    pub unit: String,
    /// Direction of improvement.
    pub better: Better,
    /// The measured part of the cluster.
    pub subject: model::metric::Subject,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A point of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselinePoint {
    /// Measured size, type, operation and placement.
    #[serde(flatten)]
    pub key: SizeKey,
    /// Part of the curve.
    pub region: Region,
    /// Median time, microseconds.
    pub time_us: f64,
    /// Bus bandwidth of the median run, GB/s; for display.
    pub busbw: f64,
    /// Relative spread of the time.
    pub spread: f64,
}

/// Fields in which two comparable measurements agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct SizeKey {
    /// Message size, bytes.
    pub size_bytes: u64,
    /// Element type.
    pub dtype: String,
    /// Reduction.
    pub redop: Option<String>,
    /// Input and output in the same buffer.
    pub in_place: bool,
}

/// Part of a bandwidth curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    /// The time hardly depends on the size. Noisy.
    Latency,
    /// Between latency region and plateau.
    Slope,
    /// The bandwidth hardly depends on the size. The most important region.
    Plateau,
}

impl Region {
    /// All regions, most important first.
    pub const ALL: [Self; 3] = [Self::Plateau, Self::Slope, Self::Latency];

    /// Name for display, as the subject of a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Plateau => "the plateau",
            Self::Slope => "the slope of the curve",
            Self::Latency => "latency",
        }
    }
}

/// Reason why no baseline can be learned.
#[derive(Clone, Debug, PartialEq)]
pub enum Unlearnable {
    /// There are no logs.
    Nothing,
    /// A log is not one complete healthy run.
    Unfit {
        /// Index of the log, starting at 0.
        log: usize,
        /// The problem.
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

/// A run to learn from.
#[derive(Clone, Debug)]
pub struct Healthy<'a> {
    /// Measurements of the run.
    pub reading: &'a Reading,
    /// Environment of the run.
    pub fingerprint: Fingerprint,
}

/// Learns from comparable healthy runs, oldest first. Five runs suffice. With fewer than five, the spread is hardly
/// known: the minimum tolerances then apply, around a level that one outlier can shift.
///
/// # Errors
/// Returns an error if a log is not one complete healthy run, the logs are not comparable, or they do not
/// repeat.
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

/// Learns the metrics of other benchmarks than nccl-tests, without a curve.
fn of_metrics(runs: &[Healthy<'_>]) -> Result<Baseline, Unlearnable> {
    for (log, run) in runs.iter().enumerate() {
        if let Some(why) = metrics::unfit(run.reading) {
            return Err(Unlearnable::Unfit { log, why });
        }
    }
    let fingerprint = common_fingerprint(runs)?;
    let readings: Vec<_> = runs.iter().map(|run| run.reading).collect();
    let metrics = metrics::learn(&readings).map_err(|(log, field)| Unlearnable::Mixed { log, field })?;
    Ok(Baseline {
        schema: "burnin/baseline/v1".to_owned(),
        fingerprint,
        runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        plateau_spread: 0.0,
        levels: Vec::new(),
        repeats_within: None,
        points: Vec::new(),
        metrics,
    })
}

/// The fields of all runs, which must agree where several runs know them.
fn common_fingerprint(runs: &[Healthy<'_>]) -> Result<Fingerprint, Unlearnable> {
    let mut fingerprint = runs.first().ok_or(Unlearnable::Nothing)?.fingerprint.clone();
    for (log, run) in runs.iter().enumerate().skip(1) {
        if let Some(field) = fingerprint.differences(&run.fingerprint).next() {
            return Err(Unlearnable::Mixed { log, field: field.name.to_owned() });
        }
        fingerprint.fill(&run.fingerprint);
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
        tables.push(whole(run.reading).map_err(|why| Unlearnable::Unfit { log, why })?);
    }
    let fingerprint = common_fingerprint(runs)?;
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

impl Baseline {
    /// Slowdown of each point of a run against the baseline, relative: 0.03 is 3 % more time.
    pub(crate) fn slowdowns<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = (&'a BaselinePoint, f64)> {
        let measured: BTreeMap<SizeKey, &Half> = halves(table).collect();
        self.points
            .iter()
            .filter_map(move |point| Some((point, measured.get(&point.key)?.time_us / point.time_us - 1.0)))
    }

    /// Excess plateau time of a run over the baseline, relative; `None` if it measured no point of the
    /// plateau.
    #[must_use]
    pub fn level(&self, table: &Table) -> Option<f64> {
        self.offset(table, |point| point.region == Region::Plateau)
    }

    /// Largest distance of a run's plateau from the median, relative. For baselines that do not state it, the
    /// furthest fifth of the runs is ignored, because single outliers did not affect the baseline.
    #[must_use]
    pub fn repeatability(&self) -> f64 {
        self.repeats_within.unwrap_or_else(|| match self.levels.as_slice() {
            [] => self.plateau_spread,
            levels => repeat::furthest_but_outliers(levels),
        })
    }

    /// Median bus bandwidth of a run over the plateau, GB/s.
    fn plateau_busbw(&self, table: &Table) -> f64 {
        let measured: BTreeMap<SizeKey, &Half> = halves(table).collect();
        let plateau = self.points.iter().filter(|point| point.region == Region::Plateau);
        median(plateau.filter_map(|point| Some(measured.get(&point.key)?.busbw)).collect())
    }

    /// Median slowdown over a region in the less affected placement; `None` without a point in the region.
    pub(crate) fn both_placements(&self, table: &Table, region: Region) -> Option<f64> {
        let placed = [false, true].map(|in_place| {
            self.offset(table, |point| point.region == region && point.key.in_place == in_place)
        });
        placed.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Median slowdown over the selected points; `None` if the run measured none of them.
    fn offset(&self, table: &Table, of: impl Fn(&BaselinePoint) -> bool) -> Option<f64> {
        let here: Vec<_> =
            self.slowdowns(table).filter(|(point, _)| of(point)).map(|(_, slow)| slow).collect();
        (!here.is_empty()).then(|| median(here))
    }
}

fn whole(reading: &Reading) -> Result<&Table, String> {
    let [table] = reading.tables.as_slice() else {
        return Err(format!("it has {} tables instead of one", reading.tables.len()));
    };
    if table.ended != LogEnd::Complete {
        return Err("its table has no summary".to_owned());
    }
    if halves(table).any(|(_, half)| half.wrong.is_some_and(|wrong| wrong > 0)) {
        return Err("it has wrong data".to_owned());
    }
    if table.rows.is_empty() {
        return Err("its table is empty".to_owned());
    }
    if one_rank(table) {
        return Err("one rank measures no link: its bus bandwidth is 0 by definition".to_owned());
    }
    if table.unmeasured > 0 || table.rows.iter().any(|row| row.partial.is_some()) {
        return Err("a row of its table is truncated or has an unreadable number".to_owned());
    }
    Ok(table)
}

/// All measured halves of a table with their keys, except halves with a zero time.
pub fn halves(table: &Table) -> impl Iterator<Item = (SizeKey, &Half)> {
    table.rows.iter().flat_map(|row| {
        let placed = [(false, &row.out_of_place), (true, &row.in_place)];
        placed.into_iter().filter_map(move |(in_place, half)| {
            let half = half.as_ref().filter(|half| half.time_us.is_finite() && half.time_us > 0.0)?;
            let (dtype, redop) = (row.dtype.clone(), row.redop.clone());
            Some((SizeKey { size_bytes: row.size_bytes, dtype, redop, in_place }, half))
        })
    })
}

fn divide(points: &mut [BaselinePoint]) {
    let curve: Vec<_> = points.iter().map(|point| (point.key.size_bytes, point.time_us)).collect();
    for (point, region) in points.iter_mut().zip(regions(&curve)) {
        point.region = region;
    }
}

/// Region of each point of a curve of sizes and times, in any units.
pub fn regions(curve: &[(u64, f64)]) -> impl Iterator<Item = Region> {
    let rate = |(size, time): &(u64, f64)| *size as f64 / time;
    let best = curve.iter().map(rate).fold(0.0, f64::max);
    let shortest = curve.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
    curve.iter().map(move |point| {
        if rate(point) >= PLATEAU * best {
            Region::Plateau
        } else if point.1 <= LATENCY * shortest {
            Region::Latency
        } else {
            Region::Slope
        }
    })
}

/// A few runs are too few to estimate the spread of one point; use its neighbours in the region.
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
