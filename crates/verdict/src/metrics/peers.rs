//! Comparison of each subject with its siblings in the same run.

use model::{Peers, Verdict};

use crate::statistics::{deviation, median};

use super::{
    FoundReasons, listed,
    measured::{MeasuredValue, worse_by},
};

/// Compares each subject with the median of all subjects. Both estimators ignore up to half of the subjects, so that a bad
/// subject does not widen its own tolerance.
pub(super) fn judge<'a>(group: &[MeasuredValue<'a>], name: &str, peers: Peers, found: &mut FoundReasons<'a>) {
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
    let scale = deviation(group.iter().map(|value| value.value), middle);
    let resolution = group.iter().filter_map(|value| value.metric.resolution).fold(0.0, f64::max);
    let accepted = (peers.within * middle.abs()).max(peers.spreads * scale).max(resolution);
    let worse = |value: &&MeasuredValue<'_>| worse_by(value.metric.better, middle, value.value) > accepted;
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
pub(super) const LEVEL_DISTANCE: f64 = 0.025;
/// Minimum share of the subjects at the second level.
pub(super) const LEVEL_SHARE: f64 = 0.15;
/// Minimum number of subjects at the second level.
pub(super) const LEVEL_SUBJECTS: usize = 4;
/// Minimum distance of two levels, in robust standard deviations of each.
pub(super) const LEVEL_GAP: f64 = 4.0;

/// A second level of the subjects' values, which is healthy as well.
#[derive(Clone, Copy)]
struct SecondLevel {
    middle: f64,
    width: f64,
}

impl SecondLevel {
    fn has(&self, value: f64) -> bool {
        (value - self.middle).abs() <= self.width
    }
}

impl std::fmt::Display for SecondLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.middle.fmt(f)
    }
}

/// The level that the worse subjects form, if they reach the minimum number and are close to each other and to the
/// others.
fn second_level(
    worse: &[&MeasuredValue<'_>],
    (all, middle, scale): (usize, f64, f64),
    spreads: f64,
) -> Option<SecondLevel> {
    let count = worse.len();
    if count < LEVEL_SUBJECTS || (count as f64) < LEVEL_SHARE * all as f64 {
        return None;
    }
    let own = median(worse.iter().map(|value| value.value).collect());
    let own_scale = deviation(worse.iter().map(|value| value.value), own);
    let distance = (middle - own).abs();
    let resolution = worse.iter().filter_map(|value| value.metric.resolution).fold(0.0, f64::max);
    let level = SecondLevel { middle: own, width: (spreads * own_scale).max(resolution).min(distance / 2.0) };
    let members = worse.iter().filter(|value| level.has(value.value)).count();
    let is_level = distance <= LEVEL_DISTANCE * middle.abs()
        && distance >= LEVEL_GAP * scale.max(own_scale)
        && members >= LEVEL_SUBJECTS
        && members as f64 >= LEVEL_SHARE * all as f64;
    is_level.then_some(level)
}
