//! The document `burnin/baseline/v1`, and a run's distance from it.

use std::collections::BTreeMap;

use model::{
    measurement::{Half, Table},
    metric::Better,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{fingerprint::Fingerprint, repeat, statistics::median};

/// Points with at least this fraction of the best bandwidth belong to the plateau.
const PLATEAU: f64 = 0.8;
/// Points with up to this multiple of the shortest time belong to the latency region.
const LATENCY: f64 = 2.0;
/// Minimum relative spread: no hardware repeats more exactly, even if five runs do.
pub const LEAST_SPREAD: f64 = 0.002;

/// A baseline: the document `burnin/baseline/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// Schema of the document: always `burnin/baseline/v1`.
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
    /// Healthy values of the metrics of benchmarks other than nccl-tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricBaseline>,
    /// Each of these metrics over all its subjects. Empty in a baseline of an older version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fleets: Vec<MetricFleet>,
}

/// A metric over all its subjects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricFleet {
    /// Name, unit and labels of the metric.
    #[serde(flatten)]
    pub key: FleetKey,
    /// Level of each run of the baseline, oldest first: the median over all subjects of the excess over the subject's healthy value in
    /// the worse direction, relative. Null: the run did not measure the metric.
    #[serde(default)]
    pub levels: Vec<Option<f64>>,
    /// The two levels between which the subjects change, if the runs have two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Tiers>,
}

/// Fields in which the values of all subjects of a metric agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct FleetKey {
    /// Name of the metric, such as `gemm.throughput`.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Direction of improvement.
    pub better: Better,
    /// Labels by name, such as `dtype`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Two levels of a metric, both healthy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tiers {
    /// Median of the values at the lower level, in the metric's unit.
    pub lower: f64,
    /// Median of the values at the upper level, in the metric's unit.
    pub upper: f64,
}

/// Healthy values of a metric of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricBaseline {
    /// Name, unit, subject and labels, without serial number and bus id: a replacement device is compared with the
    /// values of the old one.
    #[serde(flatten)]
    pub key: MetricKey,
    /// Median over the runs, in the metric's unit. With two tiers: at the level of most runs.
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
    /// Relative standard deviation of the mean over all subjects.
    pub deviation: f64,
    /// Number of runs that the deviation is estimated from.
    pub runs: u32,
}

/// Fields in which two comparable values of a metric agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct MetricKey {
    /// Name of the metric, such as `gemm.throughput`.
    pub name: String,
    /// Unit of the value.
    pub unit: String,
    /// Direction of improvement.
    pub better: Better,
    /// The part of the cluster that the value was measured on.
    pub subject: model::metric::Subject,
    /// Labels by name, such as `dtype`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A point of the healthy curve: the median over the runs and its spread.
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
    /// Reduction as printed, such as `sum`.
    pub redop: Option<String>,
    /// Input and output in the same buffer.
    pub in_place: bool,
}

/// Part of a bandwidth curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    /// The time hardly depends on the size. Times vary most from run to run here.
    Latency,
    /// Between latency region and plateau.
    Slope,
    /// The bandwidth hardly depends on the size. The most important region.
    Plateau,
}

impl Region {
    /// All regions, most important first.
    pub const ALL: [Self; 3] = [Self::Plateau, Self::Slope, Self::Latency];

    /// Name of the region with its article, for the beginning of a reason.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Plateau => "the plateau",
            Self::Slope => "the slope of the curve",
            Self::Latency => "latency",
        }
    }
}

impl Baseline {
    /// Slowdown of each point of a run against the baseline, relative: 0.03 is 3 % more time.
    pub(crate) fn slowdowns<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = (&'a BaselinePoint, f64)> {
        let measured = slowest_halves(table);
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

    /// Largest distance of a run's plateau from the median, relative. If the baseline does not state this distance, it is computed without
    /// the furthest fifth of the runs, because single outliers did not affect the baseline.
    #[must_use]
    pub fn repeatability(&self) -> f64 {
        self.repeats_within.unwrap_or_else(|| match self.levels.as_slice() {
            [] => self.plateau_spread,
            levels => repeat::furthest_but_outliers(levels),
        })
    }

    /// Median bus bandwidth of a run over the plateau, GB/s.
    pub(super) fn plateau_busbw(&self, table: &Table) -> f64 {
        let measured = slowest_halves(table);
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

    /// Median slowdown over the selected points; `None` if the run measured no such point.
    fn offset(&self, table: &Table, of: impl Fn(&BaselinePoint) -> bool) -> Option<f64> {
        let here: Vec<_> =
            self.slowdowns(table).filter(|(point, _)| of(point)).map(|(_, slow)| slow).collect();
        (!here.is_empty()).then(|| median(here))
    }
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

/// The slowest half of each point: a log may contain several cycles over the sizes, and one of them may be slow.
fn slowest_halves(table: &Table) -> BTreeMap<SizeKey, &Half> {
    let mut slowest: BTreeMap<SizeKey, &Half> = BTreeMap::new();
    for (key, half) in halves(table) {
        let known = slowest.entry(key).or_insert(half);
        if half.time_us > known.time_us {
            *known = half;
        }
    }
    slowest
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
