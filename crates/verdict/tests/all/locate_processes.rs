//! The slow rank of one run: real runs, simulated faults, and invalid input.

use model::SplitMix64;
use model::measurement::{Device, Half, LogEnd, ProcessTimes, Reading, Row, Table};
use proptest::prelude::*;
use verdict::locate::{Located, from_processes};

fn h200(name: &str) -> Reading {
    let path = format!("{}/../../tests/data/nccl/h200/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).expect("the sample exists");
    nccl::read(file).expect("the sample can be read")
}

fn ranks(located: &Located) -> Vec<u32> {
    located.suspects.iter().filter_map(|suspect| suspect.rank).collect()
}

#[test]
fn logs_of_healthy_machines_name_no_suspect() {
    for name in ["matrix-healthy-z0", "matrix-healthy-z3"] {
        for reference in [vec![], vec![h200("matrix-healthy-z0")], vec![h200("matrix-healthy-z3")]] {
            let located = from_processes(&h200(name), &reference);
            assert!(located.healthy && located.suspects.is_empty(), "{name}: {located:?}");
        }
    }
}

#[test]
fn the_disturbed_gpu_of_a_real_run_is_named() {
    for reference in [vec![], vec![h200("matrix-healthy-z3")]] {
        let located = from_processes(&h200("matrix-rank2-slow-z3"), &reference);
        assert!(!located.healthy && located.undecided.is_none());
        let [suspect] = &located.suspects[..] else { panic!("expected one suspect: {located:?}") };
        assert_eq!(suspect.rank, Some(2));
        assert_eq!(suspect.bus_id.as_deref(), Some("0000:00:08"));
        assert_eq!(suspect.host.as_deref(), Some("vm"));
        assert!(suspect.confidence > 0.9);
    }
}

/// Without blocking, all ranks have similar medians. But in the first iteration of each of the eight halves the
/// others wait for rank 2, whose own time is short.
#[test]
fn without_blocking_no_other_rank_is_suspected() {
    for reference in [vec![], vec![h200("matrix-healthy-z0")]] {
        let located = from_processes(&h200("matrix-rank2-slow-z0"), &reference);
        assert!(!located.healthy);
        assert_eq!(ranks(&located), [2]);
    }
}

/// The faults of the previous tests, moved to each other rank.
#[test]
fn the_suspect_is_the_rank_with_the_outlying_times() {
    for name in ["matrix-rank2-slow-z3", "matrix-rank2-slow-z0"] {
        for to in [0, 1, 3] {
            let mut reading = h200(name);
            for row in &mut reading.tables[0].rows {
                let times = row.processes.as_mut().expect("the sample has per-process times");
                times.out_of_place_us.swap(2, to);
                times.in_place_us.swap(2, to);
            }
            assert_eq!(ranks(&from_processes(&reading, &[])), [u32::try_from(to).expect("small")]);
        }
    }
}

/// A seeded generator, so that a failure is reproducible.
struct SeededRandom(SplitMix64);

impl SeededRandom {
    fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// Returns a random number from 0 to 1.
    fn part(&mut self) -> f64 {
        self.0.part()
    }

    /// Returns an approximately normally distributed number.
    fn normal(&mut self) -> f64 {
        (0..4).map(|_| self.part()).sum::<f64>() * 1.732 - 3.464
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }
}

const USUAL: [f64; 4] = [120.0, 340.0, 1200.0, 4580.0];

/// A healthy run like the real ones: in each half every rank has its own constant deviation of about 1 %, each
/// iteration varies for all ranks together, and the scheduler sometimes delays one rank.
fn healthy(seeded: &mut SeededRandom, ranks: usize, iterations: usize) -> Vec<[Vec<Vec<f64>>; 2]> {
    let mut half = |usual: f64| {
        let off: Vec<f64> = (0..ranks).map(|_| 1.0 + 0.008 * seeded.normal()).collect();
        let mut times = vec![Vec::new(); ranks];
        for _ in 0..iterations {
            let together = usual * (1.0 + 0.01 * seeded.normal()) + 5.0 * seeded.part();
            for (times, off) in times.iter_mut().zip(&off) {
                let hiccup = if seeded.part() < 0.001 { 2000.0 * seeded.part() } else { 0.0 };
                times.push(together * off + 2.0 * seeded.normal() + hiccup);
            }
        }
        times
    };
    USUAL.iter().map(|usual| [half(*usual), half(*usual)]).collect()
}

fn reading(matrices: Vec<[Vec<Vec<f64>>; 2]>) -> Reading {
    let ranks = matrices.first().map_or(0, |halves| halves[0].len()) as u32;
    let mean = |times: &Vec<Vec<f64>>| {
        let slowest = (0..times[0].len()).map(|at| times.iter().map(|times| times[at]).fold(0.0, f64::max));
        Some(Half { time_us: slowest.sum::<f64>() / times[0].len() as f64, ..Half::default() })
    };
    let row = |(at, [out_of_place_us, in_place_us]): (usize, [Vec<Vec<f64>>; 2])| Row {
        size_bytes: 1 << (20 + 2 * at),
        dtype: "float".to_owned(),
        out_of_place: mean(&out_of_place_us),
        in_place: mean(&in_place_us),
        processes: Some(Box::new(ProcessTimes { out_of_place_us, in_place_us })),
        ..Row::default()
    };
    let device =
        |rank| Device { rank, host: format!("n{}", rank / 8), device: None, bus_id: None, name: None };
    let table = Table {
        collective: Some("all_reduce".to_owned()),
        ranks: Some(ranks),
        devices: (0..ranks).map(device).collect(),
        nccl_tests_version: None,
        nccl_version: None,
        started_at: None,
        unmeasured: 0,
        rows: matrices.into_iter().enumerate().map(row).collect(),
        out_of_bounds: None,
        average_busbw: None,
        ended: LogEnd::Complete,
    };
    Reading { ended: LogEnd::Complete, first_error: None, tables: vec![table], ..Reading::default() }
}

#[test]
fn healthy_runs_raise_no_alarm() {
    for (ranks, runs) in [(3, 1000), (4, 3000), (8, 1000), (16, 400)] {
        let mut alarms = 0;
        for seed in 0..runs {
            let mut seeded = SeededRandom(SplitMix64(seed));
            let run = reading(healthy(&mut seeded, ranks, 12));
            // Half of the runs are judged without a reference.
            let reference: Vec<_> = (0..seed % 2).map(|_| reading(healthy(&mut seeded, ranks, 12))).collect();
            alarms += usize::from(!from_processes(&run, &reference).healthy);
        }
        println!("{ranks} ranks: {alarms} alarms in {runs} healthy runs");
        assert!(alarms as u64 * 1000 <= runs, "{ranks} ranks: {alarms} alarms in {runs} healthy runs");
    }
}

/// Simulates a fault on random ranks. Returns the number of results with only the right rank, and with another one.
fn fault_detection_rates(
    name: &str,
    ranks_in_all: usize,
    fault: impl Fn(&mut SeededRandom, usize, &mut Vec<Vec<f64>>),
) -> (f64, f64) {
    let (mut right, mut wrong) = (0, 0);
    let runs = 200;
    for seed in 0..runs {
        let mut seeded = SeededRandom(SplitMix64(seed + 1_000_000));
        let slow = seeded.below(ranks_in_all);
        let reference = reading(healthy(&mut seeded, ranks_in_all, 20));
        let mut matrices = healthy(&mut seeded, ranks_in_all, 20);
        for half in matrices.iter_mut().flatten() {
            fault(&mut seeded, slow, half);
        }
        let named = ranks(&from_processes(&reading(matrices), &[reference]));
        right += u32::from(named == [slow as u32]);
        wrong += u32::from(named.iter().any(|rank| *rank != slow as u32));
    }
    let part = |count: u32| f64::from(count) / runs as f64;
    println!(
        "{name}, {ranks_in_all} ranks: {:.1} % named, {:.1} % wrongly",
        100.0 * part(right),
        100.0 * part(wrong)
    );
    (part(right), part(wrong))
}

#[test]
fn a_process_without_processor_time_is_named() {
    for ranks in [3, 4, 8, 32] {
        let (right, wrong) = fault_detection_rates("starved", ranks, |seeded, slow, half| {
            for at in 0..half[0].len() {
                let delay = if seeded.part() < 0.3 { 3000.0 * seeded.part() } else { 0.0 };
                // Either all other ranks wait for the slow rank, or the slow rank alone takes longer.
                if seeded.part() < 0.5 {
                    (0..half.len()).filter(|rank| *rank != slow).for_each(|rank| half[rank][at] += delay);
                } else {
                    half[slow][at] += delay;
                }
            }
        });
        assert!(right >= 0.97 && wrong <= 0.03);
    }
}

#[test]
fn a_gpu_busy_part_of_the_time_is_named() {
    for ranks in [4, 8] {
        let (right, wrong) = fault_detection_rates("busy part of the time", ranks, |seeded, slow, half| {
            if seeded.part() < 0.6 {
                let from = seeded.below(15);
                for at in (from..from + 5).step_by(2) {
                    (0..half.len()).filter(|rank| *rank != slow).for_each(|rank| half[rank][at] += 900.0);
                }
            }
        });
        assert!(right >= 0.9 && wrong <= 0.02);
    }
}

#[test]
fn a_steadily_slower_rank_is_found_although_all_ranks_slow_down() {
    for ranks in [4, 8, 64] {
        let (right, wrong) = fault_detection_rates("steady", ranks, |_, slow, half| {
            half.iter_mut().flatten().for_each(|time| *time *= 1.2);
            half[slow].iter_mut().for_each(|time| *time *= 1.05);
        });
        assert!(right >= 0.97 && wrong <= 0.02);
    }
}

#[test]
fn a_slowdown_of_all_ranks_rarely_names_a_suspect() {
    let mut named = 0;
    for seed in 0..400 {
        let mut seeded = SeededRandom(SplitMix64(seed));
        let reference = reading(healthy(&mut seeded, 4, 12));
        let mut matrices = healthy(&mut seeded, 4, 12);
        matrices.iter_mut().flatten().flatten().flatten().for_each(|time| *time *= 1.3);
        let located = from_processes(&reading(matrices), &[reference]);
        assert!(!located.healthy);
        assert_eq!(located.suspects.is_empty(), located.undecided.is_some());
        named += usize::from(!located.suspects.is_empty());
    }
    println!("all ranks slow: a suspect named in {named} of 400 runs");
    assert!(named <= 2);
}

#[test]
fn several_slow_ranks_are_named() {
    let mut seeded = SeededRandom(SplitMix64(7));
    let mut matrices = healthy(&mut seeded, 8, 20);
    for half in matrices.iter_mut().flatten() {
        for slow in [2, 5] {
            half[slow].iter_mut().step_by(4 + slow).for_each(|time| *time += 1500.0);
        }
    }
    let mut named = ranks(&from_processes(&reading(matrices), &[]));
    named.sort_unstable();
    assert_eq!(named, [2, 5]);
}

#[test]
fn two_ranks_give_no_suspect() {
    let mut seeded = SeededRandom(SplitMix64(1));
    let mut matrices = healthy(&mut seeded, 2, 20);
    assert!(from_processes(&reading(matrices.clone()), &[]).healthy);
    matrices
        .iter_mut()
        .flatten()
        .for_each(|half| half[1].iter_mut().step_by(3).for_each(|time| *time += 2000.0));
    let located = from_processes(&reading(matrices), &[]);
    assert!(!located.healthy && located.suspects.is_empty());
    assert!(located.undecided.expect("the result has a reason").contains("two ranks"));
}

#[test]
fn missing_measurements_are_reported() {
    let mut seeded = SeededRandom(SplitMix64(3));
    let empty = Reading::default();
    let few = reading(healthy(&mut seeded, 4, 2));
    let one_size = reading(healthy(&mut seeded, 4, 4).into_iter().take(1).collect());
    let nonsense = {
        let mut matrices = healthy(&mut seeded, 4, 20);
        let bad = [f64::NAN, f64::INFINITY, 0.0, -1.0];
        matrices
            .iter_mut()
            .flatten()
            .flatten()
            .flatten()
            .enumerate()
            .for_each(|(at, time)| *time = bad[at % 4]);
        reading(matrices)
    };
    for reading in [empty, few, one_size, nonsense] {
        let located = from_processes(&reading, &[]);
        assert!(!located.healthy && located.suspects.is_empty() && located.undecided.is_some());
    }
}

#[test]
fn a_half_without_one_rank_is_ignored() {
    let mut reading = h200("matrix-rank2-slow-z3");
    reading.tables[0].rows[0]
        .processes
        .as_mut()
        .expect("the sample has per-process times")
        .in_place_us
        .remove(0);
    reading.tables[0].rows[1].processes.as_mut().expect("the sample has per-process times").in_place_us[3]
        .clear();
    assert_eq!(ranks(&from_processes(&reading, &[])), [2]);
}

#[test]
fn a_million_healthy_values_give_no_suspect() {
    let mut seeded = SeededRandom(SplitMix64(9));
    assert!(from_processes(&reading(healthy(&mut seeded, 8, 16_000)), &[]).suspects.is_empty());
    assert!(from_processes(&reading(healthy(&mut seeded, 4000, 32)), &[]).suspects.is_empty());
}

proptest! {
    #[test]
    fn no_matrix_causes_a_panic(
        rows in prop::collection::vec((
            prop::collection::vec(prop::collection::vec(any::<f64>(), 1..6), 1..6),
            prop::collection::vec(prop::collection::vec(1.0..1e4, 4..6), 4),
        ), 0..5),
        devices in 0_usize..6,
    ) {
        let mut reading = reading(vec![[vec![vec![1.0]], vec![vec![1.0]]]; rows.len()]);
        for (row, (out_of_place_us, in_place_us)) in reading.tables[0].rows.iter_mut().zip(rows) {
            row.processes = Some(Box::new(ProcessTimes { out_of_place_us, in_place_us }));
        }
        reading.tables[0].devices.truncate(devices);
        let located = from_processes(&reading, std::slice::from_ref(&reading));
        prop_assert!(located.suspects.iter().all(|suspect| (0.0..=1.0).contains(&suspect.confidence)));
    }
}
