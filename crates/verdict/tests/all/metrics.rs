//! Verdicts on metrics and findings of benchmarks other than nccl-tests.

#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use std::path::Path;

use model::{
    Criteria, DeviceTolerance, MetricCriterion, MetricReference, PastTolerance, Peers, Settled, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Finding, Severity},
};

use crate::support::metrics::*;

#[test]
fn comparison_with_a_baseline_of_healthy_runs_names_a_busy_gpu() {
    let runs = ["h100-1.json", "h100-2.json", "h100-3.json"].map(|name| read(&sample(name)));
    let baseline = learned(&runs);
    for reading in &runs {
        let judgement = judged(reading, None, Some(&baseline));
        assert_eq!(
            (judgement.verdict, judgement.suspects.len()),
            (Verdict::Pass, 0),
            "{:?}",
            judgement.reasons
        );
    }
    let busy = judged(&read(&sample("h100-busy.json")), None, Some(&baseline));
    assert_eq!((busy.verdict, codes(&busy)), (Verdict::Fail, vec!["WORSE_THAN_BASELINE"]));
    assert_eq!(busy.suspects[0].gpu, Some(0));
    assert!(
        busy.suspects[0].evidence.len() >= 3,
        "expected at least 3 independent metrics, found {:?}",
        busy.suspects[0].evidence
    );
    assert!(busy.reasons[0].text.contains("nvbandwidth.device_local_copy"), "{}", busy.reasons[0].text);
}

#[test]
fn a_log_cut_anywhere_never_passes() {
    let log = sample("h100-1.json");
    let whole = read(&log);
    let baseline = learned(std::slice::from_ref(&whole));
    let end = log.iter().rposition(|byte| *byte == b'}').unwrap();
    for cut in (0..=end).step_by(61).chain(end.saturating_sub(200)..=end) {
        let judgement = judged(&read(&log[..cut]), None, Some(&baseline));
        assert_ne!(judgement.verdict, Verdict::Pass, "cut at byte {cut}");
    }
}

#[test]
fn bounds_apply_to_every_subject() {
    let degraded = eight([100.0, 100.4, 99.8, 46.0, 99.9, 100.2, 100.0, 99.7]);
    let reference = MetricReference { value: 100.0, within: 0.05, source: "a datasheet".to_owned() };
    let cases = [
        ("BELOW_FLOOR", MetricCriterion { floor: Some(95.0), ..criterion() }),
        ("WORSE_THAN_REFERENCE", MetricCriterion { reference: Some(reference), ..criterion() }),
        ("WORSE_THAN_PEERS", MetricCriterion { peers: Some(Peers::default()), ..criterion() }),
    ];
    for (code, criterion) in cases {
        let passes = by(&healthy(), criterion.clone());
        assert_eq!((passes.verdict, codes(&passes)), (Verdict::Pass, vec!["METRICS_GOOD"]));
        let fails = by(&degraded, criterion);
        assert_eq!((fails.verdict, codes(&fails)), (Verdict::Fail, vec![code]));
        assert_eq!((fails.suspects.len(), fails.suspects[0].gpu), (1, Some(3)));
        assert_eq!(
            fails.suspects[0].serial.as_deref(),
            Some("S3"),
            "a spare part is ordered by its serial number"
        );
    }
    let above = by(&healthy(), MetricCriterion { ceiling: Some(100.3), ..criterion() });
    assert_eq!((above.verdict, codes(&above)), (Verdict::Fail, vec!["ABOVE_CEILING"]));
    let unequal = by(&healthy(), MetricCriterion { equals: Some(100.0), ..criterion() });
    assert_eq!((unequal.verdict, codes(&unequal)), (Verdict::Fail, vec!["NOT_EQUAL"]));
}

/// Without a direction of improvement no value is worse than another, so a rule that needs the direction would pass any value.
#[test]
fn rules_that_need_a_direction_never_pass_a_metric_without_one() {
    let undirected = |mut reading: Reading| {
        reading.metrics.iter_mut().for_each(|metric| metric.better = Better::None);
        reading
    };
    let (good, degraded) =
        (undirected(healthy()), undirected(eight([100.0, 100.4, 99.8, 46.0, 99.9, 100.2, 100.0, 99.7])));
    let reference = MetricReference { value: 100.0, within: 0.05, source: "a datasheet".to_owned() };
    let rules = [
        MetricCriterion { reference: Some(reference), ..criterion() },
        MetricCriterion { peers: Some(Peers::default()), ..criterion() },
        MetricCriterion { past: Some(PastTolerance::default()), floor: Some(1.0), ..criterion() },
    ];
    for rule in &rules {
        for reading in [&good, &degraded] {
            let judgement = by(reading, rule.clone());
            assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["NO_DIRECTION"]));
        }
    }
    for rule in &rules[..2] {
        let stated = MetricCriterion { better: Some(Better::Higher), ..rule.clone() };
        assert_eq!(by(&good, stated.clone()).verdict, Verdict::Pass);
        let fails = by(&degraded, stated);
        assert_eq!((fails.verdict, fails.suspects[0].gpu), (Verdict::Fail, Some(3)));
    }
    // A floor needs no direction.
    assert_eq!(by(&degraded, MetricCriterion { floor: Some(95.0), ..criterion() }).verdict, Verdict::Fail);
}

/// A criterion without a bound does not replace the program's own result.
#[test]
fn a_failed_result_stated_by_a_program_fails_despite_a_criterion_without_a_bound() {
    let mut reading = eight([1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    for metric in &mut reading.metrics {
        (metric.better, metric.unit) = (Better::Exact, "1".into());
    }
    let judgement = by(&reading, MetricCriterion { subjects: Some(8), ..criterion() });
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Fail, vec!["TEST_FAILED"]));
}

#[test]
fn a_slow_node_is_found_although_it_widens_the_spread() {
    // A mean and a standard deviation would accept GPU 3: it widens both.
    let degraded = eight([100.0, 100.1, 100.0, 90.0, 100.0, 100.1, 100.0, 100.0]);
    let judgement = by(&degraded, MetricCriterion { peers: Some(Peers::default()), ..criterion() });
    assert_eq!((judgement.verdict, judgement.suspects[0].gpu), (Verdict::Fail, Some(3)));
    // Equal printed values have no spread; the printed step is then the smallest difference.
    let stepped = eight([100.0, 100.0, 100.0, 99.9, 100.0, 100.0, 100.0, 100.0]);
    let strict = Peers { within: 0.0, ..Peers::default() };
    assert_eq!(by(&stepped, MetricCriterion { peers: Some(strict), ..criterion() }).verdict, Verdict::Pass);
}

#[test]
fn missing_evidence_never_passes() {
    let floor = || MetricCriterion { floor: Some(95.0), ..criterion() };
    let inconclusive = |reading: &Reading, criterion: MetricCriterion, code: &str| {
        let judgement = by(reading, criterion);
        assert_eq!(judgement.verdict, Verdict::Inconclusive, "{:?}", judgement.reasons);
        assert!(codes(&judgement).contains(&code), "{code}: {:?}", judgement.reasons);
    };
    let mut seven = healthy();
    seven.metrics.pop();
    inconclusive(&seven, floor(), "NOT_MEASURED");
    assert!(by(&seven, floor()).reasons[0].text.contains("gpu 7"), "the missing GPU is named");
    inconclusive(&healthy(), MetricCriterion { subjects: Some(16), ..floor() }, "NOT_MEASURED");
    inconclusive(&healthy(), MetricCriterion { metric: "other".to_owned(), ..floor() }, "NOT_MEASURED");
    inconclusive(&healthy(), MetricCriterion { unit: Some("TFLOP/s".to_owned()), ..floor() }, "UNKNOWN_UNIT");
    inconclusive(&healthy(), criterion(), "UNBOUNDED");
    let few = MetricCriterion { peers: Some(Peers { at_least: 16, ..Peers::default() }), ..criterion() };
    inconclusive(&healthy(), few, "TOO_FEW_PEERS");
    inconclusive(&Reading { ended: LogEnd::Truncated, ..healthy() }, floor(), "TRUNCATED");
    for (unit, value, code) in [
        ("furlong", Some(100.0), "UNKNOWN_UNIT"),
        ("GB/s", Some(0.0), "IMPLAUSIBLE"),
        ("GB/s", None, "UNMEASURABLE"),
    ] {
        let mut reading = healthy();
        (reading.metrics[5].unit, reading.metrics[5].value) = (unit.into(), value);
        let no_bound_missed = MetricCriterion { ceiling: Some(200.0), ..criterion() };
        inconclusive(&reading, no_bound_missed, code);
    }
    // A floor in GB/s is not comparable with a value in an unknown unit, which may be larger or smaller.
    let mut other_unit = healthy();
    other_unit.metrics.iter_mut().for_each(|metric| metric.unit = "furlong".into());
    let judgement = by(&other_unit, MetricCriterion { floor: Some(1e6), ..criterion() });
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["UNKNOWN_UNIT"]));
    let mut waived = healthy();
    waived.metrics[5].value = None;
    let accepted = MetricCriterion { may_be_unmeasurable: true, ..floor() };
    assert_eq!(by(&waived, accepted).verdict, Verdict::Pass);
}

#[test]
fn the_severity_of_a_finding_determines_the_verdict() {
    let floor = || MetricCriterion { floor: Some(95.0), ..criterion() };
    let with = |findings: Vec<Finding>| by(&Reading { findings, ..healthy() }, floor());
    let hardware = with(vec![finding(5, Severity::Hardware)]);
    assert_eq!((hardware.verdict, hardware.suspects[0].gpu), (Verdict::Fail, Some(5)));
    for severity in [Severity::Configuration, Severity::Software, Severity::Unknown] {
        let judgement = with(vec![finding(5, severity)]);
        assert_eq!((judgement.verdict, judgement.suspects.len()), (Verdict::Inconclusive, 0), "{severity:?}");
    }
    let shared = with((0..8).map(|gpu| finding(gpu, Severity::Hardware)).collect());
    assert_eq!((shared.verdict, shared.suspects.len()), (Verdict::Inconclusive, 0), "more likely a setting");
    let wrong = with((0..8).map(|gpu| finding(gpu, Severity::WrongData)).collect());
    assert_eq!(
        (wrong.verdict, wrong.suspects.len()),
        (Verdict::Fail, 8),
        "a setting never explains wrong data"
    );
}

#[test]
fn a_test_that_states_its_own_result_needs_no_criteria() {
    let mut reading = healthy();
    for metric in &mut reading.metrics {
        (metric.unit, metric.better, metric.value) = ("1".into(), Better::Exact, Some(1.0));
    }
    assert_eq!(judged(&reading, None, None).verdict, Verdict::Pass);
    reading.metrics[2].value = Some(0.0);
    let failed = judged(&reading, None, None);
    assert_eq!(
        (failed.verdict, codes(&failed), failed.suspects[0].gpu),
        (Verdict::Fail, vec!["TEST_FAILED"], Some(2))
    );
    reading.metrics[2].value = None;
    assert_eq!(judged(&reading, None, None).verdict, Verdict::Inconclusive, "a skipped test does not pass");
    reading.metrics[2].value = Some(5.0);
    let other = judged(&reading, None, None);
    assert_eq!(other.verdict, Verdict::Pass, "a PCIe generation is not a result: {:?}", other.reasons);
}

/// Outputs of programs that state their own result, with criteria that add no bounds.
#[test]
fn real_outputs_are_judged_by_their_own_stated_results() {
    let criteria = Criteria { data_only: true, ..Criteria::named("findings") };
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/tests/samples");
    let cases = [
        ("nvidia-smi/580-h100.xml", Verdict::Pass),
        ("nvidia-smi/580-h100.txt", Verdict::Pass),
        ("nvidia-smi/580-two-gpus-one-bad.txt", Verdict::Fail),
        ("gpu-burn/8-a100.txt", Verdict::Pass),
        ("gpu-burn/h100-floats.txt", Verdict::Pass),
        ("gpu-burn/h100-doubles.txt", Verdict::Pass),
        ("gpu-burn/h100-tensor-cores.txt", Verdict::Pass),
        ("gpu-burn/faulty.txt", Verdict::Fail),
        ("dcgm-diag/3-fail-warn.json", Verdict::Inconclusive),
    ];
    for (name, expected) in cases {
        let log = std::fs::read(samples.join(name)).unwrap();
        let judgement = judged(&read(&log), Some(&criteria), None);
        assert_eq!(judgement.verdict, expected, "{name}: {:?}", judgement.reasons);
        assert_eq!(
            judgement.suspects.is_empty(),
            expected != Verdict::Fail,
            "{name}: {:?}",
            judgement.suspects
        );
    }
}

#[test]
fn every_code_is_documented() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics");
    let documented = std::fs::read_to_string(sources.join("../../../../docs/VERDICT.md")).unwrap();
    let (_, documented) = documented.split_once("## Metrics and findings").unwrap();
    let mut codes = 0;
    for file in std::fs::read_dir(&sources).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let is_code =
            |text: &&str| text.len() > 5 && text.bytes().all(|c| c.is_ascii_uppercase() || c == b'_');
        for code in source.split('"').skip(1).step_by(2).filter(is_code).filter(|code| *code != "TRUNCATED") {
            codes += 1;
            assert!(documented.contains(&format!("`{code}`")) || code == "BENCHMARK_FAILED", "{code}");
        }
    }
    assert!(codes > 15, "{codes}");
}

#[test]
fn the_library_judges_a_device_by_its_name() {
    let reading = read(&sample("h100-busy.json"));
    let bounded = |metric: &str| MetricCriterion {
        metric: metric.to_owned(),
        device_reference: Some(DeviceTolerance { within: 0.1 }),
        ..MetricCriterion::default()
    };
    let busy = by(&reading, bounded("nvbandwidth.device_local_copy"));
    assert_eq!(codes(&busy), ["WORSE_THAN_REFERENCE"]);
    assert!(busy.reasons[0].text.contains("1490 GB/s by more than 10.0 % (H100 SXM: "), "{:?}", busy.reasons);
    let healthy = read(&sample("h100-1.json"));
    assert_eq!(by(&healthy, bounded("nvbandwidth.device_local_copy")).verdict, Verdict::Pass);
    // The library has no reference for an unlisted metric or device, or if the log does not state the device.
    assert_eq!(codes(&by(&healthy, bounded("nvbandwidth.host_device_latency_sm"))), ["NO_DEVICE_REFERENCE"]);
    let mut other = healthy.clone();
    other.gpus[0].name = Some("NVIDIA H100 PCIe".to_owned());
    let judgement = by(&other, bounded("nvbandwidth.device_local_copy"));
    assert_eq!(codes(&judgement), ["NO_DEVICE_REFERENCE"]);
    assert!(judgement.reasons[0].text.contains("`NVIDIA H100 PCIe`"), "{:?}", judgement.reasons);
    other.gpus.clear();
    assert_eq!(codes(&by(&other, bounded("nvbandwidth.device_local_copy"))), ["NO_DEVICE_REFERENCE"]);
    // A declared parser lists no devices, but its label `device` can name one.
    for metric in &mut other.metrics {
        metric.labels.insert("device".to_owned(), "NVIDIA H100 80GB HBM3".to_owned());
    }
    assert_eq!(by(&other, bounded("nvbandwidth.device_local_copy")).verdict, Verdict::Pass);
}

/// Step times of a training run: slow at first, then steady, with one slow iteration.
fn iterations(count: u32, steady: f64) -> Reading {
    let value = |iteration| match iteration {
        1..10 => steady * 5.0,
        25 => steady * 3.0,
        _ => steady,
    };
    let lines: String = (1..=count)
        .map(|at| {
            format!(
                " iteration {at:8}/{count:8} | consumed samples: 1 | elapsed time per iteration (ms): {:.1} | throughput per GPU (TFLOP/s/GPU): 400.0 | lm loss: 1.0E+00 |\n",
                value(at)
            )
        })
        .collect();
    read(lines.as_bytes())
}

#[test]
fn only_the_settled_window_is_judged() {
    let settled = |from, at_least| MetricCriterion {
        metric: "training.step_time".to_owned(),
        ceiling: Some(110.0),
        settled: Some(Settled { by: "iteration".to_owned(), from, to: None, at_least }),
        ..MetricCriterion::default()
    };
    let reading = iterations(40, 100.0);
    assert_eq!(reading.ended, LogEnd::Complete);
    assert_eq!(
        by(&reading, settled(10.0, 30)).verdict,
        Verdict::Pass,
        "{:?}",
        by(&reading, settled(10.0, 30))
    );
    let all = MetricCriterion { settled: None, ..settled(10.0, 30) };
    assert_eq!(codes(&by(&reading, all)), ["ABOVE_CEILING"]);
    let judgement = by(&iterations(40, 120.0), settled(10.0, 30));
    assert_eq!(codes(&judgement), ["ABOVE_CEILING"]);
    assert!(judgement.reasons[0].text.contains("the whole cluster 120 ms"), "{:?}", judgement.reasons);
    // The medians of the window are compared with those of healthy runs: the first iterations and a slow iteration are excluded.
    let runs = [iterations(40, 100.0), iterations(40, 100.0), iterations(40, 100.0)];
    let baseline = learned(&runs);
    let window = criteria(settled(10.0, 30));
    assert_eq!(judged(&iterations(40, 103.0), Some(&window), Some(&baseline)).verdict, Verdict::Pass);
    let judgement = judged(&iterations(40, 107.0), Some(&window), Some(&baseline));
    assert_eq!(codes(&judgement), ["WORSE_THAN_BASELINE"]);
    assert!(judgement.reasons[0].text.contains("107 instead of 100 ms (+7.0 %"), "{:?}", judgement.reasons);
    // A run that is too short, and a window over a label that the program does not print, give no settled value.
    assert_eq!(codes(&by(&iterations(20, 100.0), settled(10.0, 30))), ["NOT_SETTLED"]);
    let mut other = settled(10.0, 30);
    other.settled.as_mut().unwrap().by = "step".to_owned();
    assert_eq!(codes(&by(&reading, other)), ["NOT_SETTLED"]);
}

#[test]
fn a_criterion_sets_the_accepted_distance_from_the_baseline() {
    let runs = [healthy(), healthy(), healthy()];
    let baseline = learned(&runs);
    let slower = eight([100.0, 100.4, 99.8, 97.0, 99.9, 100.2, 100.0, 99.7]);
    let bounded = |past| criteria(MetricCriterion { floor: Some(1.0), past, ..criterion() });
    assert_eq!(judged(&slower, Some(&bounded(None)), Some(&baseline)).verdict, Verdict::Pass);
    let strict = bounded(Some(PastTolerance { within: 0.01, spreads: 5.0 }));
    let judgement = judged(&slower, Some(&strict), Some(&baseline));
    assert_eq!(codes(&judgement), ["WORSE_THAN_BASELINE"]);
    assert_eq!(judgement.suspects[0].gpu, Some(3));
    assert_eq!(judgement.suspects.len(), 1);
}

/// A log with two values of one metric states no result: the second value must not replace the first one silently.
#[test]
fn two_values_of_one_metric_never_pass() {
    let format = measure::format("key-value").unwrap();
    let log = |text: &str| measure::read_as(format, text.as_bytes()).unwrap();
    let twice = log("rtt_us=4.2\nodd_us=1\nrtt_us=3.9\nCHECK_PASS\n");
    let bounded =
        MetricCriterion { metric: "kv.rtt_us".to_owned(), ceiling: Some(5.0), ..MetricCriterion::default() };
    let judgement = by(&twice, bounded.clone());
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["AMBIGUOUS"]));
    let text = &judgement.reasons[0].text;
    assert!(text.contains("4.2 us (line 1) and 3.9 us (line 3)"), "{text}");
    // The next steps that the reason names, each with a log or declaration that follows it.
    for step in ["`CHECK_PASS`", "`srun --label`", "`mpirun --tag-output`", "`row` in `read:`"] {
        assert!(text.contains(step), "{text}");
    }
    for prefix in ["{}: ", "[1,{}]<stdout>:"] {
        let lines = [(0, "rtt_us=4.2"), (1, "rtt_us=3.9"), (0, "CHECK_PASS"), (1, "CHECK_PASS")];
        let lines = lines.map(|(rank, line)| format!("{}{line}\n", prefix.replace("{}", &rank.to_string())));
        let ranks = log(&lines.concat());
        assert_eq!(ranks.metrics.iter().map(|it| it.subject.rank).collect::<Vec<_>>(), [Some(0), Some(1)]);
        let judgement = by(&ranks, bounded.clone());
        assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Pass, vec!["METRICS_GOOD"]), "{prefix}");
    }
    let declaration: measure::Declaration = serde_json::from_value(serde_json::json!({
        "row": r"^rank (?P<rank>\d+): rtt_us=(?P<value>\S+)$", "end": "^CHECK_PASS$",
        "name": "kv.rtt_us", "unit": "us", "better": "lower", "scope": "rank",
    }))
    .unwrap();
    let declared = declaration.check(true).unwrap();
    let ranks = declared.read(&b"rank 0: rtt_us=4.2\nrank 1: rtt_us=3.9\nCHECK_PASS\n"[..]).unwrap();
    assert_eq!(by(&ranks, bounded.clone()).verdict, Verdict::Pass);
    assert_eq!(
        by(&log("rtt_us=4.2\nrtt_us=4.2\nCHECK_PASS\n"), bounded.clone()).verdict,
        Verdict::Pass,
        "equal values"
    );
    assert_eq!(
        by(&log("rtt_us=n/a\nrtt_us=4.2\nCHECK_PASS\n"), bounded.clone()).verdict,
        Verdict::Inconclusive
    );
    let other = MetricCriterion { metric: "kv.odd_us".to_owned(), ..bounded.clone() };
    assert_eq!(by(&twice, other).verdict, Verdict::Pass, "the ambiguous metric is not judged");
    // A program that runs again ends each run with its mark.
    let again = log("rtt_us=4.2\nCHECK_PASS\nrtt_us=3.9\nCHECK_PASS\n");
    assert_eq!(again.metrics[1].labels["repetition"], "2");
    assert_eq!(by(&again, bounded.clone()).verdict, Verdict::Pass);
    // Only keys that a criterion selects are judged, also with a baseline.
    let none = Criteria::named("test");
    let judgement = judged(&twice, Some(&none), Some(&learned(&[healthy()])));
    assert!(!codes(&judgement).contains(&"AMBIGUOUS"), "{judgement:?}");
    // A missed bound is certain, whichever value is the result.
    assert_eq!(by(&twice, MetricCriterion { ceiling: Some(3.0), ..bounded.clone() }).verdict, Verdict::Fail);
    let directed = Criteria {
        metrics: vec![MetricCriterion { better: Some(Better::Lower), ..bounded }],
        ..Criteria::named("test")
    };
    let read = verdict::directed(&twice, &directed).into_owned();
    let why = format!("{:?}", learnable(&[read]).unwrap_err());
    assert!(why.contains("different values of one metric"), "{why}");
}

/// Ranks without a prefix, and loops over GPUs, print several values of one subject: each is judged, whichever is printed last.
#[test]
fn several_values_of_one_subject_are_each_judged() {
    let with = |values: [f64; 2]| {
        let mut reading = healthy();
        let own = reading.metrics[3].clone();
        reading.metrics[3].value = Some(values[0]);
        reading.metrics.push(model::metric::Metric { value: Some(values[1]), line: 90, ..own });
        reading
    };
    let baseline = learned(&[with([99.8, 99.25])]);
    let bounded = MetricCriterion { floor: Some(95.0), ..criterion() };
    for values in [[99.8, 99.25], [99.25, 99.8]] {
        let reading = with(values);
        assert_eq!(judged(&reading, None, Some(&baseline)).verdict, Verdict::Pass);
        assert_eq!(by(&reading, bounded.clone()).verdict, Verdict::Pass);
    }
    for values in [[99.8, 46.0], [46.0, 99.8]] {
        let reading = with(values);
        let judgement = judged(&reading, None, Some(&baseline));
        assert_eq!((judgement.verdict, codes(&judgement)[0]), (Verdict::Fail, "WORSE_THAN_BASELINE"));
        assert_eq!(by(&reading, bounded.clone()).verdict, Verdict::Fail);
    }
}
