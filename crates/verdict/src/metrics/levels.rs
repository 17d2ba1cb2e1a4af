//! Levels of whole metrics: a run compared with the learned values of all its subjects.

use std::collections::{BTreeMap, BTreeSet};

use model::metric::Metric;

use crate::baseline::document::{Baseline, MetricBaseline, MetricFleet, MetricKey, Tiers};

use super::{
    fleet,
    keys::{BorrowedKey, FleetName, worse},
    tiers::healthy,
};

/// The learned values by subject, and the tiers by metric.
pub(super) struct SubjectIndex<'a> {
    /// Learned value of each subject, with its index in key order.
    learned: BTreeMap<BorrowedKey<'a>, (usize, &'a MetricBaseline)>,
    fleets: BTreeMap<FleetName<'a>, (usize, Option<Tiers>)>,
}

impl<'a> SubjectIndex<'a> {
    pub(super) fn of(baseline: &'a Baseline) -> Self {
        let learned: BTreeMap<_, _> =
            baseline.metrics.iter().map(|it| (BorrowedKey::learned(&it.key), it)).collect();
        let learned = learned.into_iter().enumerate().map(|(at, (key, it))| (key, (at, it))).collect();
        let fleets = baseline.fleets.iter().enumerate();
        let fleets = fleets.map(|(at, it)| (FleetName::learned(&it.key), (at, it.tiers))).collect();
        Self { learned, fleets }
    }

    pub(super) fn tiers(&self, key: &MetricKey) -> Option<Tiers> {
        self.fleets.get(&FleetName::of(&BorrowedKey::learned(key))).and_then(|(_, tiers)| *tiers)
    }

    /// The learned value of the metric.
    pub(super) fn learned(&self, metric: &Metric) -> Option<&'a MetricBaseline> {
        self.learned.get(&BorrowedKey::of(metric)).map(|(_, learned)| *learned)
    }

    /// The level of each metric of a run, in the order of the baseline's fleets.
    pub(super) fn levels(&self, metrics: &[Metric]) -> Vec<Option<f64>> {
        // NaN marks a value that the run lacks.
        let mut own = vec![f64::NAN; self.learned.len()];
        for metric in metrics {
            let learned = self.learned.get(&BorrowedKey::of(metric));
            if let (Some(value), Some((at, _))) = (metric.value, learned) {
                own[*at] = worse(metric.better, own[*at], value);
            }
        }
        let mut differences = vec![Vec::new(); self.fleets.len()];
        for (key, (at, learned)) in &self.learned {
            let value = own[*at];
            let Some((at, tiers)) = self.fleets.get(&FleetName::of(key)) else { continue };
            if !value.is_nan() && learned.value != 0.0 {
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

    /// Adds the fleets, which a baseline of an older version lacks.
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
