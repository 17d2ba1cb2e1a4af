//! Bounds of a metric: floor, ceiling, required value, references, peers.

use std::collections::BTreeMap;

use model::{DeviceTolerance, Peers, Verdict, measurement::Reading, metric::Better};

use crate::statistics::median;

use super::{
    Found,
    library::Devices,
    listed,
    measured::{Measured, Value},
};

/// Scales the median absolute deviation of normal noise to its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

pub(super) fn judge(measured: &Measured<'_>, reading: &Reading, found: &mut Found) {
    let (criterion, name) = (measured.criterion, &measured.name);
    let values = measured.values();
    let mut violated = |code, bound: String, is_bad: &dyn Fn(&Value<'_>) -> bool| {
        let bad: Vec<_> = values.iter().filter(|value| is_bad(value)).collect();
        // A bound that every subject misses is no evidence against a single one.
        let strength = if bad.len() * 2 <= values.len() { 0.9 } else { 0.5 };
        for value in &bad {
            found.blame(&value.metric.subject, &criterion.metric, strength);
        }
        if !bad.is_empty() {
            let subjects = listed(bad.iter().map(|value| value.to_string()).collect());
            found.add(Verdict::Fail, code, format!("{name} {bound}: {subjects}"));
        }
    };
    let unit = values.first().map_or("", |value| &*value.metric.unit);
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
        let (expected, within) = (reference.value, reference.within);
        violated("WORSE_THAN_REFERENCE", distance(expected, unit, within, &reference.source), &|value| {
            worse_by(value.metric.better, expected, value.value) > within * expected.abs()
        });
    }
    if let Some(tolerance) = criterion.device_reference {
        judge_device(&values, name, tolerance, reading, found);
    }
    if let Some(peers) = &criterion.peers {
        let mut groups: BTreeMap<_, Vec<Value<'_>>> = BTreeMap::new();
        for value in &values {
            groups.entry(measured.labels(value.metric)).or_default().push(*value);
        }
        for group in groups.into_values() {
            judge_peers(&group, name, *peers, &criterion.metric, found);
        }
    }
}

fn distance(expected: f64, unit: &str, within: f64, source: &str) -> String {
    format!("is worse than the reference {expected} {unit} by more than {:.1} % ({source})", 100.0 * within)
}

/// Compares each value with the library's value for its device. A value without a comparable reference is inconclusive.
fn judge_device(
    values: &[Value<'_>],
    name: &str,
    DeviceTolerance { within }: DeviceTolerance,
    reading: &Reading,
    found: &mut Found,
) {
    let devices = Devices::of(reading);
    let mut worse: BTreeMap<String, Vec<&Value<'_>>> = BTreeMap::new();
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let metric = value.metric;
        let reference =
            devices.reference(metric).and_then(|reference| match *metric.unit == *reference.unit {
                true => Ok(reference),
                false => Err(format!("its value is in {}, not in {}", reference.unit, metric.unit)),
            });
        match reference {
            Err(why) => *missing.entry(why).or_default() += 1,
            Ok(reference) => {
                if worse_by(metric.better, reference.value, value.value) > within * reference.value.abs() {
                    let source = format!("{}: {}", reference.device, reference.source);
                    worse
                        .entry(distance(reference.value, reference.unit, within, &source))
                        .or_default()
                        .push(value);
                }
            }
        }
    }
    for (why, count) in missing {
        let text = format!("{name} has no reference for {count} of {} values: {why}", values.len());
        found.add(Verdict::Inconclusive, "NO_DEVICE_REFERENCE", text);
    }
    for (bound, bad) in worse {
        let strength = if bad.len() * 2 <= values.len() { 0.9 } else { 0.5 };
        for value in &bad {
            found.blame(&value.metric.subject, &value.metric.name, strength);
        }
        let subjects = listed(bad.iter().map(|value| value.to_string()).collect());
        found.add(Verdict::Fail, "WORSE_THAN_REFERENCE", format!("{name} {bound}: {subjects}"));
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
