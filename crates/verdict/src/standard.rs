//! Inputs of a verdict that are not evidence: criteria, baseline, history and pin.

use model::{Criteria, Reason};

use crate::{baseline::document::Baseline, pin::Pin};

/// Reference values of a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard<'a> {
    /// Criteria, including published references.
    pub criteria: Option<&'a Criteria>,
    /// Healthy curve of this cluster.
    pub baseline: Option<&'a Baseline>,
    /// The [level](Baseline::level) of every run since the baseline was learned, oldest first.
    pub earlier: &'a [f64],
    /// The [levels](Baseline::fleet_levels) of the metrics of every run since the baseline was learned, oldest first.
    pub earlier_metrics: &'a [Vec<Option<f64>>],
    /// Number of the baseline's first runs that define the healthy state: a change among them is not reported. Absent if a person chose
    /// all its runs.
    pub defining_runs: Option<usize>,
    /// Manual choice of the baseline, if any.
    pub pin: Option<&'a Pin>,
    /// Reasons about the baseline itself: runs excluded from it, or the reason why the cluster's history does not
    /// provide one.
    pub learned: &'a [Reason],
}
