//! Criteria of a verdict: bounds, references and rules, as stated in a criteria file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ByteSize, Collective,
    metric::{Better, Metric},
};

/// Criteria of a verdict. Their version is the digest of their content, computed at each use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Criteria {
    /// Short name of the criteria, for display.
    pub name: String,
    /// Origin of the bounds and references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Require that every element was checked.
    #[serde(default = "yes")]
    pub require_check: bool,
    /// Required network, as NCCL names it: `FasTrak`, `gIB`, `IB`. The log must show it (NCCL_DEBUG=INFO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Rule for requested NCCL variables that are not in effect.
    #[serde(default, skip_serializing_if = "Unequal::is_default")]
    pub environment: Unequal,
    /// Hardware evidence of each node: its kernel log, error counters, links and settings before and after the job, and the state
    /// of its GPUs during the job.
    #[serde(default, skip_serializing_if = "EvidenceRule::is_default")]
    pub evidence: EvidenceRule,
    /// Required number of ranks on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_per_node: Option<u32>,
    /// Minimum number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_nodes: Option<u32>,
    /// Line rate of the network of one node, one direction, GB/s: the sum over its adapters. Reports state the efficiency
    /// relative to it, references are scaled by it, and it bounds collectives without reference and floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.1))]
    pub line_rate: Option<f64>,
    /// Share of the line rate that a collective without reference and floor must reach at large sizes.
    #[serde(default = "share", skip_serializing_if = "is_default_share")]
    #[schemars(range(min = 0.05, max = 1.0))]
    pub line_rate_share: f64,
    /// Lower bounds on bus bandwidth.
    #[serde(default)]
    pub floors: Vec<Floor>,
    /// Published measurements of the same kind of system. If any are given, one of them must match the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// Also judge by the cluster's own passed runs, once five exist. Disable for clusters whose results do
    /// not repeat.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub history: bool,
    /// Bandwidth is deliberately unbounded: only the data is judged. Without this, a workflow whose criteria
    /// have neither floors nor references is rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub data_only: bool,
    /// The rule for a table of one rank, which measures no link.
    #[serde(default, skip_serializing_if = "OneRank::is_default")]
    pub one_rank: OneRank,
    /// Accepted shortfall from a reference.
    #[serde(default, skip_serializing_if = "Tolerance::is_default")]
    pub tolerance: Tolerance,
    /// Criteria of the metrics of benchmarks other than nccl-tests (docs/METRICS.md).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricCriterion>,
}

/// Criteria of a metric. Every given bound must hold for every measured subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricCriterion {
    /// Name of the metric, such as `nvbandwidth.device_local_copy`.
    pub metric: String,
    /// Labels that the metric must have; other labels do not matter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Required unit. A metric with another unit is inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Direction of improvement, for a metric of a format that states none, such as those of imports. `reference`,
    /// `device_reference`, `peers` and `past` need a direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// Number of subjects that must be measured, over all nodes. Default: at least one. For a metric of GPUs: each GPU in the log, and on
    /// each node the GPUs that the cluster's settings state or, without such settings, every GPU index of the other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub subjects: Option<u32>,
    /// Accept subjects for which the program reports that it cannot measure the metric.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_unmeasurable: bool,
    /// Lower bound, in the metric's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Upper bound, in the metric's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    /// Exact value that the metric must have, in the metric's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<f64>,
    /// Published value of the same device or system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<MetricReference>,
    /// Comparison with the value of the same kind of device in Burnin's own library (docs/REFERENCES.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reference: Option<DeviceTolerance>,
    /// Comparison with the other subjects of the same log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Peers>,
    /// Accepted distance from the same subject's own past: earlier passed runs, or a baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<PastTolerance>,
    /// Selects the judged values of a metric that the program prints repeatedly; the other values are evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
}

impl MetricCriterion {
    /// Whether the criterion applies to a metric with this name and these labels.
    pub fn selects(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.metric == name && self.labels.iter().all(|(label, value)| labels.get(label) == Some(value))
    }

    /// The first rule that compares values in the direction of improvement; `None` if no rule needs a direction.
    pub fn directed(&self) -> Option<&'static str> {
        let rules = [
            ("reference", self.reference.is_some()),
            ("device_reference", self.device_reference.is_some()),
            ("peers", self.peers.is_some()),
            ("past", self.past.is_some()),
        ];
        rules.into_iter().find(|(_, stated)| *stated).map(|(rule, _)| rule)
    }

    /// Whether the criterion bounds the value, rather than only requiring its presence.
    pub const fn bounds(&self) -> bool {
        self.floor.is_some()
            || self.ceiling.is_some()
            || self.equals.is_some()
            || self.reference.is_some()
            || self.device_reference.is_some()
            || self.peers.is_some()
    }
}

/// A published value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricReference {
    /// The value, in the metric's unit.
    pub value: f64,
    /// Accepted distance in the worse direction, as a fraction of the value: 0.05 is 5 %.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub within: f64,
    /// Origin: author, place and date of the measurement.
    pub source: String,
}

/// Accepted distance from the reference of the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceTolerance {
    /// Accepted distance in the worse direction, as a fraction of the reference: 0.05 is 5 %.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub within: f64,
}

/// Accepted distance of a value from the past of the same subject.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PastTolerance {
    /// Accepted distance from the median in the worse direction, as a fraction of the median.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub within: f64,
    /// Accepted distance from the median, in robust standard deviations of the earlier runs. The larger of the two
    /// distances applies, and at least the printed resolution.
    #[schemars(range(min = 1.0))]
    pub spreads: f64,
}

impl Default for PastTolerance {
    /// A distance of up to 5 % from the median is always accepted, because the spread of a small number of runs is uncertain.
    fn default() -> Self {
        Self { within: 0.05, spreads: 5.0 }
    }
}

/// The judged window of a repeated value: the median of all values in it represents the subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// Label with the number that orders the values, such as `iteration`.
    pub by: String,
    /// First number of the window.
    pub from: f64,
    /// Last number of the window. Default: the end of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Minimum number of values of each subject in the window; with fewer the verdict is inconclusive.
    #[serde(default = "three")]
    #[schemars(range(min = 1))]
    pub at_least: u32,
}

impl Settled {
    /// Whether a value with these labels is in the window.
    pub fn contains(&self, labels: &BTreeMap<String, String>) -> bool {
        let at = labels.get(&self.by).and_then(|at| at.parse::<f64>().ok());
        at.is_some_and(|at| at >= self.from && self.to.is_none_or(|to| at <= to))
    }
}

const fn three() -> u32 {
    3
}

/// Comparison of a subject with its siblings: all other subjects of the same metric and labels in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Peers {
    /// Accepted distance from the median in the worse direction, as a fraction of the median.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub within: f64,
    /// Accepted distance from the median, in robust standard deviations of all subjects. The larger of the two
    /// distances applies.
    #[schemars(range(min = 1.0))]
    pub spreads: f64,
    /// Minimum number of subjects; with fewer the comparison is inconclusive.
    #[schemars(range(min = 3))]
    pub at_least: u32,
}

impl Default for Peers {
    /// Equal GPUs of one node agree within 3 % (benchmarks on healthy nodes differ by less than 1 %).
    fn default() -> Self {
        Self { within: 0.03, spreads: 5.0, at_least: 4 }
    }
}

fn yes() -> bool {
    true
}

/// The thresholds of Cluster Health Scanner are 0.75 (A3 Mega) and 0.63 (A3 Ultra, A4) of the line rate.
const SHARE: f64 = 0.6;

fn share() -> f64 {
    SHARE
}

fn is_default_share(share: &f64) -> bool {
    *share == SHARE
}

impl Criteria {
    /// Whether the criteria bound the bandwidth of any collective.
    pub fn bound_bandwidth(&self) -> bool {
        self.floors.iter().any(|floor| floor.busbw > 0.0)
            || self.references.iter().any(|reference| reference.points.iter().any(|at| at.busbw > 0.0))
            || self.line_rate.is_some()
    }

    /// Tolerance of this metric relative to its past.
    pub fn past(&self, metric: &Metric) -> PastTolerance {
        self.of_metric(metric).find_map(|criterion| criterion.past).unwrap_or_default()
    }

    /// The judged window of this metric, if it has one.
    pub fn settled(&self, metric: &Metric) -> Option<&Settled> {
        self.of_metric(metric).find_map(|criterion| criterion.settled.as_ref())
    }

    /// The direction that the criteria state for this metric, if they state one.
    pub fn better(&self, metric: &Metric) -> Option<Better> {
        self.of_metric(metric).find_map(|criterion| criterion.better)
    }

    fn of_metric(&self, metric: &Metric) -> impl Iterator<Item = &MetricCriterion> {
        self.metrics.iter().filter(move |it| it.selects(&metric.name, &metric.labels))
    }

    /// Criteria that require only checked data.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: None,
            require_check: true,
            network: None,
            environment: Unequal::default(),
            evidence: EvidenceRule::default(),
            ranks_per_node: None,
            min_nodes: None,
            line_rate: None,
            line_rate_share: SHARE,
            floors: Vec::new(),
            references: Vec::new(),
            history: true,
            data_only: false,
            one_rank: OneRank::default(),
            tolerance: Tolerance::default(),
            metrics: Vec::new(),
        }
    }
}

/// Rule for a table of one rank. Floors and references do not apply to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OneRank {
    /// The verdict is inconclusive if floors or references exist, because they could not be checked.
    #[default]
    Inconclusive,
    /// Judge by data alone. For criteria without link requirements, such as those of a single computer.
    Data,
}

impl OneRank {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Severity of NCCL variables that are in effect with values other than the requested ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unequal {
    /// The cluster was measured, but not as requested.
    #[default]
    Inconclusive,
    /// The cluster must provide the requested environment.
    Fail,
    /// Report only.
    Pass,
}

impl Unequal {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Rule for the hardware evidence of the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceRule {
    /// No evidence is collected.
    #[default]
    Off,
    /// Evidence is collected, and changes are judged. Missing evidence is reported.
    Judged,
    /// Like `judged`; missing evidence also makes the verdict inconclusive.
    Required,
}

impl EvidenceRule {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the job collects evidence.
    pub const fn is_taken(self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// A lower bound: both placements of this size must reach it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Message size, bytes.
    #[serde(deserialize_with = "ByteSize::bytes")]
    #[schemars(with = "ByteSize")]
    pub size_bytes: u64,
    /// Bus bandwidth, GB/s.
    #[schemars(range(min = 0.0))]
    pub busbw: f64,
    /// Collective to which the floor applies. Default: all collectives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<Collective>,
    /// Number of ranks to which the floor applies. Default: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
}

impl Floor {
    /// A floor for every collective and number of ranks.
    pub const fn everywhere(size_bytes: u64, busbw: f64) -> Self {
        Self { size_bytes, busbw, collective: None, ranks: None }
    }
}

/// A point of a published curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// Message size, bytes.
    #[serde(deserialize_with = "ByteSize::bytes")]
    #[schemars(with = "ByteSize")]
    pub size_bytes: u64,
    /// Bus bandwidth, GB/s.
    #[schemars(range(min = 0.0))]
    pub busbw: f64,
}

/// A published bandwidth curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Measured collective.
    pub collective: Collective,
    /// Number of ranks of the measurement, if the curve depends on it. For runs with another number the curve is scaled
    /// where a rule applies (docs/VERDICT.md); otherwise they are not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Origin: author, place and date of the measurement.
    pub source: String,
    /// Points of the curve; a run must measure all of them. Bus bandwidth above a point never fails.
    pub points: Vec<CurvePoint>,
}

/// Accepted shortfall of bus bandwidth from a reference, as a fraction of it, by region of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tolerance {
    /// On the plateau: sizes that reach at least 0.8 of the best bandwidth. 0.1 is 10 %.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub plateau: f64,
    /// Between the plateau and the latency region.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub slope: f64,
    /// In the latency region, in which the time hardly depends on the size.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub latency: f64,
}

impl Default for Tolerance {
    /// Clusters of the same kind agree within 10 % on the plateau.
    fn default() -> Self {
        Self { plateau: 0.1, slope: 0.25, latency: 0.5 }
    }
}

impl Tolerance {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
