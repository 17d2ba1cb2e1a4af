//! Bounds of a metric: floor, ceiling, required value, references.

use std::collections::BTreeMap;

use model::{DeviceTolerance, Verdict, measurement::Reading};

use super::{
    FoundReasons,
    library::Devices,
    listed,
    measured::{Measured, MeasuredValue, worse_by},
    peers,
};

pub(super) fn judge<'a>(measured: &Measured<'a>, reading: &'a Reading, found: &mut FoundReasons<'a>) {
    let (criterion, name) = (measured.criterion, &measured.name);
    let values = measured.values();
    let mut violated = |code, bound: String, is_bad: &dyn Fn(&MeasuredValue<'a>) -> bool| {
        let bad: Vec<_> = values.iter().filter(|value| is_bad(value)).collect();
        // If most values miss a bound, the miss is weaker evidence against a single subject.
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
    if let Some(rule) = criterion.peers {
        let mut groups: BTreeMap<_, Vec<MeasuredValue<'a>>> = BTreeMap::new();
        for value in &values {
            groups.entry(measured.labels(value.metric)).or_default().push(*value);
        }
        for group in groups.into_values() {
            peers::judge(&group, name, rule, found);
        }
    }
}

fn distance(expected: f64, unit: &str, within: f64, source: &str) -> String {
    format!("is worse than the reference {expected} {unit} by more than {:.1} % ({source})", 100.0 * within)
}

/// Compares each value with the library's value for its device. A value without a comparable reference is inconclusive.
fn judge_device<'a>(
    values: &[MeasuredValue<'a>],
    name: &str,
    DeviceTolerance { within }: DeviceTolerance,
    reading: &'a Reading,
    found: &mut FoundReasons<'a>,
) {
    let devices = Devices::of(reading);
    let mut worse: BTreeMap<String, Vec<&MeasuredValue<'a>>> = BTreeMap::new();
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let metric = value.metric;
        let reference =
            devices.reference(metric).and_then(|reference| match *metric.unit == *reference.unit {
                true => Ok(reference),
                false => {
                    Err(format!("the library states it in {}, the log in {}", reference.unit, metric.unit))
                }
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
