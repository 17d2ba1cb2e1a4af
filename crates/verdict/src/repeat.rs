//! Checks whether runs repeat: all on one level of the plateau, with no outlier.

use std::ops::Range;

use crate::statistics::median;

/// Minimum distance between two levels: a healthy plateau varies by less than 2 %.
const GAP: f64 = 0.02;
/// Maximum distance of a baseline's runs from their median: beyond it healthy and degraded runs cannot be distinguished.
pub const MAX_DISTANCE: f64 = 0.05;
/// Inverse of the maximum fraction of runs that may be left out.
const FIFTH: usize = 5;

/// Runs on one level of the plateau.
#[derive(Clone, Debug, PartialEq)]
pub struct RepeatGroup {
    /// Median bus bandwidth of the plateau over its runs, GB/s.
    pub busbw: f64,
    /// Indices of its runs.
    pub runs: Vec<usize>,
}

/// The plateau of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RepeatLevel {
    /// Index of the run.
    pub run: usize,
    /// Plateau time above the median, as a fraction of the median.
    pub slower: f64,
    /// Bus bandwidth of the plateau, GB/s.
    pub busbw: f64,
}

/// The levels of the runs, fastest first.
#[must_use]
pub fn groups(levels: &[RepeatLevel]) -> Vec<RepeatGroup> {
    let mut sorted = levels.to_vec();
    sorted.sort_by(|a, b| a.slower.total_cmp(&b.slower));
    let same = |a: &RepeatLevel, b: &RepeatLevel| (1.0 + b.slower) / (1.0 + a.slower) - 1.0 <= GAP;
    let group = |levels: &[RepeatLevel]| RepeatGroup {
        busbw: median(levels.iter().map(|level| level.busbw).collect()),
        runs: levels.iter().map(|level| level.run).collect(),
    };
    sorted.chunk_by(same).map(group).collect()
}

/// Whether the runs form one group, each at most `MAX_DISTANCE` from the median.
#[must_use]
pub fn repeats(levels: &[RepeatLevel]) -> bool {
    groups(levels).len() < 2 && furthest(levels.iter().map(|level| level.slower)) <= MAX_DISTANCE
}

/// Distance of the furthest run from the median.
pub fn furthest(levels: impl Iterator<Item = f64>) -> f64 {
    levels.map(f64::abs).fold(0.0, f64::max)
}

/// Distance of the furthest run from the median, without the furthest fifth of the runs: for baselines that do not
/// state their repeatability.
#[must_use]
pub fn furthest_but_outliers(levels: &[f64]) -> f64 {
    let mut away: Vec<f64> = levels.iter().map(|level| level.abs()).collect();
    away.sort_by(f64::total_cmp);
    away.truncate(away.len() - away.len() / FIFTH);
    away.last().copied().unwrap_or(0.0)
}

/// Selects the runs of a history to learn from: the first `fewest` to `most` consecutive runs that repeat,
/// with at most a fifth left out. Faster later runs replace them: a cluster that was slow initially is not
/// healthy if it becomes slow again.
#[must_use]
pub fn learned_range(levels: &[RepeatLevel], fewest: usize, most: usize) -> Option<Range<usize>> {
    let mut best: Option<(Range<usize>, f64)> = None;
    for start in 0..levels.len() {
        let longest = levels.len().min(start + most);
        let ends = (start + fewest..=longest).rev();
        let Some((end, level)) =
            ends.into_iter().find_map(|end| Some((end, level(&levels[start..end], fewest)?)))
        else {
            continue;
        };
        if best.as_ref().is_none_or(|(_, known)| known / level - 1.0 > GAP) {
            best = Some((start..end, level));
        }
    }
    best.map(|(range, _)| range)
}

/// Plateau time of these runs, if at least `fewest` repeat and at most a fifth does not.
fn level(levels: &[RepeatLevel], fewest: usize) -> Option<f64> {
    let out = outliers(levels)?;
    let times = levels.iter().filter(|level| !out.contains(&level.run)).map(|level| 1.0 + level.slower);
    let times: Vec<f64> = times.collect();
    let middle = median(times.clone());
    let near = furthest(times.iter().map(|time| time / middle - 1.0)) <= MAX_DISTANCE;
    (times.len() >= fewest && near).then_some(middle)
}

/// Runs off the common level, if they are at most a fifth.
#[must_use]
pub fn outliers(levels: &[RepeatLevel]) -> Option<Vec<usize>> {
    let groups = groups(levels);
    let largest = groups.iter().max_by_key(|group| group.runs.len())?;
    let out = levels.iter().map(|level| level.run).filter(|run| !largest.runs.contains(run));
    let out: Vec<_> = out.collect();
    (out.len() <= levels.len() / FIFTH).then_some(out)
}
