//! A common shift of all subjects that is too small to detect in a single subject.
//!
//! Each subject is compared with its own past, so the differences between subjects cancel: over 30 nodes that repeat within
//! 0.06 %, a shift of 0.13 % is certain from one pair of runs.

use crate::baseline::document::CommonSpread;

/// Minimum number of subjects.
const FEWEST: usize = 8;
/// Fraction of the differences that is trimmed at each end: single bad subjects are judged on their own.
const TRIMMED: f64 = 0.1;
/// Accepted probability of a false shift in one run, over all its metrics.
const FALSE: f64 = 0.001;

/// A shift of all subjects of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shift {
    /// Mean relative difference without the extremes: -0.01 is 1 % lower.
    pub(super) mean: f64,
    /// Standard error of the mean.
    pub(super) error: f64,
    pub(super) subjects: usize,
}

/// The shift of these relative differences; `None` if they show no shift.
///
/// `resolution`: the largest printed step relative to its value; smaller shifts are ignored. `common`: changes of all subjects together
/// between the runs of the baseline; they are not a shift. `tests`: number of metrics tested in this run. Trimmed mean with the winsorized
/// variance (Yuen 1974).
pub(super) fn shift(
    mut differences: Vec<f64>,
    (resolution, common): (f64, Option<CommonSpread>),
    tests: usize,
) -> Option<Shift> {
    let subjects = differences.len();
    if subjects < FEWEST {
        return None;
    }
    differences.sort_by(f64::total_cmp);
    let cut = (TRIMMED * subjects as f64) as usize;
    let kept = &differences[cut..subjects - cut];
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let (lowest, highest) = (kept[0], kept[kept.len() - 1]);
    let winsorized: Vec<f64> = differences.iter().map(|it| it.clamp(lowest, highest)).collect();
    let centre = winsorized.iter().sum::<f64>() / subjects as f64;
    let squares: f64 = winsorized.iter().map(|it| (it - centre).powi(2)).sum();
    // Rounding can make unequal differences equal, so the variance has a minimum: each rounding has the variance
    // step^2 / 12.
    let variance = (squares / (subjects - 1) as f64).max(resolution.powi(2) / 6.0).max(f64::EPSILON.powi(2));
    let own = variance.sqrt() / ((1.0 - 2.0 * TRIMMED) * (subjects as f64).sqrt());
    let (error, freedom) = match common {
        None => (own, kept.len() - 1),
        Some(CommonSpread { deviation, runs }) => {
            let shared = deviation.powi(2) * (1.0 + 1.0 / f64::from(runs));
            ((own.powi(2) + shared).sqrt(), (kept.len() - 1).min(runs.max(2) as usize - 1))
        }
    };
    let is_certain = tail(mean / error, freedom as f64) * tests.max(1) as f64 <= FALSE;
    (is_certain && mean.abs() > resolution).then_some(Shift { mean, error, subjects })
}

/// Upper bound of the probability of a larger Student's t in either direction: Wallace's normal approximation (1959) and the bound
/// of Mills' ratio.
fn tail(t: f64, freedom: f64) -> f64 {
    let z = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0) * (freedom * (t * t / freedom).ln_1p()).sqrt();
    if z < 1.0 { 1.0 } else { 2.0 * (-z * z / 2.0).exp() / (z * std::f64::consts::TAU.sqrt()) }
}

#[cfg(test)]
mod tests {
    use model::SplitMix64;

    use super::*;

    /// Sum of twelve uniform numbers: approximately normal within three standard deviations.
    fn normal(random: &mut SplitMix64) -> f64 {
        (0..12).map(|_| random.part()).sum::<f64>() - 6.0
    }

    /// Relative differences of two runs of `count` nodes: spread 0.06 % between runs, values printed in steps of 0.037 %.
    fn pair(random: &mut SplitMix64, count: usize, moved: f64) -> Vec<f64> {
        const STEP: f64 = 0.000_37;
        let printed = |value: f64| (value / STEP).round() * STEP;
        let one = |random: &mut SplitMix64| {
            let own = 1.0 + 0.000_6 * normal(random);
            let noise = |random: &mut SplitMix64| 0.000_4 * normal(random);
            let (before, after) =
                (printed(own + noise(random)), printed(own * (1.0 + moved) + noise(random)));
            after / before - 1.0
        };
        (0..count).map(|_| one(random)).collect()
    }

    #[test]
    fn a_small_common_shift_is_found_and_random_differences_are_not_a_shift() {
        let mut random = SplitMix64(22);
        let mut found = |count, moved| {
            let runs =
                (0..1_000).filter(|_| shift(pair(&mut random, count, moved), (0.000_37, None), 1).is_some());
            runs.count()
        };
        let of_none = found(30, 0.0);
        assert!(of_none <= 1, "{of_none} of 1,000 pairs without a shift");
        let of_shift = found(30, -0.001_3);
        assert!(of_shift >= 990, "{of_shift} of 1,000 pairs with a shift of 0.13 %");
        assert!(found(20, -0.001_23) >= 980);
    }

    #[test]
    fn changes_that_all_subjects_share_between_runs_are_not_a_shift() {
        let mut random = SplitMix64(3);
        // All subjects of a run deviate together by 0.1 %, like those of the five runs of the baseline.
        let common = Some(CommonSpread { deviation: 0.001, runs: 5 });
        let found = (0..1_000).filter(|_| {
            let of_run = 0.001 * normal(&mut random);
            shift(pair(&mut random, 30, of_run), (0.000_37, common), 1).is_some()
        });
        assert!(found.count() <= 2);
        assert!(shift(pair(&mut random, 30, -0.03), (0.000_37, common), 1).is_some());
    }

    /// Differences with exactly this mean and standard deviation, both in percent.
    fn with_moments(random: &mut SplitMix64, count: usize, mean: f64, deviation: f64) -> Vec<f64> {
        let raw: Vec<f64> = (0..count).map(|_| normal(random)).collect();
        let centre = raw.iter().sum::<f64>() / count as f64;
        let squares: f64 = raw.iter().map(|it| (it - centre).powi(2)).sum();
        let own = (squares / (count - 1) as f64).sqrt();
        raw.iter().map(|it| (mean + (it - centre) / own * deviation) / 100.0).collect()
    }

    #[test]
    fn the_hpl_runs_of_a_published_fleet_have_the_expected_shifts() {
        // HPL of 31 nodes in April, mid-April and May: number of nodes, mean and standard deviation of the differences, percent.
        for (count, mean, deviation, expected) in
            [(20, -0.009, 0.071, false), (20, -0.123, 0.050, true), (30, -0.127, 0.059, true)]
        {
            for seed in 0..100 {
                let differences = with_moments(&mut SplitMix64(seed), count, mean, deviation);
                assert_eq!(
                    shift(differences, (0.000_37, None), 1).is_some(),
                    expected,
                    "{mean} %, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn bad_subjects_neither_cause_nor_mask_a_shift() {
        let mut random = SplitMix64(7);
        let mut differences = pair(&mut random, 30, 0.0);
        differences[3] = -0.2;
        differences[9] = -0.1;
        assert_eq!(shift(differences, (0.000_37, None), 1), None);
        let mut differences = pair(&mut random, 30, -0.001_3);
        differences[3] = 0.2;
        let Shift { mean, subjects, .. } = shift(differences, (0.000_37, None), 1).unwrap();
        assert!((mean + 0.001_3).abs() < 0.000_4 && subjects == 30, "{mean}");
        // Equal rounded differences have no spread; fewer subjects than the minimum are no evidence.
        assert_eq!(shift(vec![-0.000_3; 30], (0.000_37, None), 1), None);
        assert!(shift(vec![-0.001; 30], (0.000_37, None), 1).is_some());
        assert_eq!(shift(vec![-0.01; 7], (0.000_37, None), 1), None);
        assert_eq!(shift(vec![0.0; 30], (0.0, None), 1), None);
    }
}
