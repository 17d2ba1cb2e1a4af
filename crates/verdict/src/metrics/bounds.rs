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

pub(super) fn judge<'a>(measured: &Measured<'a>, reading: &'a Reading, found: &mut Found<'a>) {
    let (criterion, name) = (measured.criterion, &measured.name);
    let values = measured.values();
    let mut violated = |code, bound: String, is_bad: &dyn Fn(&Value<'a>) -> bool| {
        let bad: Vec<_> = values.iter().filter(|value| is_bad(value)).collect();
        // A bound that every subject misses is no evidence against a single one.
        let strength = if bad.len() * 2 <= values.len() { 0.9 } else { 0.5 };
        for value in &bad {
            found.blame_value(value.metric, strength);
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
        let mut groups: BTreeMap<_, Vec<Value<'a>>> = BTreeMap::new();
        for value in &values {
            groups.entry(measured.labels(value.metric)).or_default().push(*value);
        }
        for group in groups.into_values() {
            judge_peers(&group, name, *peers, found);
        }
    }
}

fn distance(expected: f64, unit: &str, within: f64, source: &str) -> String {
    format!("is worse than the reference {expected} {unit} by more than {:.1} % ({source})", 100.0 * within)
}

/// Compares each value with the library's value for its device. A value without a comparable reference is inconclusive.
fn judge_device<'a>(
    values: &[Value<'a>],
    name: &str,
    DeviceTolerance { within }: DeviceTolerance,
    reading: &'a Reading,
    found: &mut Found<'a>,
) {
    let devices = Devices::of(reading);
    let mut worse: BTreeMap<String, Vec<&Value<'a>>> = BTreeMap::new();
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
            found.blame_value(value.metric, strength);
        }
        let subjects = listed(bad.iter().map(|value| value.to_string()).collect());
        found.add(Verdict::Fail, "WORSE_THAN_REFERENCE", format!("{name} {bound}: {subjects}"));
    }
}

/// Compares each subject with the median of all. Both estimators ignore up to half of the subjects, so that one bad subject
/// does not hide itself.
fn judge_peers<'a>(group: &[Value<'a>], name: &str, peers: Peers, found: &mut Found<'a>) {
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
    let worse = |value: &&Value<'_>| worse_by(value.metric.better, middle, value.value) > accepted;
    let mut bad: Vec<_> = group.iter().filter(worse).collect();
    let Some(unit) = bad.first().map(|value| &value.metric.unit) else { return };
    if let Some(level) = second_level(&bad, (group.len(), middle, scale), peers.spreads) {
        let text = format!(
            "{name} has two levels: {} of {} subjects are at {level} {unit}, the median is {middle} {unit}",
            bad.iter().filter(|value| level.has(value.value)).count(),
            group.len()
        );
        found.add(Verdict::Pass, "TWO_LEVELS", text);
        bad.retain(|value| !level.has(value.value));
        if bad.is_empty() {
            return;
        }
    }
    for value in &bad {
        found.blame_value(value.metric, 0.9);
    }
    let subjects = listed(bad.iter().map(|value| value.to_string()).collect());
    let text =
        format!("{name} is worse than the median of {} subjects, {middle} {unit}: {subjects}", group.len());
    found.add(Verdict::Fail, "WORSE_THAN_PEERS", text);
}

/// Maximum distance of a second level from the first one, relative. A published healthy fleet alternates between two levels of
/// memory bandwidth, 2.2 % apart; a defect that many devices share is usually further away.
const LEVEL_DISTANCE: f64 = 0.025;
/// Minimum share of the subjects at the second level, and their minimum number.
const LEVEL_SHARE: f64 = 0.15;
const LEVEL_SUBJECTS: usize = 4;
/// Minimum distance of two levels, in robust standard deviations of each.
const LEVEL_GAP: f64 = 4.0;

/// A second level of healthy subjects.
#[derive(Clone, Copy)]
struct Level {
    middle: f64,
    width: f64,
}

impl Level {
    fn has(&self, value: f64) -> bool {
        (value - self.middle).abs() <= self.width
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.middle.fmt(f)
    }
}

/// The level that the worse subjects form, if they are many, close to each other and close to the others.
fn second_level(
    worse: &[&Value<'_>],
    (all, middle, scale): (usize, f64, f64),
    spreads: f64,
) -> Option<Level> {
    let count = worse.len();
    if count < LEVEL_SUBJECTS || (count as f64) < LEVEL_SHARE * all as f64 {
        return None;
    }
    let own = median(worse.iter().map(|value| value.value).collect());
    let own_scale = MAD_TO_SIGMA * median(worse.iter().map(|value| (value.value - own).abs()).collect());
    let distance = (middle - own).abs();
    let resolution = worse.iter().filter_map(|value| value.metric.resolution).fold(0.0, f64::max);
    let level = Level { middle: own, width: (spreads * own_scale).max(resolution).min(distance / 2.0) };
    let members = worse.iter().filter(|value| level.has(value.value)).count();
    let is_level = distance <= LEVEL_DISTANCE * middle.abs()
        && distance >= LEVEL_GAP * scale.max(own_scale)
        && members >= LEVEL_SUBJECTS
        && members as f64 >= LEVEL_SHARE * all as f64;
    is_level.then_some(level)
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
