//! Baselines: the curve of a healthy cluster, learned robustly from five or more runs.
//!
//! Times are compared, not bandwidths: nccl-tests prints times with more digits, and small sizes have a
//! bandwidth of `0.00`. Location is the median over runs; scale is the median absolute deviation, pooled over a region of the curve because
//! five runs are too few for a single point. One bad point in one run affects neither. Source of the estimators and of their behavior in
//! small samples: Rousseeuw and Croux, *Alternatives to the Median Absolute Deviation*, 1993.

pub(crate) mod document;
mod learn;

pub use crate::metrics::MetricHistory;
pub use document::{
    Baseline, BaselinePoint, CommonSpread, FleetKey, LEAST_SPREAD, MetricBaseline, MetricFleet, MetricKey,
    Region, SizeKey, Tiers, halves, regions,
};
pub use learn::{Healthy, Paired, Unlearnable, learn, learn_paired, learn_without_outliers, levels};
