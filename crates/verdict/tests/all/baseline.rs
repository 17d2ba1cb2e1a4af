//! Baselines from five runs: healthy runs pass, others fail.
#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use std::{fs, path::Path};

use crate::support::{found, noise::Noise};
use model::{Collective, Criteria, CurvePoint, Reference, Verdict, measurement::Reading};
use verdict::{
    Baseline, Clues, Fingerprint, Judgement, RunEvidence, Standard,
    baseline::{Healthy, Unlearnable},
    judge,
};

fn real(name: &str) -> Reading {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl/h200");
    nccl::read_bytes(&fs::read(folder.join(name)).unwrap())
}

fn healthy() -> Vec<Reading> {
    (1..=5).map(|run| real(&format!("healthy-{run}.log"))).collect()
}

fn learn(readings: &[Reading]) -> Result<Baseline, Unlearnable> {
    let healthy = |reading| {
        let clues = Clues::default();
        Healthy { reading, fingerprint: Fingerprint::of(&RunEvidence::of(reading, &clues)) }
    };
    verdict::baseline::learn(&readings.iter().map(healthy).collect::<Vec<_>>())
}

fn judged(reading: &Reading, baseline: &Baseline) -> Judgement {
    judged_after(reading, baseline, &[])
}

fn judged_after(reading: &Reading, baseline: &Baseline, earlier: &[f64]) -> Judgement {
    let standard = Standard { baseline: Some(baseline), earlier, ..Standard::default() };
    judge(&RunEvidence::of(reading, &Clues::default()), &standard)
}

#[test]
fn each_healthy_run_passes_the_baseline_of_the_others() {
    for left_out in 0..5 {
        let mut others = healthy();
        let one = others.remove(left_out);
        let judgement = judged(&one, &learn(&others).unwrap());
        assert_eq!(judgement.verdict, Verdict::Pass, "run {}: {judgement:#?}", left_out + 1);
    }
}

#[test]
fn every_degraded_run_fails() {
    let baseline = learn(&healthy()).unwrap();
    for name in ["max-nchannels-4", "proto-ll", "p2p-off", "socket-only"] {
        let judgement = judged(&real(&format!("degraded-{name}.log")), &baseline);
        assert_eq!(judgement.verdict, Verdict::Fail, "{name}: {judgement:#?}");
        assert!(judgement.reasons.iter().any(|reason| reason.code == "BELOW_BASELINE"), "{name}");
    }
}

#[test]
fn a_slowdown_of_three_percent_is_found_in_the_first_slow_run() {
    for run in 0..5 {
        let mut others = healthy();
        let mut slow = others.remove(run);
        for row in &mut slow.tables[0].rows {
            for half in row.out_of_place.iter_mut().chain(&mut row.in_place) {
                half.time_us *= 1.03;
                half.algbw /= 1.03;
                half.busbw /= 1.03;
            }
        }
        let judgement = judged(&slow, &learn(&others).unwrap());
        assert_eq!(judgement.verdict, Verdict::Fail, "run {}: {judgement:#?}", run + 1);
    }
}

#[test]
fn a_dip_at_one_size_is_found() {
    let baseline = learn(&healthy()).unwrap();
    let mut dipped = real("healthy-3.log");
    for row in dipped.tables[0].rows.iter_mut().filter(|row| row.size_bytes == 256 << 20) {
        for half in row.out_of_place.iter_mut().chain(&mut row.in_place) {
            half.time_us *= 1.2;
            half.algbw /= 1.2;
            half.busbw /= 1.2;
        }
    }
    let judgement = judged(&dipped, &baseline);
    assert_eq!((judgement.verdict, judgement.reasons[0].code.as_str()), (Verdict::Fail, "DIP"));
}

/// A log of two cycles over the sizes (`-N 2`): the times of each cycle are multiplied by its factor.
fn two_cycles(factors: [f64; 2]) -> Reading {
    let mut reading = real("healthy-5.log");
    let cycle = |factor: f64| {
        let mut rows = reading.tables[0].rows.clone();
        for half in rows.iter_mut().flat_map(|row| row.out_of_place.iter_mut().chain(&mut row.in_place)) {
            half.time_us *= factor;
            half.algbw /= factor;
            half.busbw /= factor;
        }
        rows
    };
    reading.tables[0].rows = factors.map(cycle).concat();
    reading
}

#[test]
fn a_slow_cycle_over_the_sizes_fails_in_any_position() {
    let baseline = learn(&healthy()[..4]).unwrap();
    let healthy_run = real("healthy-1.log");
    let points = healthy_run.tables[0]
        .rows
        .iter()
        .filter(|row| row.size_bytes >= 64 << 20)
        .map(|row| CurvePoint { size_bytes: row.size_bytes, busbw: row.out_of_place.unwrap().busbw });
    let reference = Reference {
        collective: Collective::AllReduce,
        ranks: None,
        source: "healthy-1.log".to_owned(),
        points: points.collect(),
    };
    let criteria = Criteria { references: vec![reference], ..Criteria::named("test") };
    let by_reference = |reading: &Reading| {
        judge(
            &RunEvidence::of(reading, &Clues::default()),
            &Standard { criteria: Some(&criteria), ..Standard::default() },
        )
    };
    for (factors, verdict) in
        [([1.0, 1.0], Verdict::Pass), ([1.0, 2.0], Verdict::Fail), ([2.0, 1.0], Verdict::Fail)]
    {
        let reading = two_cycles(factors);
        let judgement = judged(&reading, &baseline);
        assert_eq!(judgement.verdict, verdict, "{factors:?}: {:?}", judgement.reasons);
        let judgement = by_reference(&reading);
        assert_eq!(judgement.verdict, verdict, "{factors:?}: {:?}", judgement.reasons);
    }
}

#[test]
fn a_baseline_without_a_curve_is_not_compared_with_a_table() {
    let baseline = Baseline { points: Vec::new(), levels: Vec::new(), ..learn(&healthy()).unwrap() };
    let judgement = judged(&real("degraded-socket-only.log"), &baseline);
    assert_eq!(judgement.verdict, Verdict::Inconclusive, "{:?}", judgement.reasons);
    assert_eq!(judgement.reasons[0].code, "BASELINE_OF_ANOTHER_PROGRAM");
}

/// A healthy run with noise: 0.5 % on the plateau, 0.1 % from run to run, and 50 % for one in
/// ten small measurements.
fn noisy(noise: &mut Noise, step: f64) -> Reading {
    let mut reading = real("healthy-3.log");
    let whole_run = 0.001 * noise.normal();
    for row in &mut reading.tables[0].rows {
        let small = row.size_bytes < 16 << 20;
        for half in row.out_of_place.iter_mut().chain(&mut row.in_place) {
            let outlier = if small && noise.uniform() < 0.1 { 0.5 } else { 0.0 };
            let spread = if small { 0.05 } else { 0.005 };
            let factor = (1.0 + whole_run + spread * noise.normal() + outlier) * (1.0 + step);
            half.time_us *= factor;
            half.algbw /= factor;
            half.busbw /= factor;
        }
    }
    reading
}

#[test]
fn two_hundred_healthy_runs_raise_no_alarm_and_a_slowdown_of_three_percent_is_never_missed() {
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    let (mut alarms, mut missed) = (0, 0);
    for _ in 0..20 {
        let baseline = learn(&(0..5).map(|_| noisy(&mut noise, 0.0)).collect::<Vec<_>>()).unwrap();
        for _ in 0..10 {
            alarms += usize::from(judged(&noisy(&mut noise, 0.0), &baseline).verdict != Verdict::Pass);
            missed += usize::from(judged(&noisy(&mut noise, 0.03), &baseline).verdict != Verdict::Fail);
        }
    }
    assert_eq!((alarms, missed), (0, 0), "of 200 healthy and 200 degraded runs");
    found("3 % on the plateau, 200 runs", "all in the first run; no false alarm in 200 healthy ones");
}

#[test]
fn unmeasured_points_are_reported() {
    let baseline = learn(&healthy()).unwrap();
    let mut short = real("healthy-2.log");
    short.tables[0].rows.pop();
    let judgement = judged(&short, &baseline);
    assert_eq!(
        (judgement.verdict, judgement.reasons[0].code.as_str()),
        (Verdict::Inconclusive, "NOT_MEASURED")
    );
}

#[test]
fn a_run_with_another_identity_is_not_compared() {
    let baseline = learn(&healthy()).unwrap();
    let mut other = real("healthy-2.log");
    other.tables[0].ranks = Some(8);
    let judgement = judged(&other, &baseline);
    assert_eq!(
        (judgement.verdict, judgement.reasons[0].code.as_str()),
        (Verdict::Inconclusive, "OTHER_FINGERPRINT")
    );
    assert!(judgement.reasons[0].text.starts_with("ranks is 8 and was 4"), "{}", judgement.reasons[0].text);
}

#[test]
fn a_changed_setup_is_a_possible_cause_only_if_the_curve_changed_too() {
    let baseline = learn(&healthy()).unwrap();
    let mut upgraded = real("healthy-2.log");
    upgraded.tables[0].nccl_version = Some("2.99.1".into());
    let text = |judgement: &Judgement| {
        let reason = judgement.reasons.iter().find(|reason| reason.code == "SETUP_CHANGED").unwrap();
        reason.text.clone()
    };
    let as_fast = judged(&upgraded, &baseline);
    assert_eq!(as_fast.verdict, Verdict::Pass);
    assert!(text(&as_fast).ends_with("the curve is the same"), "{as_fast:#?}");
    let mut slower = real("degraded-proto-ll.log");
    slower.tables[0].nccl_version = Some("2.99.1".into());
    let slower = judged(&slower, &baseline);
    assert_eq!(slower.verdict, Verdict::Fail);
    assert!(text(&slower).contains("a possible cause: nccl is 2.99.1 and was"), "{slower:#?}");
}

/// Index of the first run of a history whose verdict is not a pass.
fn first_alarm(noise: &mut Noise, runs: usize, slower: impl Fn(usize) -> f64) -> Option<usize> {
    let baseline = learn(&(0..5).map(|_| noisy(noise, 0.0)).collect::<Vec<_>>()).unwrap();
    let mut earlier = Vec::new();
    (0..runs).find(|run| {
        let reading = noisy(noise, slower(*run));
        let judgement = judged_after(&reading, &baseline, &earlier);
        earlier.extend(baseline.level(&reading.tables[0]));
        judgement.verdict != Verdict::Pass
    })
}

#[test]
fn most_steps_of_one_percent_are_found_within_five_runs_and_a_flat_history_raises_no_alarm() {
    let mut noise = Noise(0x2545_F491_4F6C_DD1D);
    let flat = (0..40).filter(|_| first_alarm(&mut noise, 90, |_| 0.0).is_some()).count();
    assert_eq!(flat, 0, "of 40 histories of 90 healthy runs");
    let mut delays: Vec<_> = (0..100)
        .map(|_| {
            let alarm = first_alarm(&mut noise, 40, |run| if run < 15 { 0.0 } else { 0.01 });
            alarm.map_or(99, |run| run as i64 + 1 - 15)
        })
        .collect();
    delays.sort_unstable();
    found("40 histories of 90 healthy runs", "no alarm");
    found(
        "a step of 1 % that lasts, 100 histories",
        &format!("after {} runs (median), {} runs (95th percentile)", delays[50], delays[95]),
    );
    assert!(delays[0] > 0 && delays[50] <= 3 && delays[95] <= 5, "{delays:?}");
}

#[test]
fn most_slow_drifts_are_found_within_five_runs_after_they_reach_one_percent() {
    let mut noise = Noise(0xDA94_2042_E4DD_58B5);
    let drift = |run: usize| 0.001 * (run as f64 - 10.0).max(0.0);
    let mut late: Vec<_> =
        (0..60).map(|_| first_alarm(&mut noise, 60, drift).map_or(99, |run| run as i64 + 1 - 20)).collect();
    late.sort_unstable();
    let when = |runs: i64| format!("{} runs {}", runs.abs(), if runs < 0 { "before" } else { "after" });
    found(
        "0.1 % more with every run, 60 histories",
        &format!("{} it has reached 1 % (median), {} (95th percentile)", when(late[30]), when(late[57])),
    );
    assert!(late[57] <= 5, "{late:?}");
}

#[test]
fn an_outlier_is_not_a_change() {
    let mut noise = Noise(0x94D0_49BB_1331_11EB);
    for _ in 0..50 {
        // One run is 1.4 % slower: an outlier, but within the tolerance of a single run.
        assert_eq!(first_alarm(&mut noise, 40, |run| if run == 20 { 0.014 } else { 0.0 }), None);
    }
}

/// A run with all its times multiplied by a factor.
fn slower(mut reading: Reading, times: f64) -> Reading {
    for half in
        reading.tables[0].rows.iter_mut().flat_map(|row| row.out_of_place.iter_mut().chain(&mut row.in_place))
    {
        half.time_us *= times;
        half.algbw /= times;
        half.busbw /= times;
    }
    reading
}

/// The healthy runs, with their times multiplied by these factors.
fn at(times: &[f64]) -> Vec<Reading> {
    times.iter().zip(healthy().into_iter().cycle()).map(|(times, run)| slower(run, *times)).collect()
}

/// Indices of the runs on each level.
fn groups(learned: Result<Baseline, Unlearnable>) -> Vec<Vec<usize>> {
    let Err(Unlearnable::Unrepeated { groups, .. }) = learned else { panic!("{learned:?}") };
    groups
        .into_iter()
        .map(|group| group.runs)
        .map(|mut runs| {
            runs.sort_unstable();
            runs
        })
        .collect()
}

fn learn_without_outliers(readings: &[Reading]) -> Result<(Baseline, Vec<usize>), Unlearnable> {
    let healthy = |reading| {
        let clues = Clues::default();
        Healthy { reading, fingerprint: Fingerprint::of(&RunEvidence::of(reading, &clues)) }
    };
    let runs: Vec<_> = readings.iter().map(healthy).collect();
    let learned = verdict::baseline::learn_without_outliers(&runs);
    learned.map(|(baseline, out)| (baseline, out.into_iter().map(|level| level.run).collect()))
}

#[test]
fn runs_that_do_not_repeat_give_no_baseline() {
    // First 356, 356, 151, 254 and 127 GB/s; then two series with two levels; then one run with a large deviation, and
    // one with a small deviation.
    let poisoned = [1.0, 1.0, 356.0 / 151.0, 356.0 / 254.0, 356.0 / 127.0];
    assert_eq!(groups(learn(&at(&poisoned))), [vec![0, 1], vec![3], vec![2], vec![4]]);
    assert_eq!(groups(learn(&at(&[1.0, 2.0, 1.0, 2.0, 1.0]))), [vec![0, 2, 4], vec![1, 3]]);
    assert_eq!(groups(learn(&at(&[1.0, 2.0]))), [vec![0], vec![1]]);
    assert_eq!(groups(learn(&at(&[1.0, 1.0, 1.0, 1.5, 1.0]))), [vec![0, 1, 2, 4], vec![3]]);
    assert_eq!(groups(learn(&at(&[1.0, 1.0, 1.04, 1.0, 1.0]))), [vec![0, 1, 3, 4], vec![2]]);
    // These runs have no gap between them, but the outermost ones are far from the median.
    assert_eq!(groups(learn(&at(&[0.94, 0.955, 0.97, 0.985, 1.0, 1.015, 1.03, 1.045, 1.06]))).len(), 1);
}

#[test]
fn a_fifth_of_the_runs_may_be_left_out() {
    let (baseline, out) = learn_without_outliers(&at(&[1.0, 1.0, 2.0, 1.0, 1.0])).unwrap();
    assert_eq!((baseline.runs, out), (4, vec![2]));
    assert!(baseline.repeatability() < 0.01, "{}", baseline.repeatability());
    let (baseline, out) =
        learn_without_outliers(&at(&[1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0])).unwrap();
    assert_eq!((baseline.runs, out), (8, vec![2, 7]));
    for more in [&[1.0, 2.0, 1.0, 2.0, 1.0][..], &[1.0, 1.0, 2.0, 1.0], &[1.0, 2.0]] {
        assert!(matches!(learn_without_outliers(&at(more)), Err(Unlearnable::Unrepeated { .. })), "{more:?}");
    }
    let (baseline, out) = learn_without_outliers(&healthy()).unwrap();
    assert_eq!((Ok(baseline), out), (learn(&healthy()), vec![]), "no run is left out if all repeat");
}

#[test]
fn real_runs_that_repeat_are_accepted() {
    let baseline = learn(&healthy()).unwrap();
    println!("five runs on 4 H200 repeat within {:.2} %", 100.0 * baseline.repeatability());
    assert!(baseline.repeatability() < 0.01 && baseline.repeats_within == Some(baseline.repeatability()));
    for left_out in 0..5 {
        let mut others = healthy();
        others.remove(left_out);
        assert!(learn(&others).is_ok(), "without run {}", left_out + 1);
    }
    // These runs used different pairs of one kind of GPU.
    let pairs: Vec<_> = ["0,1", "0,2", "0,3", "1,2", "1,3", "2,3"]
        .iter()
        .map(|pair| real(&format!("pair-healthy-{pair}.log")))
        .collect();
    let pairs = learn(&pairs).unwrap();
    println!("six pairs of H200 repeat within {:.2} %", 100.0 * pairs.repeatability());
}

#[test]
fn a_baseline_that_does_not_repeat_judges_no_run() {
    let good = learn(&healthy()).unwrap();
    let old = |levels: &[f64], plateau_spread: f64| Baseline {
        repeats_within: None,
        levels: levels.to_vec(),
        plateau_spread,
        ..good.clone()
    };
    let slow = slower(real("healthy-2.log"), 356.0 / 151.0);
    for (bad, why) in [
        (Baseline { repeats_within: Some(0.051), ..good.clone() }, "the baseline states it"),
        (old(&[-0.29, -0.29, 0.68, 0.0, 1.0], 0.635), "a baseline of an older version, with two levels"),
        (old(&[0.0, 0.0, 0.0, 1.0, 1.0], 0.002), "two levels, which the median does not show"),
        (old(&[], 0.635), "a baseline of the oldest version"),
    ] {
        for run in [&slow, &real("healthy-2.log")] {
            let judgement = judged(run, &bad);
            let codes: Vec<_> = judgement.reasons.iter().map(|reason| reason.code.as_str()).collect();
            assert_eq!((judgement.verdict, codes[0]), (Verdict::Inconclusive, "UNSTABLE_BASELINE"), "{why}");
        }
    }
    // Accepted: an old baseline with one deviating run, and baselines whose runs repeat.
    for fine in [
        old(&[0.0, 0.001, -0.001, 0.002, 0.3], 0.002),
        old(&[], 0.004),
        Baseline { repeats_within: Some(0.049), ..good.clone() },
    ] {
        assert_eq!(judged(&real("healthy-2.log"), &fine).verdict, Verdict::Pass);
        assert_eq!(judged(&slow, &fine).verdict, Verdict::Fail);
    }
    // An older file lacks the field.
    let mut written = serde_json::to_value(&good).unwrap();
    written.as_object_mut().unwrap().remove("repeats_within");
    let read: Baseline = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read.repeats_within, None);
    assert_eq!(
        serde_json::to_value(&read).unwrap(),
        written,
        "an older file is written unchanged, with the same digest"
    );
}

#[test]
fn only_complete_comparable_healthy_runs_give_a_baseline() {
    assert_eq!(learn(&[]), Err(Unlearnable::Nothing));
    let mut mixed = healthy();
    mixed[3].tables[0].ranks = Some(8);
    assert_eq!(learn(&mixed), Err(Unlearnable::Mixed { log: 3, field: "ranks".into() }));
    let mut wrong = healthy();
    wrong[1].tables[0].rows[0].in_place.as_mut().unwrap().wrong = Some(2);
    assert!(matches!(learn(&wrong), Err(Unlearnable::Unfit { log: 1, .. })));
    let mut cut = healthy();
    cut[2].tables[0].ended = model::measurement::LogEnd::Truncated;
    assert!(matches!(learn(&cut), Err(Unlearnable::Unfit { log: 2, .. })));
}
