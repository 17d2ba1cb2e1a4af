//! The slow rank of one run, from its per-process times.

use model::measurement::{Reading, Table};

use super::odds::at_least;
use super::slowness::{Slowness, slowness};
use super::standout::{Standouts, standouts};
use super::timing_matrix::{Matrices, matrices};
use super::{Located, Suspect};

/// Maximum fraction of healthy runs with a false suspect.
const FALSE_ALARM: f64 = 1e-3;
/// The same maximum if a reference shows that the run is slow, so that only the rank is unknown.
const WRONG_NAME: f64 = 5e-3;
/// The same maximum if a reference shows that the run is not slow: only overwhelming evidence counts.
const AGAINST_REFERENCE: f64 = 1e-6;
/// A rank that is an outlier for less than this fraction of the run is ignored.
const EFFECT: f64 = 0.003;
/// Minimum number of iterations to report a healthy run.
const ITERATIONS: usize = 20;

/// Finds the slow rank of a run whose log has per-process times (`-I 1 -J`, best with `-z 3`).
///
/// `reference` are healthy runs of the same shape, if any: they show whether the run is slower, which
/// distinguishes "healthy" from "slow, rank unknown" if no rank stands out. Readings with another collective,
/// size, type or number of ranks are ignored.
///
/// The decision counts the halves (size and placement) or separate episodes in which one rank is the outlier. With `n`
/// ranks, a healthy rank may be the outlier in up to 4/3 of 1/n of them; under that hypothesis the false-alarm rate
/// stays below one in a thousand runs.
#[must_use]
pub fn from_processes(reading: &Reading, reference: &[Reading]) -> Located {
    let slowness = slowness(reading, reference);
    let Some(matrices) = matrices(reading) else {
        return without_suspect(
            slowness,
            "the log has no usable per-process times; run the benchmark under MPI with `-I 1 -J`",
        );
    };
    let seen = standouts(&matrices);
    match matrices.processes {
        0 | 1 => {
            return without_suspect(slowness, "only one process was timed: a comparison needs two");
        }
        2 => return of_two(slowness, &seen),
        _ => {}
    }
    let suspects = suspects(&matrices, &seen, slowness);
    if !suspects.is_empty() {
        return Located::named(suspects);
    }
    let disturbed = seen.split_halves >= 2 && 4 * seen.split_halves >= seen.halves;
    match slowness {
        Slowness::Slower(_) => without_suspect(slowness, "no rank stands out"),
        Slowness::AsFast => Located::healthy(),
        Slowness::Unknown if disturbed => Located::open(format!(
            "in {} iterations the ranks form two groups, neither of them a minority",
            seen.split
        )),
        Slowness::Unknown if seen.halves < 2 || matrices.iterations() < ITERATIONS => Located::open(format!(
            "{} iterations of {} placements are too few for a decision, and no reference is comparable",
            matrices.iterations(),
            seen.halves
        )),
        Slowness::Unknown => Located::healthy(),
    }
}

/// The result if the per-process times do not identify a rank.
fn without_suspect(slowness: Slowness, why: &str) -> Located {
    match slowness {
        Slowness::AsFast => Located::healthy(),
        Slowness::Unknown => Located::open(why),
        Slowness::Slower(factor) => Located::open(format!(
            "the run takes {factor:.2} times as long as the reference, but the slow rank could not be identified: {why}"
        )),
    }
}

/// Result for two ranks: each differs from the other equally, so neither is the outlier.
fn of_two(slowness: Slowness, seen: &Standouts) -> Located {
    let same = seen.split_halves < 2 || 4 * seen.split_halves < seen.halves;
    match slowness {
        Slowness::Unknown if same && seen.halves >= 2 => Located::healthy(),
        _ => without_suspect(
            slowness,
            "two ranks differ equally from each other; run each of them with a third rank",
        ),
    }
}

fn suspects(matrices: &Matrices<'_>, seen: &Standouts, slowness: Slowness) -> Vec<Suspect> {
    // Single slow iterations disappear in the mean that is compared with the reference, so outlier ranks are counted even if the
    // mean equals that of the reference. The longest of several fast ranks is not a problem.
    let (allowed_apart, allowed_longest) = match slowness {
        Slowness::Unknown => (FALSE_ALARM, FALSE_ALARM),
        Slowness::AsFast => (FALSE_ALARM, AGAINST_REFERENCE),
        Slowness::Slower(_) => (WRONG_NAME, WRONG_NAME),
    };
    // A single iteration of one half is no evidence, because a faulty rank recurs.
    let returns =
        |process: usize| seen.apart_halves[process] >= 2 || (seen.halves == 1 && seen.apart[process] >= 5);
    let mut apart = chances(&seen.apart, None);
    for (process, chance) in apart.iter_mut().enumerate() {
        if seen.effect[process] < EFFECT || !returns(process) {
            *chance = 1.0;
        }
    }
    let longest = chances(&seen.longest, Some(seen.halves));
    let found = apart.iter().zip(&longest).enumerate();
    found
        .filter(|(_, (apart, longest))| **apart < allowed_apart || **longest < allowed_longest)
        .map(|(process, (apart, longest))| (process, apart.min(*longest)))
        .map(|(process, chance)| suspect(matrices.table, matrices.processes, process, chance))
        .collect()
}

/// For each process, the probability of its count if the process were healthy: a small probability makes the process suspicious.
///
/// `draws` is the number of draws. With `None` it is the sum of the counts of all processes that are not suspects yet, so that a bad rank
/// does not prevent the detection of the next one.
fn chances(counts: &[usize], draws: Option<usize>) -> Vec<f64> {
    // Share of a healthy rank: a third more than uniform, because ranks differ (log writer, interrupts). The union bound over ranks
    // applies, because several ranks can have that share at once.
    let share = (4.0 / (3.0 * counts.len() as f64)).clamp(0.1, 0.5);
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|process| std::cmp::Reverse(counts[*process]));
    let mut remaining: usize = counts.iter().sum();
    let mut chances = vec![1.0; counts.len()];
    for process in order {
        let chance = (at_least(counts[process], draws.unwrap_or(remaining), share) / share).min(1.0);
        chances[process] = chance;
        if chance >= WRONG_NAME {
            break;
        }
        remaining -= counts[process];
    }
    chances
}

/// The suspect for a process. A process that drives several GPUs is identified by its host alone.
fn suspect(table: &Table, processes: usize, process: usize, chance: f64) -> Suspect {
    let confidence = (1.0 - chance.sqrt()).clamp(0.0, 0.999);
    let each = (table.devices.len() / processes).max(1);
    let rank = process.saturating_mul(each);
    let device = table.devices.iter().find(|device| usize::try_from(device.rank) == Ok(rank));
    let own = device.filter(|_| each == 1);
    Suspect {
        rank: u32::try_from(process).ok().filter(|_| each == 1),
        bus_id: own.and_then(|device| device.bus_id.clone()),
        host: device.map(|device| device.host.clone()),
        confidence,
        ..Suspect::default()
    }
}
