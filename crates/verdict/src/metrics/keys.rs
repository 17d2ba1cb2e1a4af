//! Identity of values in different runs.

use std::{cmp::Ordering, collections::BTreeMap};

use model::{
    measurement::Reading,
    metric::{Better, Metric},
};

use crate::baseline::document::{FleetKey, MetricKey};

use super::position::SubjectPosition;

/// A [`MetricKey`], borrowed: a fleet has hundreds of thousands of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BorrowedKey<'a> {
    name: &'a str,
    unit: &'a str,
    better: Better,
    pub(super) position: SubjectPosition<'a>,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> BorrowedKey<'a> {
    pub(super) fn of(metric: &'a Metric) -> Self {
        let Metric { name, unit, better, subject, labels, .. } = metric;
        Self { name, unit, better: *better, position: SubjectPosition::of(subject), labels }
    }

    pub(super) fn learned(key: &'a MetricKey) -> Self {
        let MetricKey { name, unit, better, subject, labels } = key;
        Self { name, unit, better: *better, position: SubjectPosition::of(subject), labels }
    }

    pub(super) fn owned(&self) -> MetricKey {
        MetricKey {
            name: self.name.to_owned(),
            unit: self.unit.to_owned(),
            better: self.better,
            subject: self.position.subject(),
            labels: self.labels.clone(),
        }
    }
}

/// Name, unit, direction and labels, which all subjects of a metric have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FleetName<'a> {
    name: &'a str,
    unit: &'a str,
    pub(super) better: Better,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> FleetName<'a> {
    pub(super) const fn of(key: &BorrowedKey<'a>) -> Self {
        let BorrowedKey { name, unit, better, labels, position: _ } = *key;
        Self { name, unit, better, labels }
    }

    pub(super) fn learned(key: &'a FleetKey) -> Self {
        let FleetKey { name, unit, better, labels } = key;
        Self { name, unit, better: *better, labels }
    }

    pub(super) fn owned(&self) -> FleetKey {
        FleetKey {
            name: self.name.to_owned(),
            unit: self.unit.to_owned(),
            better: self.better,
            labels: self.labels.clone(),
        }
    }
}

pub(super) type SubjectValues<'a> = BTreeMap<BorrowedKey<'a>, (f64, &'a Metric)>;

/// Judged values by key; evidence without a direction is excluded. If a key has several values, its value is the [worst](worse) one.
pub(super) fn values(reading: &Reading) -> SubjectValues<'_> {
    let judged = reading.metrics.iter().filter(|metric| metric.better != Better::None);
    let mut values: Vec<(BorrowedKey<'_>, (f64, &Metric))> =
        judged.filter_map(|metric| Some((BorrowedKey::of(metric), (metric.value?, metric)))).collect();
    // The sort is stable, and linear for a fleet, whose subjects are almost in order. The map keeps the last value of each key.
    values.sort_by(|(key, (value, _)), (other_key, (other, _))| {
        let worst_last = || match key.better {
            Better::Higher => other.total_cmp(value),
            Better::Lower => value.total_cmp(other),
            Better::Exact | Better::None => Ordering::Equal,
        };
        key.cmp(other_key).then_with(worst_last)
    });
    values.into_iter().collect()
}

/// The worse of two values of one key; for values without a worse direction the later one. Therefore a comparison of one value of each key
/// finds every bad value, and does not depend on the order in which several processes print.
pub(super) const fn worse(better: Better, earlier: f64, later: f64) -> f64 {
    match better {
        Better::Higher => earlier.min(later),
        Better::Lower => earlier.max(later),
        Better::Exact | Better::None => later,
    }
}

pub(super) fn described(key: &MetricKey) -> String {
    let labels: String = key.labels.iter().map(|(name, value)| format!(" {name} {value}")).collect();
    format!("{}{labels} of {}", key.name, key.subject)
}
