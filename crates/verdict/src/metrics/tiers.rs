//! Two healthy levels of a metric over the runs of a baseline: subjects may change from one to the other.

use crate::{
    baseline::document::Tiers,
    statistics::{deviation, median},
};

use super::peers::{LEVEL_DISTANCE, LEVEL_GAP, LEVEL_SHARE, LEVEL_SUBJECTS};

/// Distance of the two levels, in printed steps: neighboring printed values are not two levels.
const STEPS: f64 = 3.0;

/// The levels of these runs, each with the values of all subjects. Both levels must exist in at least half of the runs, so that a change of
/// the whole cluster is not mistaken for a second level.
pub(super) fn tiers(runs: &[Vec<f64>], resolution: f64) -> Option<Tiers> {
    let mut all: Vec<f64> = runs.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let least = LEVEL_SUBJECTS.max((LEVEL_SHARE * all.len() as f64).ceil() as usize);
    let splits = least..=all.len().checked_sub(least)?;
    let gap = |at: usize| all[at] - all[at - 1];
    let split = splits.max_by(|a, b| gap(*a).total_cmp(&gap(*b)))?;
    let (low, high) = all.split_at(split);
    let (lower, upper) = (median(low.to_vec()), median(high.to_vec()));
    let distance = upper - lower;
    let spread = deviation(low.iter().copied(), lower).max(deviation(high.iter().copied(), upper));
    let is_apart = lower > 0.0
        && distance <= LEVEL_DISTANCE * upper
        && distance >= LEVEL_GAP * spread
        && distance >= STEPS * resolution
        && gap(split) >= distance / 2.0;
    if !is_apart {
        return None;
    }
    let tiers = Tiers { lower, upper };
    let has_both = |run: &&Vec<f64>| {
        let at_upper = run.iter().filter(|value| tiers.is_upper(**value)).count();
        let minority = at_upper.min(run.len() - at_upper);
        minority >= LEVEL_SUBJECTS && minority as f64 >= LEVEL_SHARE * run.len() as f64
    };
    // A run with few values shows no second level.
    let is_full = |run: &&Vec<f64>| run.len() >= 2 * LEVEL_SUBJECTS;
    let full = runs.iter().filter(is_full).count();
    (2 * runs.iter().filter(has_both).count() >= full).then_some(tiers)
}

impl Tiers {
    fn is_upper(&self, value: f64) -> bool {
        (value - self.upper).abs() <= (value - self.lower).abs()
    }

    /// `value`, scaled to the upper level.
    fn raised(&self, value: f64) -> f64 {
        if self.is_upper(value) { value } else { value * self.upper / self.lower }
    }

    /// Largest distance of a value from the healthy value of its level.
    pub(super) fn half(&self) -> f64 {
        (self.upper - self.lower) / 2.0
    }

    /// The healthy value of the same subject at the other level.
    pub(super) fn other(&self, healthy: f64) -> f64 {
        if self.is_upper(healthy) {
            healthy * self.lower / self.upper
        } else {
            healthy * self.upper / self.lower
        }
    }

    /// Median of a subject's values, at the level that most of the values have, and their relative spread.
    pub(super) fn median_and_spread(&self, values: &[f64]) -> (f64, f64) {
        let raised: Vec<f64> = values.iter().map(|value| self.raised(*value)).collect();
        let median_value = median(raised.clone());
        let spread = deviation(raised.into_iter().map(|value| value / median_value), 1.0);
        let at_upper = values.iter().filter(|value| self.is_upper(**value)).count();
        let is_upper = 2 * at_upper >= values.len();
        (if is_upper { median_value } else { median_value * self.lower / self.upper }, spread)
    }
}

/// The healthy value for a comparison: that of the level to which the measured value belongs.
pub(super) fn healthy(tiers: Option<Tiers>, learned: f64, value: f64) -> f64 {
    let Some(tiers) = tiers else { return learned };
    let other = tiers.other(learned);
    let distance = (value - other).abs();
    if distance < (value - learned).abs() && distance <= tiers.half() { other } else { learned }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five runs of 30 subjects, a third of them 2.2 % lower, a different third in each run.
    fn alternating() -> Vec<Vec<f64>> {
        let value = |run: usize, subject: usize| {
            (if (run + subject).is_multiple_of(3) { 7_070.0 } else { 7_228.0 }) + (subject % 5) as f64
        };
        (0..5).map(|run| (0..30).map(|subject| value(run, subject)).collect()).collect()
    }

    #[test]
    fn two_levels_of_the_same_runs_are_tiers() {
        let found = tiers(&alternating(), 1.0).unwrap();
        assert_eq!((found.lower, found.upper), (7_072.0, 7_230.0));
        assert!(
            (found.other(7_230.0) - 7_072.0).abs() < 1e-6 && (found.other(7_072.0) - 7_230.0).abs() < 1e-6
        );
        let (middle, spread) = found.median_and_spread(&[7_072.0, 7_230.0, 7_230.0, 7_230.0, 7_072.0]);
        assert!(middle == 7_230.0 && spread < 1e-9, "{middle} {spread}");
        assert_eq!(healthy(Some(found), 7_230.0, 7_071.0), found.other(7_230.0));
        assert_eq!(healthy(Some(found), 7_230.0, 7_160.0), 7_230.0, "the value is nearer to its own level");
        assert_eq!(healthy(Some(found), 7_230.0, 6_900.0), 7_230.0, "the value is at neither level");
    }

    #[test]
    fn changes_and_single_levels_are_not_tiers() {
        let flat = |value: f64| (0..30).map(|subject| value + f64::from(subject % 5)).collect::<Vec<_>>();
        assert_eq!(tiers(&[flat(7_228.0), flat(7_230.0)], 1.0), None);
        // All subjects change together.
        assert_eq!(tiers(&[flat(7_228.0), flat(7_228.0), flat(7_070.0), flat(7_070.0)], 1.0), None);
        let far: Vec<Vec<f64>> = alternating()
            .into_iter()
            .map(|run| run.into_iter().map(|it| if it < 7_100.0 { 6_900.0 } else { it }).collect())
            .collect();
        assert_eq!(tiers(&far, 1.0), None, "levels 4.5 % apart are not tiers");
        assert_eq!(tiers(&alternating(), 100.0), None, "neighboring printed values are not tiers");
        assert_eq!(tiers(&[], 1.0), None);
        assert_eq!(tiers(&[vec![1.0; 9]], 0.0), None);
    }
}
