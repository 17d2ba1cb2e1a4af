//! Change points in a series of runs.
//!
//! [`segments`] divides a series into stretches of constant level by penalised optimal partitioning under the biweight
//! loss: Fearnhead and Rigaill, *Changepoint Detection in the Presence of Outliers*, Journal of the American
//! Statistical Association 114 (2019). A point costs at most `K²`, and a change costs at least as much. So a single run
//! is never taken for a change, however large its deviation: two runs that agree are required. The paper's functional
//! pruning is replaced by a grid of levels, which is exact to a fifth of the noise and linear in the number of runs.

use crate::baseline::document::LEAST_SPREAD;

/// Number of standard deviations beyond which a deviation has a constant cost. At the paper's 3, two runs that agree could not exceed
/// the cost that one false alarm in 1,000 series permits, and every change would need three runs.
const K: f64 = 4.0;
/// Grid step, in standard deviations.
const STEP: f64 = 0.2;
/// Maximum number of grid levels; a series with a larger range has a coarser grid.
const LEVELS: usize = 4096;
/// Fraction of the differences of neighbors, smallest first, from which the noise is estimated: outliers and changes enlarge the other
/// differences.
const SMALLEST: f64 = 0.8;
/// Scales the mean of these differences to the standard deviation of normal noise.
const DIFFERENCE_TO_SIGMA: f64 = 1.2658;
/// Relative increase of the estimate for one difference; the increase falls with the square root of their number. An underestimate
/// would report the noise of a short series as a change.
const UNCERTAINTY: f64 = 1.8;

/// Minimum lasting slowdown that counts as a drift: smaller than a change that a single run can show.
pub const DRIFT: f64 = 0.005;
/// Minimum standard deviation that is assumed for one run in the search for smaller changes.
const FINE: f64 = 0.0005;
/// Minimum reported change, as a fraction of the time.
const REPORTED: f64 = 0.001;

/// The last change of a cluster's level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The cluster is slower than its baseline by [`DRIFT`] or more.
    Drifted(LevelChange),
    /// Any other change: smaller, or to a faster level.
    Shifted(LevelChange),
}

/// Two successive levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Number of runs since the change.
    pub runs: usize,
    /// The level since then: excess time over the baseline, relative.
    pub level: f64,
    /// Difference from the level before.
    pub by: f64,
}

/// The last change of a series of levels, unless it occurred in the first `defining` runs.
#[must_use]
pub fn change(levels: &[f64], defining: usize) -> Option<Change> {
    change_among(levels, defining, 1)
}

/// The last change of one of `series` series that are searched for the same run: the false-alarm rate over all of them equals that of a
/// single series.
#[must_use]
pub fn change_among(levels: &[f64], defining: usize, series: usize) -> Option<Change> {
    let last = |noise: f64, multiple: f64| {
        let segments = divided(levels, noise, cost_of_change(multiple, levels.len(), series));
        let [.., before, Segment { first, end, level }] = *segments else { return None };
        (first >= defining).then(|| LevelChange { runs: end - first, level, by: level - before.level })
    };
    let drifted = last(LEAST_SPREAD, FAILING).filter(|change| change.level >= DRIFT).map(Change::Drifted);
    drifted.or_else(|| last(FINE, SHOWN).filter(|change| change.by.abs() >= REPORTED).map(Change::Shifted))
}

/// A sequence of runs on one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Index of the first run.
    pub first: usize,
    /// Index after the last run.
    pub end: usize,
    /// Level of the segment, robust against single outliers.
    pub level: f64,
}

/// The segments of a series, oldest first. `noise` is the minimum standard deviation assumed for one run.
///
/// Time and memory are linear in the number of runs. An empty series has no segments.
#[must_use]
pub fn segments(series: &[f64], noise: f64) -> Vec<Segment> {
    divided(series, noise, cost_of_change(SHOWN, series.len(), 1))
}

/// The segments of a series in which a change has this cost.
fn divided(series: &[f64], noise: f64, cost_of_change: f64) -> Vec<Segment> {
    let Some(grid) = Grid::of(series, noise) else { return Vec::new() };
    let mut cost = vec![0.0; grid.levels];
    // For each run and level: whether the cheapest history changes level immediately before it.
    let mut changed = Vec::with_capacity(series.len());
    let mut best_before = Vec::with_capacity(series.len());
    for (run, value) in series.iter().enumerate() {
        let (best, at) = cheapest(&cost);
        let jump = best + if run == 0 { 0.0 } else { cost_of_change };
        let mut jumps = vec![false; grid.levels];
        for (level, cost) in cost.iter_mut().enumerate() {
            if run > 0 && jump < *cost {
                *cost = jump;
                jumps[level] = true;
            }
            *cost += grid.loss(*value, level);
        }
        changed.push(jumps);
        best_before.push(at);
    }
    let (_, mut level) = cheapest(&cost);
    let mut segments = Vec::new();
    let mut end = series.len();
    for run in (0..series.len()).rev() {
        if changed[run][level] || run == 0 {
            segments.push(Segment { first: run, end, level: grid.value(level) });
            end = run;
            level = best_before[run];
        }
    }
    segments.reverse();
    segments
}

/// Minimum cost of a shown change, as a multiple of the maximum cost of a run: of 1,000 series without a change, each evaluated after each of
/// 90 runs, at most one shows a change. The cost of two runs that agree can exceed this minimum.
const SHOWN: f64 = 1.8;
/// The same for a change that fails the verdict. Of the false changes only slowdowns of [`DRIFT`] or more fail, so that a lower cost suffices
/// for at most one of 1,000 series.
const FAILING: f64 = 1.5;
/// Cost of a change as a multiple of the logarithm of the length, for long series. The paper's multiple, 2, is for a single evaluation of a
/// series; a history is evaluated again after every run.
const PER_LOGARITHM: f64 = 5.0;

/// Cost of a change in one of `series` series of this number of runs that are searched together; `multiple`: [`SHOWN`] or [`FAILING`].
fn cost_of_change(multiple: f64, runs: usize, series: usize) -> f64 {
    let one = (PER_LOGARITHM * (runs as f64).ln()).max(multiple * K * K);
    // The probability that noise exceeds a cost `c` decreases as exp(-c / 2), so a change in `series` series costs 2 ln(series) more
    // (Bonferroni).
    one + 2.0 * (series.max(1) as f64).ln()
}

fn cheapest(cost: &[f64]) -> (f64, usize) {
    let mut best = (f64::INFINITY, 0);
    for (level, cost) in cost.iter().enumerate() {
        if *cost < best.0 {
            best = (*cost, level);
        }
    }
    best
}

struct Grid {
    least: f64,
    most: f64,
    step: f64,
    levels: usize,
    sigma: f64,
}

impl Grid {
    fn of(series: &[f64], noise: f64) -> Option<Self> {
        let (least, most) = series.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
            (least.min(*value), most.max(*value))
        });
        if !(least.is_finite() && most.is_finite()) {
            return None;
        }
        let sigma = sigma(series).max(noise).max(f64::MIN_POSITIVE);
        let step = (STEP * sigma).max((most - least) / (LEVELS - 1) as f64);
        let levels = (((most - least) / step) as usize + 2).min(LEVELS);
        Some(Self { least, most, step, levels, sigma })
    }

    fn value(&self, level: usize) -> f64 {
        // The last step may end above the highest value.
        self.step.mul_add(level as f64, self.least).min(self.most)
    }

    fn loss(&self, value: f64, level: usize) -> f64 {
        let away = (value - self.value(level)) / self.sigma;
        (away * away).min(K * K)
    }
}

/// Noise of one run, estimated from differences of neighbors: level changes are rare among them.
fn sigma(series: &[f64]) -> f64 {
    let mut differences: Vec<f64> = series.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    differences.sort_by(f64::total_cmp);
    let count = differences.len() as f64;
    differences.truncate((SMALLEST * count).ceil() as usize);
    if differences.is_empty() {
        return 0.0;
    }
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    DIFFERENCE_TO_SIGMA * mean * (1.0 + UNCERTAINTY / count.sqrt())
}
