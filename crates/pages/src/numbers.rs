//! Values of runs as shown in cells and rows.

use model::metric::Better;
use report::{MetricValue, trend::number};
use run_index::{CheckValues, RunValues};
use serde::Serialize;

/// Maximum number of checks in a description.
const CHECKS: usize = 6;

/// The metric that represents a run: the main metric of the first check that has metrics.
pub fn main_metric(values: &RunValues) -> Option<(&CheckValues, &MetricValue)> {
    values.checks.iter().find_map(|check| Some((check, main_of(check)?)))
}

/// The metric that represents a check: the first judged metric, or else the first metric.
pub fn main_of(check: &CheckValues) -> Option<&MetricValue> {
    let metrics = &check.values.metrics;
    metrics.iter().find(|metric| metric.better != Better::None).or(metrics.first())
}

/// Name of a metric, with its check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CheckMetric {
    /// Name of the check; `None` for a single benchmark.
    pub check: Option<String>,
    /// Name of the metric, such as `gemm.throughput`.
    pub name: String,
    pub unit: String,
}

impl CheckMetric {
    pub fn of((check, metric): (&CheckValues, &MetricValue)) -> Self {
        Self { check: check.check.clone(), name: metric.name.clone(), unit: metric.unit.clone() }
    }

    pub fn find<'a>(&self, values: &'a RunValues) -> Option<(&'a CheckValues, &'a MetricValue)> {
        let check = values.checks.iter().find(|check| check.check == self.check)?;
        let same = |metric: &&MetricValue| metric.name == self.name && metric.unit == self.unit;
        Some((check, check.values.metrics.iter().find(same)?))
    }

    /// The metric's value in a run, without the unit.
    pub fn number(&self, values: &RunValues) -> Option<String> {
        self.find(values).map(|(_, metric)| number(metric.value))
    }

    /// Title for a column or a chart, such as `all_reduce plateau, GB/s`.
    pub fn title(&self) -> String {
        match &self.check {
            // Omit the name of the check if the name of the metric contains it.
            Some(check) if !self.name.contains(check.as_str()) => {
                format!("{check}: {}, {}", self.name, self.unit)
            }
            _ => format!("{}, {}", self.name, self.unit),
        }
    }
}

/// A value with its unit, and the values of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct ShownValue {
    /// Value without unit.
    pub number: String,
    pub unit: String,
    /// The values of all checks, for a tooltip.
    pub all: String,
}

impl ShownValue {
    /// The value that represents a run.
    pub fn of(values: Option<&RunValues>) -> Option<Self> {
        let (_, metric) = main_metric(values?)?;
        Some(Self { number: number(metric.value), unit: metric.unit.clone(), all: described(values?) })
    }
}

/// The values of all checks as one text, such as `all_reduce plateau 351 GB/s; memory: memory.copy 12.3 GB/s`.
pub fn described(values: &RunValues) -> String {
    let of_check = |check: &CheckValues| {
        let metric = main_of(check)?;
        let name = check.check.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        Some(format!("{name}{} {} {}", metric.name, number(metric.value), metric.unit))
    };
    let mut all: Vec<_> = values.checks.iter().filter_map(of_check).collect();
    let more = all.len().saturating_sub(CHECKS);
    all.truncate(CHECKS);
    all.extend((more > 0).then(|| format!("{more} more")));
    all.join("; ")
}

/// Direction of improvement as text, such as `higher is better`.
pub const fn direction(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
        Better::Exact => "must be equal",
        Better::None => "not judged",
    }
}
