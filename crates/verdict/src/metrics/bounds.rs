//! Bounds of a metric: floor, ceiling, required value, reference, peers.

use std::collections::BTreeMap;

use model::{
    MetricCriterion, Peers, Verdict,
    measurement::Reading,
    metric::{Better, Metric},
};

use crate::statistics::median;

use super::{Found, described, listed, matching};

/// Scales the median absolute deviation of normal noise to its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

pub(super) fn judge(reading: &Reading, criterion: &MetricCriterion, found: &mut Found) {
    let measured: Vec<_> = matching(reading, criterion).filter_map(Value::of).collect();
    let name = described(criterion);
    let mut violated = |code, bound: String, is_bad: &dyn Fn(&Value<'_>) -> bool| {
        let bad: Vec<_> = measured.iter().filter(|value| is_bad(value)).collect();
        // A bound that every subject misses is no evidence against a single one.
        let strength = if bad.len() * 2 <= measured.len() { 0.9 } else { 0.5 };
        for value in &bad {
            found.blame(&value.metric.subject, &criterion.metric, strength);
        }
        if !bad.is_empty() {
            let subjects = listed(bad.iter().map(|value| value.to_string()).collect());
            found.add(Verdict::Fail, code, format!("{name} {bound}: {subjects}"));
        }
    };
    let unit = measured.first().map_or("", |value| &*value.metric.unit);
    if let Some(floor) = criterion.floor {
        violated("BELOW_FLOOR", format!("is below {floor} {unit}"), &|value| value.value < floor);
    }
    if let Some(ceiling) = criterion.ceiling {
        violated("ABOVE_CEILING", format!("is above {ceiling} {unit}"), &|value| value.value > ceiling);
    }
    if let Some(equals) = criterion.equals {
        violated("NOT_EQUAL", format!("is not {equals} {unit}"), &|value| value.value != equals);
    }
    if let Some(reference) = &criterion.reference {
        let bound = format!(
            "is worse than the reference {} {unit} by more than {:.1} % ({})",
            reference.value,
            100.0 * reference.within,
            reference.source
        );
        violated("WORSE_THAN_REFERENCE", bound, &|value| {
            let accepted = reference.within * reference.value.abs();
            worse_by(value.metric.better, reference.value, value.value) > accepted
        });
    }
    if let Some(peers) = &criterion.peers {
        let mut groups: BTreeMap<_, Vec<Value<'_>>> = BTreeMap::new();
        for value in &measured {
            groups.entry(&value.metric.labels).or_default().push(*value);
        }
        for group in groups.into_values() {
            judge_peers(&group, &name, *peers, &criterion.metric, found);
        }
    }
}

/// Compares each subject with the median of all. Both estimators ignore up to half of the subjects, so that one bad subject
/// does not hide itself.
fn judge_peers(group: &[Value<'_>], name: &str, peers: Peers, metric: &str, found: &mut Found) {
    if group.len() < peers.at_least as usize {
        let text = format!(
            "{name} has {} comparable subjects, and the comparison needs {}",
            group.len(),
            peers.at_least
        );
        found.add(Verdict::Inconclusive, "TOO_FEW_PEERS", text);
        return;
    }
    let middle = median(group.iter().map(|value| value.value).collect());
    let scale = MAD_TO_SIGMA * median(group.iter().map(|value| (value.value - middle).abs()).collect());
    let resolution = group.iter().filter_map(|value| value.metric.resolution).fold(0.0, f64::max);
    let accepted = (peers.within * middle.abs()).max(peers.spreads * scale).max(resolution);
    let bad: Vec<_> =
        group.iter().filter(|value| worse_by(value.metric.better, middle, value.value) > accepted).collect();
    if bad.is_empty() {
        return;
    }
    for value in &bad {
        found.blame(&value.metric.subject, metric, 0.9);
    }
    let unit = &bad[0].metric.unit;
    let subjects = listed(bad.iter().map(|value| value.to_string()).collect());
    let text =
        format!("{name} is worse than the median of {} subjects, {middle} {unit}: {subjects}", group.len());
    found.add(Verdict::Fail, "WORSE_THAN_PEERS", text);
}

/// Distance from `expected` in the worse direction, in the metric's unit; any distance for `exact`.
pub(super) fn worse_by(better: Better, expected: f64, value: f64) -> f64 {
    match better {
        Better::Higher => expected - value,
        Better::Lower => value - expected,
        Better::Exact => (value - expected).abs(),
        Better::None => 0.0,
    }
}

/// A metric with a value.
#[derive(Clone, Copy)]
struct Value<'a> {
    metric: &'a Metric,
    value: f64,
}

impl<'a> Value<'a> {
    fn of(metric: &'a Metric) -> Option<Self> {
        Some(Self { metric, value: metric.value? })
    }
}

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} (line {})", self.metric.subject, self.value, self.metric.unit, self.metric.line)
    }
}
