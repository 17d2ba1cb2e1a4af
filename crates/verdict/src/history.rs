//! Change points in a series of runs.
//!
//! [`segments`] divides a series into stretches of constant level by penalised optimal partitioning under the biweight
//! loss: Fearnhead and Rigaill, *Changepoint Detection in the Presence of Outliers*, Journal of the American
//! Statistical Association 114 (2019). A point costs at most `K²`, and a change costs at least as much. So a single run
//! is never taken for a change, however large its deviation: two runs that agree are required. The paper's functional
//! pruning is replaced by a grid of levels, which is exact to a fifth of the noise and linear in the number of runs.

/// Number of standard deviations beyond which a deviation has a constant cost: the value of the paper.
const K: f64 = 3.0;
/// Grid step, in standard deviations.
const STEP: f64 = 0.2;
/// Maximum number of grid levels; a series with a larger range has a coarser grid.
const LEVELS: usize = 4096;
/// Scales the median absolute difference of neighbours to the standard deviation of normal noise.
const DIFFERENCE_TO_SIGMA: f64 = 1.0483;

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
    let Some(grid) = Grid::of(series, noise) else { return Vec::new() };
    let penalty = penalty(series.len());
    let mut cost = vec![0.0; grid.levels];
    // For each run and level: whether the cheapest history changes level immediately before it.
    let mut changed = Vec::with_capacity(series.len());
    let mut best_before = Vec::with_capacity(series.len());
    for (run, value) in series.iter().enumerate() {
        let (best, at) = cheapest(&cost);
        let jump = best + if run == 0 { 0.0 } else { penalty };
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

/// Cost of a change. The paper's value, twice the logarithm of the length, is for a single evaluation of a
/// series; a history is evaluated again after every run, so it is four times the logarithm here, and always
/// above the cost of one outlier.
fn penalty(runs: usize) -> f64 {
    (4.0 * (runs as f64).ln()).max(1.5 * K * K)
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

/// Noise of one run, estimated from differences of neighbours: level changes are rare among them.
fn sigma(series: &[f64]) -> f64 {
    let differences = series.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    DIFFERENCE_TO_SIGMA * crate::statistics::median(differences)
}
