//! Decides whether a run is slower than healthy runs of the same shape.

use std::collections::BTreeMap;

use model::measurement::{Reading, Table};

use super::odds::median;

/// Healthy plateaus repeat within 0.5 %; a slowdown of 3 % is clearly larger.
const TOLERANCE: f64 = 0.03;
/// Variation of launch and synchronisation in a healthy run at any size, microseconds.
const JITTER_US: f64 = 15.0;

/// Result of the comparison with the references.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Slowness {
    /// No reference is comparable.
    Unknown,
    /// The run is as fast as the references.
    AsFast,
    /// Time of the run as a multiple of the references' time.
    Slower(f64),
}

type SlownessKey<'a> = (Option<&'a str>, u64, &'a str, Option<&'a str>, bool);

/// Compares times by size and placement.
pub(super) fn slowness(reading: &Reading, reference: &[Reading]) -> Slowness {
    let mut healthy: BTreeMap<(Option<u32>, SlownessKey<'_>), Vec<f64>> = BTreeMap::new();
    for table in reference.iter().flat_map(|reading| &reading.tables) {
        for (key, time) in times(table) {
            healthy.entry((ranks(table), key)).or_default().push(time);
        }
    }
    // Each ratio to the healthy time, with the tolerance for healthy variation.
    let mut ratios = Vec::new();
    for table in &reading.tables {
        for (key, time) in times(table) {
            if let Some(of_healthy) = healthy.get_mut(&(ranks(table), key)) {
                let usual = median(of_healthy);
                ratios.push((time / usual, TOLERANCE + JITTER_US / usual));
            }
        }
    }
    if ratios.is_empty() {
        return Slowness::Unknown;
    }
    let beyond = |times: f64| ratios.iter().filter(|(ratio, allowed)| *ratio > 1.0 + times * allowed).count();
    // The run must be slow at most sizes, or clearly slow at several, as after a disturbance for part of the time. A single short scheduler
    // delay affects one size, so several sizes are required.
    let slow = 2 * beyond(1.0) > ratios.len() || (beyond(2.0) >= 3 && 8 * beyond(2.0) > 3 * ratios.len());
    if !slow {
        return Slowness::AsFast;
    }
    let mut factors: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
    Slowness::Slower(median(&mut factors))
}

fn ranks(table: &Table) -> Option<u32> {
    table.ranks.or_else(|| u32::try_from(table.devices.len()).ok().filter(|count| *count > 0))
}

fn times(table: &Table) -> impl Iterator<Item = (SlownessKey<'_>, f64)> {
    let halves =
        table.rows.iter().flat_map(|row| [(row, row.out_of_place, false), (row, row.in_place, true)]);
    halves.filter_map(|(row, half, in_place)| {
        let time = half.map(|half| half.time_us).filter(|time| (1e-3..1e15).contains(time))?;
        Some((
            (table.collective.as_deref(), row.size_bytes, row.dtype.as_str(), row.redop.as_deref(), in_place),
            time,
        ))
    })
}
