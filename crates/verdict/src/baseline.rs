//! What a healthy cluster does: learned from a few runs, robustly.
//!
//! Times are compared, not bandwidths: nccl-tests prints them with more digits, and small sizes have a bandwidth of
//! `0.00`. Location is the median over runs, scale the median absolute deviation, pooled over a region of the curve
//! because five runs say little of one point (Rousseeuw and Croux, *Alternatives to the Median Absolute Deviation*,
//! 1993, for the estimators and their behaviour in small samples). One bad point in one run moves neither.

use std::collections::{BTreeMap, BTreeSet};

use model::measurement::{Ended, Half, Reading, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    fingerprint::Fingerprint,
    one_rank::one_rank,
    repeat::{self, Group, Level},
};

/// Of the best bandwidth, what still counts as the plateau.
const PLATEAU: f64 = 0.8;
/// A time up to this many times the shortest is latency, not bandwidth.
const LATENCY: f64 = 2.0;
/// Makes the median absolute deviation of normal noise its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;
/// No hardware repeats itself more exactly than this, whatever five runs say.
pub const LEAST_SPREAD: f64 = 0.002;

/// A baseline: the document `burnin/baseline/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// `burnin/baseline/v1`.
    pub schema: String,
    /// What the runs had in common; a run that differs in it is compared with care.
    pub fingerprint: Fingerprint,
    /// Number of runs learned from.
    pub runs: u32,
    /// Spread of a whole run's plateau around the median, relative.
    pub plateau_spread: f64,
    /// How much longer the plateau of each run took than the median, relative, oldest first: where a history begins.
    #[serde(default)]
    pub levels: Vec<f64>,
    /// Largest distance of a run's plateau from the median, relative. Absent from a baseline of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats_within: Option<f64>,
    /// One point a size, type, operation and placement.
    pub points: Vec<Point>,
}

/// A point of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// What was measured.
    #[serde(flatten)]
    pub key: Key,
    /// Part of the curve.
    pub region: Region,
    /// Median time, microseconds.
    pub time_us: f64,
    /// Bus bandwidth of the median run, GB/s; for people.
    pub busbw: f64,
    /// Relative spread of the time.
    pub spread: f64,
}

/// What makes two measurements comparable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Key {
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
    /// Between the two.
    Slope,
    /// The bandwidth hardly depends on the size. What a cluster is bought for.
    Plateau,
}

impl Region {
    /// Those that matter most first.
    pub const ALL: [Self; 3] = [Self::Plateau, Self::Slope, Self::Latency];

    /// For people, as the subject of a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Plateau => "the plateau",
            Self::Slope => "the slope of the curve",
            Self::Latency => "latency",
        }
    }
}

/// Why no baseline can be learned.
#[derive(Clone, Debug, PartialEq)]
pub enum Unlearnable {
    /// There is no log.
    Nothing,
    /// This log is not one whole healthy run.
    Unfit {
        /// Its number among the logs, from 0.
        log: usize,
        /// The problem.
        why: String,
    },
    /// The logs are of different things.
    Mixed {
        /// The number of the log that differs from the first.
        log: usize,
        /// The field of the fingerprint that differs.
        field: String,
    },
    /// The logs are of the same thing and do not repeat: they are on several levels, or far apart on one.
    Unrepeated {
        /// The levels, the fastest first.
        groups: Vec<Group>,
        /// The plateau of each log.
        levels: Vec<Level>,
    },
}

/// A run to learn from.
#[derive(Clone, Debug)]
pub struct Healthy<'a> {
    /// What it measured.
    pub reading: &'a Reading,
    /// On what.
    pub fingerprint: Fingerprint,
}

/// Learns from healthy runs of the same thing, oldest first. Five are enough. How much fewer vary is hardly known: the
/// least tolerances decide, around a level that one odd run can shift.
///
/// # Errors
/// When a log is not one whole healthy run, the logs are of different things, or they do not repeat.
pub fn learn(runs: &[Healthy<'_>]) -> Result<Baseline, Unlearnable> {
    let (baseline, levels) = curve(runs)?;
    match repeat::repeats(&levels) {
        true => Ok(baseline),
        false => Err(Unlearnable::Unrepeated { groups: repeat::groups(&levels), levels }),
    }
}

/// Learns without the runs that are not on the level of the others: at most a fifth of them. Returns their numbers.
///
/// # Errors
/// Those of [`learn`].
pub fn learn_without_outliers(runs: &[Healthy<'_>]) -> Result<(Baseline, Vec<Level>), Unlearnable> {
    let (_, levels) = curve(runs)?;
    let unrepeated = || Unlearnable::Unrepeated { groups: repeat::groups(&levels), levels: levels.clone() };
    let out = repeat::outliers(&levels).ok_or_else(unrepeated)?;
    let kept = runs.iter().enumerate().filter(|(run, _)| !out.contains(run));
    let kept: Vec<_> = kept.map(|(_, run)| run.clone()).collect();
    // The others may be too far apart without them as well.
    let baseline = learn(&kept).map_err(|_| unrepeated())?;
    Ok((baseline, levels.iter().filter(|level| out.contains(&level.run)).copied().collect()))
}

/// The plateau of each run, whether they repeat or not.
///
/// # Errors
/// When a log is not one whole healthy run, or the logs are of different things.
pub fn levels(runs: &[Healthy<'_>]) -> Result<Vec<Level>, Unlearnable> {
    curve(runs).map(|(_, levels)| levels)
}

/// The curve of the runs, whether they repeat or not, and the plateau of each.
fn curve(runs: &[Healthy<'_>]) -> Result<(Baseline, Vec<Level>), Unlearnable> {
    let mut tables = Vec::new();
    for (log, run) in runs.iter().enumerate() {
        tables.push(whole(run.reading).map_err(|why| Unlearnable::Unfit { log, why })?);
    }
    let mut fingerprint = runs.first().ok_or(Unlearnable::Nothing)?.fingerprint.clone();
    for (log, run) in runs.iter().enumerate().skip(1) {
        if let Some(field) = fingerprint.differences(&run.fingerprint).next() {
            return Err(Unlearnable::Mixed { log, field: field.name.to_owned() });
        }
        let keys = |table| halves(table).map(|(key, _)| key).collect::<BTreeSet<_>>();
        if keys(tables[0]) != keys(tables[log]) {
            return Err(Unlearnable::Mixed { log, field: "set of sizes".to_owned() });
        }
        fingerprint.fill(&run.fingerprint);
    }
    let mut times: BTreeMap<Key, Vec<(f64, f64)>> = BTreeMap::new();
    for table in &tables {
        for (key, half) in halves(table) {
            times.entry(key).or_default().push((half.time_us, half.busbw));
        }
    }
    let mut points = Vec::new();
    for (key, mut runs) in times {
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (time_us, busbw) = runs[runs.len() / 2];
        let deviations = runs.iter().map(|(time, _)| (time / time_us - 1.0).abs()).collect();
        points.push(Point {
            key,
            region: Region::Slope,
            time_us,
            busbw,
            spread: MAD_TO_SIGMA * median(deviations),
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
    };
    let level = |(run, table): (usize, &&Table)| {
        Some(Level { run, slower: baseline.level(table)?, busbw: baseline.plateau_busbw(table) })
    };
    let levels: Vec<Level> = tables.iter().enumerate().filter_map(level).collect();
    baseline.levels = levels.iter().map(|level| level.slower).collect();
    let offsets = baseline.levels.iter().map(|level| level.abs()).collect();
    baseline.plateau_spread = (MAD_TO_SIGMA * median(offsets)).max(LEAST_SPREAD);
    baseline.repeats_within = Some(repeat::furthest(baseline.levels.iter().copied()));
    Ok((baseline, levels))
}

impl Baseline {
    /// How much slower than the baseline each point of a run is, relative: 0.03 is 3 % more time.
    pub(crate) fn slowdowns<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = (&'a Point, f64)> {
        let measured: BTreeMap<Key, &Half> = halves(table).collect();
        self.points
            .iter()
            .filter_map(move |point| Some((point, measured.get(&point.key)?.time_us / point.time_us - 1.0)))
    }

    /// How much longer the plateau of a run takes than the baseline's, relative; none when it measured no point of it.
    #[must_use]
    pub fn level(&self, table: &Table) -> Option<f64> {
        self.offset(table, |point| point.region == Region::Plateau)
    }

    /// Largest distance of a run's plateau from the median, relative. Of a baseline that does not state it: without
    /// the fifth of the runs that is furthest off, because single ones did not move it.
    #[must_use]
    pub fn repeatability(&self) -> f64 {
        self.repeats_within.unwrap_or_else(|| match self.levels.as_slice() {
            [] => self.plateau_spread,
            levels => repeat::furthest_but_outliers(levels),
        })
    }

    /// Median bus bandwidth of a run over the plateau, GB/s.
    fn plateau_busbw(&self, table: &Table) -> f64 {
        let measured: BTreeMap<Key, &Half> = halves(table).collect();
        let plateau = self.points.iter().filter(|point| point.region == Region::Plateau);
        median(plateau.filter_map(|point| Some(measured.get(&point.key)?.busbw)).collect())
    }

    /// The median slowdown over a region in the placement that is slowed less; none when the run has no point in it.
    pub(crate) fn both_placements(&self, table: &Table, region: Region) -> Option<f64> {
        let placed = [false, true].map(|in_place| {
            self.offset(table, |point| point.region == region && point.key.in_place == in_place)
        });
        placed.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// The median slowdown over some points; none when the run measured none of them.
    fn offset(&self, table: &Table, of: impl Fn(&Point) -> bool) -> Option<f64> {
        let here: Vec<_> =
            self.slowdowns(table).filter(|(point, _)| of(point)).map(|(_, slow)| slow).collect();
        (!here.is_empty()).then(|| median(here))
    }
}

fn whole(reading: &Reading) -> Result<&Table, String> {
    let [table] = reading.tables.as_slice() else {
        return Err(format!("it holds {} tables, not one", reading.tables.len()));
    };
    if table.ended != Ended::Complete {
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
        return Err("a row of its table is cut off or has an unreadable number".to_owned());
    }
    Ok(table)
}

/// The halves of a table by what was measured, without those that took no time.
pub fn halves(table: &Table) -> impl Iterator<Item = (Key, &Half)> {
    table.rows.iter().flat_map(|row| {
        let placed = [(false, &row.out_of_place), (true, &row.in_place)];
        placed.into_iter().filter_map(move |(in_place, half)| {
            let half = half.as_ref().filter(|half| half.time_us.is_finite() && half.time_us > 0.0)?;
            let (dtype, redop) = (row.dtype.clone(), row.redop.clone());
            Some((Key { size_bytes: row.size_bytes, dtype, redop, in_place }, half))
        })
    })
}

fn divide(points: &mut [Point]) {
    let curve: Vec<_> = points.iter().map(|point| (point.key.size_bytes, point.time_us)).collect();
    for (point, region) in points.iter_mut().zip(regions(&curve)) {
        point.region = region;
    }
}

/// The region of each point of a curve of sizes and times, in any units.
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

/// Few runs say little of one point's spread; its neighbours in the region know more.
fn pool(points: &mut [Point]) {
    for region in Region::ALL {
        let spreads =
            points.iter().filter(|point| point.region == region).map(|point| point.spread).collect();
        let pooled = median(spreads).max(LEAST_SPREAD);
        for point in points.iter_mut().filter(|point| point.region == region) {
            point.spread = point.spread.max(pooled);
        }
    }
}

/// 0 for nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
