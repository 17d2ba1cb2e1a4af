//! Metrics over many runs: changes of all subjects, two levels, and subjects absent from some runs.

use crate::support::{
    found,
    metrics::{codes, normal},
};
use model::{
    Criteria, MetricCriterion, PastTolerance, SplitMix64, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Scope, Subject},
};
use verdict::{
    Baseline, Clues, Fingerprint, Judgement, RunEvidence, Standard,
    baseline::{Healthy, MetricHistory, Paired, learn, learn_paired},
    history::{Change, change_among},
};

/// Number of runs that define the healthy state of a learned baseline.
const DEFINING: usize = 5;

/// A run with one value of each node, printed in steps of 1.
fn run(nodes: impl IntoIterator<Item = (u32, f64)>) -> Reading {
    let metric = |(node, value): (u32, f64)| Metric {
        name: "gemm".into(),
        unit: "GB/s".into(),
        better: Better::Higher,
        scope: Scope::Node,
        subject: Subject { node: Some(format!("node-{node:02}").into()), ..Subject::default() },
        labels: Default::default(),
        value: Some(value.round()),
        resolution: Some(1.0),
        unmeasurable: None,
        line: u64::from(node) + 1,
    };
    Reading {
        format: Some("sample".to_owned()),
        ended: LogEnd::Complete,
        metrics: nodes.into_iter().map(metric).collect(),
        ..Reading::default()
    }
}

fn fingerprint(reading: &Reading) -> Fingerprint {
    Fingerprint::of(&RunEvidence::of(reading, &Clues::default()))
}

fn healthy(runs: &[Reading]) -> Vec<Healthy<'_>> {
    runs.iter().map(|reading| Healthy { reading, fingerprint: fingerprint(reading) }).collect()
}

fn past(within: f64, spreads: f64) -> Criteria {
    let past = Some(PastTolerance { within, spreads });
    let gemm =
        MetricCriterion { metric: "gemm".to_owned(), floor: Some(1.0), past, ..MetricCriterion::default() };
    Criteria { metrics: vec![gemm], ..Criteria::named("test") }
}

fn judged(
    reading: &Reading,
    criteria: &Criteria,
    baseline: &Baseline,
    earlier: &[Vec<Option<f64>>],
) -> Judgement {
    let standard = Standard {
        criteria: Some(criteria),
        baseline: Some(baseline),
        earlier_metrics: earlier,
        defining_runs: Some(DEFINING),
        ..Standard::default()
    };
    verdict::judge(&RunEvidence::of(reading, &Clues::default()), &standard)
}

fn text<'a>(judgement: &'a Judgement, code: &str) -> &'a str {
    let reason = judgement
        .reasons
        .iter()
        .find(|reason| reason.code == code && !reason.text.contains("since the baseline"));
    &reason.unwrap_or_else(|| panic!("no {code}: {:?}", judgement.reasons)).text
}

/// Twelve nodes that repeat within 0.5 %; `level`: the factor of all of them in this run.
fn night(random: &mut SplitMix64, level: f64) -> Reading {
    run((0..12).map(|node| (node, 100_000.0 * level * (1.0 + 0.005 * normal(random)))).collect::<Vec<_>>())
}

/// The verdicts of the nights after a baseline of 20 nights, each judged with the nights before it.
fn nights(random: &mut SplitMix64, levels: &[f64]) -> Vec<Judgement> {
    let first: Vec<_> = (0..20).map(|_| night(random, 1.0)).collect();
    let baseline = learn(&healthy(&first)).unwrap();
    let (criteria, mut earlier) = (past(0.05, 5.0), Vec::new());
    let mut judgements = Vec::new();
    for level in levels {
        let reading = night(random, *level);
        judgements.push(judged(&reading, &criteria, &baseline, &earlier));
        earlier.extend(baseline.fleet_levels([&reading.metrics[..]]));
    }
    judgements
}

#[test]
fn a_lasting_decline_of_a_metric_fails_and_a_small_or_better_change_is_only_reported() {
    let mut random = SplitMix64(8);
    let slower = nights(&mut random, &[[1.0; 10].as_slice(), &[0.99; 4]].concat());
    assert!(slower[..10].iter().all(|night| night.verdict == Verdict::Pass));
    let last = slower.last().unwrap();
    assert_eq!(last.verdict, Verdict::Fail, "{:?}", last.reasons);
    let drifted = text(last, "DRIFTED");
    assert!(
        drifted.starts_with("in the last 4 runs gemm is 1.")
            || drifted.starts_with("in the last 4 runs gemm is 0.9"),
        "{drifted}"
    );
    assert!(last.suspects.is_empty(), "a decline of all subjects names no suspect: {:?}", last.suspects);

    let small = nights(&mut random, &[[1.0; 10].as_slice(), &[0.996; 24]].concat());
    let last = small.last().unwrap();
    assert_eq!(last.verdict, Verdict::Pass, "{:?}", last.reasons);
    let shifted = text(last, "SHIFTED");
    assert!(
        shifted.contains("gemm is 0.") && shifted.contains("% worse than in the earlier runs"),
        "{shifted}"
    );

    let faster = nights(&mut random, &[[1.0; 10].as_slice(), &[1.01; 6]].concat());
    let last = faster.last().unwrap();
    assert_eq!(last.verdict, Verdict::Pass);
    assert!(text(last, "SHIFTED").contains("% better than in the earlier runs"), "{:?}", last.reasons);
}

#[test]
fn a_lasting_increase_of_a_metric_where_lower_is_better_is_reported_as_drift() {
    let latency = |factor: f64| {
        let mut reading = run((0..8).map(|node| (node, 20_000.0 * factor + f64::from(node))));
        reading.metrics.iter_mut().for_each(|metric| metric.better = Better::Lower);
        reading
    };
    let first = [1.0, 1.001, 0.999, 1.0, 1.001, 0.999].map(latency);
    let baseline = learn(&healthy(&first)).unwrap();
    let earlier = [[1.0; 6].as_slice(), &[1.02; 3]].concat();
    let earlier: Vec<_> = earlier.into_iter().map(latency).collect();
    let levels = baseline.fleet_levels(earlier.iter().map(|reading| &reading.metrics[..]));
    let judgement = judged(&latency(1.02), &past(0.05, 5.0), &baseline, &levels);
    assert!(
        text(&judgement, "DRIFTED").starts_with("in the last 4 runs gemm is 2.0 % worse"),
        "{:?}",
        judgement.reasons
    );
    // For a metric with `better: higher` the same values are an improvement.
    assert_eq!(judged(&latency(1.0), &past(0.05, 5.0), &baseline, &[]).verdict, Verdict::Pass);
}

/// Ten metrics are searched in each run: a false change in any of them is as rare as one in a single series.
#[test]
fn histories_of_several_metrics_rarely_fail_in_any_of_ninety_nights() {
    const METRICS: usize = 10;
    let mut random = SplitMix64(90);
    let mut failed = 0;
    for _ in 0..100 {
        let series: Vec<Vec<f64>> = (0..METRICS)
            .map(|_| (0..90).map(|_| 0.005 / 12f64.sqrt() * 1.25 * normal(&mut random)).collect())
            .collect();
        let fails = |nights: usize| {
            series.iter().any(|levels| {
                matches!(change_among(&levels[..nights], DEFINING, METRICS), Some(Change::Drifted(_)))
            })
        };
        failed += usize::from((DEFINING + 1..=90).any(fails));
    }
    found(
        "100 histories of 90 flat nights of ten metrics, each the median of 12 values with a spread of 0.5 %, each night judged",
        &format!("{failed} fail"),
    );
    assert_eq!(failed, 0);
}

/// 31 nodes that repeat within 0.06 %; a node is at the lower of two levels, 2.2 % apart, in a third of the runs.
fn of_two_levels(random: &mut SplitMix64) -> Reading {
    let value = |random: &mut SplitMix64| {
        let level = if random.part() < 0.33 { 271_900.0 * 0.978 } else { 271_900.0 };
        level * (1.0 + 0.000_6 * normal(random))
    };
    run((0..31).map(|node| (node, value(random))).collect::<Vec<_>>())
}

#[test]
fn a_strict_comparison_with_its_past_does_not_suspect_a_node_that_alternates_between_levels() {
    let mut random = SplitMix64(22);
    let strict = past(0.004, 2.0);
    let (mut flagged, mut changed) = (0, 0);
    for _ in 0..30 {
        let first: Vec<_> = (0..5).map(|_| of_two_levels(&mut random)).collect();
        let baseline = learn(&healthy(&first)).unwrap();
        assert!(baseline.fleets[0].tiers.is_some());
        let mut earlier = Vec::new();
        for _ in 0..10 {
            let reading = of_two_levels(&mut random);
            let judgement = judged(&reading, &strict, &baseline, &earlier);
            flagged +=
                usize::from(judgement.verdict != Verdict::Pass || codes(&judgement).contains(&"SHIFTED"));
            changed += usize::from(codes(&judgement).contains(&"TWO_LEVELS"));
            earlier.extend(baseline.fleet_levels([&reading.metrics[..]]));
        }
    }
    found(
        "300 runs of 31 nodes that change between two levels 2.2 % apart, with `past: {within: 0.004, spreads: 2}`",
        &format!("{flagged} flagged"),
    );
    assert!(flagged == 0 && changed > 250, "{flagged} flagged, {changed} with changed levels");
    // A node between both levels, or below both, is at no level.
    let first: Vec<_> = (0..5).map(|_| of_two_levels(&mut random)).collect();
    let baseline = learn(&healthy(&first)).unwrap();
    let upper = baseline.metrics.iter().position(|learned| learned.value > 270_000.0).unwrap();
    let host = baseline.metrics[upper].key.subject.node.clone();
    for factor in [0.99, 0.965] {
        let mut reading = of_two_levels(&mut random);
        reading.metrics[upper].value = Some(271_900.0 * factor);
        let judgement = judged(&reading, &strict, &baseline, &[]);
        let hosts: Vec<_> = judgement.suspects.iter().map(|suspect| suspect.host.as_deref()).collect();
        assert_eq!((judgement.verdict, hosts), (Verdict::Fail, vec![host.as_deref()]), "{factor}");
    }
}

/// Learns from these runs, all healthy and with the same fingerprint.
fn paired(runs: &[Reading], current: &Reading, of: (usize, usize)) -> Paired {
    let mut history = MetricHistory::of(current);
    runs.iter().for_each(|reading| history.add(&reading.metrics));
    let setup = fingerprint(current);
    learn_paired(&history, &(0..runs.len()).map(|run| (run, &setup)).collect::<Vec<_>>(), of).unwrap()
}

fn of_nodes(nodes: &[u32], slow: u32) -> Reading {
    run(nodes
        .iter()
        .map(|node| (*node, if *node == slow { 90_000.0 } else { 100_000.0 + 10.0 * f64::from(*node) })))
}

#[test]
fn each_node_is_compared_with_its_own_past_if_runs_have_different_nodes() {
    let first: Vec<_> = (0..8u32).map(|run| of_nodes(&[0, 1, 2, 3 + run % 2, 5 + run], 99)).collect();
    let current = of_nodes(&[0, 1, 2, 3, 20], 2);
    let paired = |of| paired(&first, &current, of);
    let Paired { baseline, earlier, missing } = paired((4, 20));
    assert_eq!((baseline.metrics.len(), baseline.runs, earlier.len()), (4, 8, 0));
    assert_eq!(missing, ["gemm of node node-20"]);
    assert_eq!(paired((5, 20)).missing, ["gemm of node node-03", "gemm of node node-20"]);
    // Node 3 is in every second run: its values come from seven runs, and the levels of all nodes from five.
    let Paired { baseline, earlier, .. } = paired((4, 5));
    assert_eq!((baseline.metrics.len(), baseline.runs, baseline.fleets[0].levels.len()), (4, 5, 5));
    assert_eq!(earlier, vec![vec![Some(0.0)]; 3]);
    let judgement = judged(&current, &past(0.05, 5.0), &baseline, &[]);
    assert_eq!(codes(&judgement)[0], "WORSE_THAN_BASELINE");
    assert_eq!(judgement.suspects[0].host.as_deref(), Some("node-02"));
    assert_eq!(
        text(&judgement, "PAST_INCOMPLETE"),
        "1 of 5 values have no baseline value: gemm of node node-20"
    );
}

#[test]
fn a_baseline_of_other_nodes_and_a_lost_value_of_a_measured_node_are_inconclusive() {
    let all = [of_nodes(&[0, 1, 2, 3, 4, 5], 99)];
    let baseline = learn(&healthy(&all)).unwrap();
    let by = |reading: &Reading| judged(reading, &past(0.05, 5.0), &baseline, &[]);
    let fewer = by(&of_nodes(&[0, 1, 2, 3], 99));
    assert_eq!((fewer.verdict, codes(&fewer)), (Verdict::Pass, vec!["PAST_INCOMPLETE", "METRICS_GOOD"]));
    assert_eq!(
        text(&fewer, "PAST_INCOMPLETE"),
        "this run did not measure the nodes of 2 values of the baseline: gemm of node node-04; gemm of node node-05"
    );
    let others = by(&of_nodes(&[5, 6, 7, 8, 9, 10], 99));
    assert_eq!(others.verdict, Verdict::Inconclusive);
    assert_eq!(codes(&others), ["NOT_MEASURED", "PAST_INCOMPLETE"]);
    // Two GPUs of one node; one has no value.
    let gpus = |count: u32| {
        let mut reading = run((0..count).map(|gpu| (gpu, 100_000.0)));
        for (gpu, metric) in (0..).zip(&mut reading.metrics) {
            metric.subject = Subject { node: Some("node-00".into()), ..Subject::gpu(gpu) };
        }
        reading
    };
    let all = [gpus(8)];
    let baseline = learn(&healthy(&all)).unwrap();
    let judgement = judged(&gpus(7), &past(0.05, 5.0), &baseline, &[]);
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["NOT_MEASURED"]));
}

/// Documents of an older version have no fleets.
#[test]
fn a_baseline_of_an_older_version_has_a_history_of_its_later_runs() {
    let first = [of_nodes(&[0, 1, 2, 3], 99)];
    let mut document = serde_json::to_value(learn(&healthy(&first)).unwrap()).unwrap();
    assert!(document.as_object_mut().unwrap().remove("fleets").is_some());
    let baseline: Baseline = serde_json::from_value(document).unwrap();
    assert!(baseline.fleets.is_empty());
    let baseline = baseline.with_fleets();
    let slower = run((0..4).map(|node| (node, 98_000.0)));
    assert_eq!(baseline.fleets.len(), 1);
    let level = baseline.fleet_levels([&slower.metrics[..]])[0][0].unwrap();
    assert!((level - 0.02).abs() < 1e-3, "{level}");
}

/// Two runs of 30 nodes: nodes differ by 0.06 % and repeat within 0.06 %; values are printed in steps of 0.037 %.
fn pair(random: &mut SplitMix64, moved: f64) -> [Reading; 2] {
    const STEP: f64 = 100.0;
    let printed = |value: f64| (271_900.0 * value / STEP).round() * STEP;
    let mut runs = [Vec::new(), Vec::new()];
    for node in 0..30 {
        let own = 1.0 + 0.000_6 * normal(random);
        for (values, moved) in runs.iter_mut().zip([0.0, moved]) {
            values.push((node, printed(own * (1.0 + moved) + 0.000_4 * normal(random))));
        }
    }
    runs.map(|values| {
        let mut reading = run(values);
        reading.metrics.iter_mut().for_each(|metric| metric.resolution = Some(STEP));
        reading
    })
}

#[test]
fn a_shift_of_all_nodes_by_a_tenth_of_a_percent_is_shown_in_the_first_run() {
    let mut random = SplitMix64(30);
    let mut shown = |moved: f64| {
        let is_shown = |[before, after]: [Reading; 2]| {
            let baseline = learn(&[Healthy { reading: &before, fingerprint: fingerprint(&before) }]).unwrap();
            codes(&judged(&after, &past(0.05, 5.0), &baseline, &[])).contains(&"SHIFTED")
        };
        (0..1_000).filter(|_| is_shown(pair(&mut random, moved))).count()
    };
    let (shifted, flat) = (shown(-0.001_3), shown(0.0));
    found(
        "all of 30 nodes that repeat within 0.06 % shift by 0.13 %, 1,000 pairs of runs",
        &format!("{shifted} in the first run; {flat} of 1,000 pairs without a shift"),
    );
    assert!(shifted >= 990 && flat <= 1, "{shifted}, {flat}");
}
