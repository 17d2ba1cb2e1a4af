//! Counts how often each process stands out in a timing matrix.
//!
//! Two effects appear on real hardware when one rank of a collective is disturbed:
//!
//! - *Apart*: in some iterations its time differs from all others. A late rank's own time is short while the
//!   others wait for it, or long while the others are ahead; in both cases it is the outlier.
//! - *Longest*: in blocking mode its times are the longest by a fraction of a percent, at every size and placement.
//!
//! Healthy ranks also differ, by several percent and with the same sign through all iterations of one size.
//! But the sign changes with the next size: within one half the iterations repeat each other and count as one
//! observation, so only agreement between halves is evidence.

use super::odds::median;
use super::timing_matrix::{Matrices, Matrix};

/// Minimum distance of an outlier, in robust standard deviations of this half.
const APART_SIGMAS: f64 = 8.0;
/// Minimum distance of an outlier, as a fraction of the time.
const APART_PART: f64 = 0.01;
/// Minimum distance of an outlier, microseconds: the effect of a short scheduler delay on a healthy process.
const APART_US: f64 = 25.0;
/// Minimum number of processes at which the spread is precise enough to detect several slow ones in one run.
const CROWD: usize = 8;
/// Scales a median of absolute deviations to a standard deviation.
const TO_SIGMA: f64 = 1.4826;

/// Counts for each process.
#[derive(Debug)]
pub(super) struct Standouts {
    /// Number of episodes in which the process was an outlier; consecutive iterations count as one episode.
    pub apart: Vec<usize>,
    /// Number of halves in which the process was an outlier, by process.
    pub apart_halves: Vec<usize>,
    /// For each process the number of halves in which its times were the longest.
    pub longest: Vec<usize>,
    /// Number of halves in which processes were compared.
    pub halves: usize,
    /// Time difference of the process in its episodes, as a fraction of the run.
    pub effect: Vec<f64>,
    /// Iterations that split into two groups of similar size: evidence of a fault, but not of its location.
    pub split: usize,
    /// Number of halves that have such an iteration.
    pub split_halves: usize,
}

/// Counts over all halves.
pub(super) fn standouts(matrices: &Matrices<'_>) -> Standouts {
    let zeros = || vec![0; matrices.processes];
    let mut seen = Standouts {
        apart: zeros(),
        apart_halves: zeros(),
        longest: zeros(),
        halves: matrices.halves.len(),
        effect: vec![0.0; matrices.processes],
        split: 0,
        split_halves: 0,
    };
    let mut whole = 0.0;
    for half in &matrices.halves {
        whole += seen.count(half);
    }
    for effect in &mut seen.effect {
        *effect /= whole;
    }
    seen
}

impl Standouts {
    /// Adds one half; returns its duration.
    fn count(&mut self, half: &Matrix) -> f64 {
        let centres: Vec<f64> = half.iterations.iter().map(|times| median(&mut times.clone())).collect();
        let usual = median(&mut centres.clone());
        // `[iteration][process]`: deviation from the median of the ranks in that iteration.
        let excess: Vec<Vec<f64>> = half
            .iterations
            .iter()
            .zip(&centres)
            .map(|(times, centre)| times.iter().map(|time| time - centre).collect())
            .collect();
        self.count_longest(&excess, usual);

        let mut scatter: Vec<f64> = excess.iter().flatten().map(|excess| excess.abs()).collect();
        let sigma = TO_SIGMA * median(&mut scatter);
        let limit = (APART_SIGMAS * sigma).max(APART_PART * usual).max(APART_US);
        self.count_apart(&excess, limit);
        centres.iter().sum()
    }

    fn count_longest(&mut self, excess: &[Vec<f64>], usual: f64) {
        let usual_excess =
            |process: usize| median(&mut excess.iter().map(|row| row[process]).collect::<Vec<_>>());
        let location: Vec<f64> = (0..self.longest.len()).map(usual_excess).collect();
        let centre = median(&mut location.clone());
        let spread = median(&mut location.iter().map(|at| (at - centre).abs()).collect::<Vec<_>>());
        // In a large group, every process far above the median counts, so that two slow ranks are both detected.
        let far = if location.len() < CROWD {
            f64::INFINITY
        } else {
            centre + (4.0 * TO_SIGMA * spread).max(0.001 * usual)
        };
        let longest = location.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let alone = location.iter().filter(|at| **at == longest).count() == 1;
        for (count, at) in self.longest.iter_mut().zip(&location) {
            *count += usize::from((alone && *at == longest && *at > 0.0) || *at > far);
        }
    }

    fn count_apart(&mut self, excess: &[Vec<f64>], limit: f64) {
        let minority = (self.apart.len() - 1) / 2;
        let mut before = vec![false; self.apart.len()];
        let mut touched = vec![false; self.apart.len()];
        let mut split = 0;
        for row in excess {
            let apart: Vec<bool> = row.iter().map(|excess| excess.abs() > limit).collect();
            let how_many = apart.iter().filter(|apart| **apart).count();
            if how_many > minority {
                split += 1;
                continue;
            }
            for process in (0..row.len()).filter(|process| apart[*process]) {
                self.apart[process] += usize::from(!before[process]);
                self.effect[process] += row[process].abs();
                touched[process] = true;
            }
            before = apart;
        }
        self.split += split;
        self.split_halves += usize::from(split > 0);
        for (count, touched) in self.apart_halves.iter_mut().zip(touched) {
            *count += usize::from(touched);
        }
    }
}
