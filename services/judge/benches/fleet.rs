//! Time to read and judge the logs of a large fleet on one core: `cargo bench -p judge`.
//!
//! 2,048 nodes of 8 GPUs with 24 metrics each, 393,216 values, as JSON of nvbandwidth, one log for each node. Each metric has a floor and
//! is compared with the peers. The fastest of several passes is reported, because other load only makes a pass slower.
//!
//! Most tools for such logs are written in Python. For comparison the bench also measures two parts of their work on
//! the same documents: Python's `json.loads`, and the comparison of each value with the median of its peers.

use std::{
    hint::black_box,
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use judge::{CombinedLogs, LogReader};
use model::{
    CommandLine, Criteria, Every, MetricCriterion, OutputFormat, Peers, Program, SplitMix64, Verdict,
};
use serde_json::json;
use verdict::{RunEvidence, Standard};

const NODES: usize = 2_048;
const GPUS: usize = 8;
const METRICS: usize = 24;
const PASSES: usize = 5;

fn main() {
    let mut random = SplitMix64(1);
    let healthy: Vec<_> = (0..NODES).map(|node| log(node, &mut random, None)).collect();
    let mut degraded = healthy.clone();
    degraded[1_234] = log(1_234, &mut random, Some(5));
    let bytes: usize = healthy.iter().map(String::len).sum();
    println!("{NODES} logs, {:.1} MB, {} values", bytes as f64 / 1e6, NODES * GPUS * METRICS);
    for (name, logs, expected) in
        [("healthy", &healthy, Verdict::Pass), ("one slow GPU", &degraded, Verdict::Fail)]
    {
        let (mut read, mut judged) = (Duration::MAX, Duration::MAX);
        for _ in 0..PASSES {
            let start = Instant::now();
            let combined = combined(logs);
            let reading_time = start.elapsed();
            let judgement = verdict::judge(
                &RunEvidence::of(&combined.reading, &combined.clues),
                &Standard { criteria: Some(&criteria()), ..Standard::default() },
            );
            let total = start.elapsed();
            if total < judged {
                (read, judged) = (reading_time, total);
            }
            assert_eq!(judgement.verdict, expected, "{:?}", judgement.reasons);
            if expected == Verdict::Fail {
                let suspect = &judgement.suspects[0];
                assert_eq!((suspect.host.as_deref(), suspect.gpu), (Some("n1234"), Some(5)));
            }
            black_box(judgement);
        }
        println!(
            "{name:14} read {:.3} s, judged {:.3} s, total {:.3} s",
            read.as_secs_f64(),
            (judged - read).as_secs_f64(),
            judged.as_secs_f64()
        );
    }
    println!("{:14} {}", "python3", python(&degraded));
}

/// The minimum work of a grader in Python. Prints its duration.
const PYTHON: &str = r#"
import json, statistics, sys, time
documents = [text.split("\n", 1)[1] for text in sys.stdin.read().split("burnin node: ")[1:]]
best = None
for _ in range(3):
    start = time.perf_counter()
    values, bad = {}, 0
    for document in documents:
        for case in json.loads(document)["nvbandwidth"]["testcases"]:
            values.setdefault(case["name"], []).extend(float(value) for value in case["bandwidth_matrix"][0])
    read = time.perf_counter() - start
    for measured in values.values():
        median = statistics.median(measured)
        bad += sum(value < 0.97 * median for value in measured)
    total = time.perf_counter() - start
    best = min(best or (total, read), (total, read))
print(f"read {best[1]:.3f} s, compared {best[0] - best[1]:.3f} s, total {best[0]:.3f} s, {bad} values are low")
"#;

/// Runs [`PYTHON`] on the logs; returns a message if Python is not installed.
fn python(logs: &[String]) -> String {
    let started =
        Command::new("python3").args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = started else { return "is not installed on this host".to_owned() };
    let input = python.stdin.take().map(|mut input| input.write_all(logs.concat().as_bytes()));
    match (input, python.wait_with_output()) {
        (Some(Ok(())), Ok(output)) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "cannot be run on this host".to_owned(),
    }
}

fn combined(logs: &[String]) -> CombinedLogs {
    let program = Program::Command(CommandLine {
        argv: vec!["nvbandwidth".to_owned()],
        every: Every::Node,
        rounds: None,
        image: None,
        read: OutputFormat::Format("nvbandwidth".to_owned()),
    });
    let reader = LogReader::of(&program).expect("a known format");
    let mut combined = CombinedLogs::of(&reader);
    for (index, log) in logs.iter().enumerate() {
        let (mut reading, clues) = reader.read_with_clues(log.as_bytes()).expect("a slice cannot fail");
        reader.complete(&mut reading, &clues);
        combined.add(&reader, (&format!("node-{index}.log"), String::new()), reading, clues);
    }
    combined
}

fn name(metric: usize) -> String {
    format!("host_to_device_memcpy_{metric}")
}

fn criteria() -> Criteria {
    let metrics = (0..METRICS).map(|metric| MetricCriterion {
        metric: format!("nvbandwidth.{}", name(metric)),
        unit: Some("GB/s".to_owned()),
        subjects: Some((NODES * GPUS) as u32),
        floor: Some(30.0),
        peers: Some(Peers::default()),
        ..MetricCriterion::default()
    });
    Criteria { metrics: metrics.collect(), ..Criteria::named("fleet") }
}

/// The log of one node; one GPU may be 10 % slower.
fn log(node: usize, random: &mut SplitMix64, slow: Option<usize>) -> String {
    let gpus: Vec<_> = (0..GPUS)
        .map(|gpu| format!("{gpu}: NVIDIA H100 80GB HBM3 (00000000:00:{gpu:02x}): (n{node:04})"))
        .collect();
    let test = |metric| {
        let values: Vec<f64> = (0..GPUS)
            .map(|gpu| {
                let noise = 1.0 + 0.002 * (random.part() - 0.5);
                let speed = 51.0 * noise * if slow == Some(gpu) { 0.9 } else { 1.0 };
                (speed * 1e4).round() / 1e4
            })
            .collect();
        json!({
            "average": values.iter().sum::<f64>() / GPUS as f64,
            "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix": [values.iter().map(|value| format!("{value}")).collect::<Vec<_>>()],
            "name": name(metric),
            "status": "Passed",
            "sum": values.iter().sum::<f64>(),
        })
    };
    let testcases: Vec<_> = (0..METRICS).map(test).collect();
    let document = json!({"nvbandwidth": {
        "CUDA Runtime Version": 13000, "Driver Version": "580.95.05", "GPU Device list": gpus,
        "git_version": "v0.8", "testcases": testcases,
    }});
    format!("burnin node: n{node:04}\n{document:#}\n")
}
