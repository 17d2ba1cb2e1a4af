//! Real logs of a host with two H100, on one of which another program ran. The first run with a busy GPU names that GPU by three
//! independent metrics, and healthy runs name no GPU.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// Each check prints a recorded log: name of the check, program that wrote the log, pattern of its values, metric
/// and unit.
const CHECKS: [(&str, &str, &str, &str, &str); 3] = [
    ("memory", "node_perf", r"memory (?P<value>\S+) GB/s", "memory.copy", "GB/s"),
    ("product", "node_perf", r"product (?P<value>\S+) TFLOP/s", "product.float", "TFLOP/s"),
    ("gemm", "bf16_gemm", r"(?P<dtype>bf16) (?P<value>\S+) TFLOP/s", "gemm.throughput", "TFLOP/s"),
];

fn logs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/h100-pair")
}

fn burnin(folder: &Path, arguments: &[&str]) -> Output {
    let data = folder.join("data");
    let command = Command::new(env!("CARGO_BIN_EXE_burnin")).arg("--data").arg(data).args(arguments).output();
    command.unwrap()
}

fn write_workflow(folder: &Path) {
    let mut workflow = "name: pair\ncluster: {rent: {processes: {nodes: 1}}}\nchecks:\n".to_owned();
    for (check, program, value, metric, unit) in CHECKS {
        let row = format!(r"^gpu (?P<gpu>\d+) \((?P<device>[^)]*)\): {value}$");
        workflow += &format!(
            "  - name: {check}\n    command: [cat, '{}']\n    criteria: {check}.yaml\n    read: {{begin: '^{program} \\d+$', \
             row: '{row}', end: '^{program}: done$', name: {metric}, unit: {unit}, better: higher, scope: gpu}}\n",
            folder.join(format!("{check}.log")).display()
        );
        let criterion =
            format!("{{metric: {metric}, unit: {unit}, subjects: 2, device_reference: {{within: 0.1}}}}");
        fs::write(folder.join(format!("{check}.yaml")), format!("name: {check}\nmetrics: [{criterion}]\n"))
            .unwrap();
    }
    workflow += "limits: {job: 1m, logs: 1m, results: 1m, verdict: 1m, patience: 2s}\n";
    fs::write(folder.join("pair.yaml"), workflow).unwrap();
}

/// The verdict of a run of the recorded logs, and for each check the suspected GPUs.
fn judged(folder: &Path, recorded: &str) -> (Option<i32>, Vec<(&'static str, Vec<u64>)>) {
    for (check, ..) in CHECKS {
        let log = logs().join(format!("{recorded}-{check}.log"));
        fs::copy(log, folder.join(format!("{check}.log"))).unwrap();
    }
    let workflow = folder.join("pair.yaml");
    let ran = burnin(folder, &["run", workflow.to_str().unwrap()]);
    let suspects = |check| {
        let shown = burnin(folder, &["show", "latest", "--check", check, "--output", "json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("the JSON document of the run");
        let suspects = shown["suspects"].as_array().cloned().unwrap_or_default();
        suspects.iter().filter_map(|suspect| suspect["gpu"].as_u64()).collect()
    };
    (ran.status.code(), CHECKS.map(|(check, ..)| (check, suspects(check))).to_vec())
}

#[test]
fn the_first_run_with_a_busy_gpu_names_it_by_three_metrics_and_healthy_runs_name_none() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    write_workflow(folder.path());
    let runs = [
        ("healthy-1", false),
        ("busy-1", true),
        ("healthy-2", false),
        ("busy-2", true),
        ("busy-3", true),
        ("healthy-3", false),
        ("healthy-4", false),
        ("healthy-5", false),
        ("healthy-6", false),
    ];
    for (recorded, busy) in runs {
        let (exit, suspects) = judged(folder.path(), recorded);
        let expected: &[u64] = if busy { &[1] } else { &[] };
        assert_eq!(exit, Some(i32::from(busy)), "{recorded}: {suspects:?}");
        for (check, gpus) in suspects {
            assert_eq!(gpus, expected, "{recorded}: {check}");
        }
    }
}

#[test]
fn a_baseline_of_healthy_collectives_passes_a_healthy_run_and_fails_busy_ones() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let baseline = folder.path().join("baseline.json");
    let log = |recorded: &str| logs().join(format!("{recorded}-all_reduce.log")).display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| log(&format!("healthy-{run}"))).collect();
    let mut arguments = vec!["baseline", "--save", baseline.to_str().unwrap()];
    arguments.extend(healthy.iter().map(String::as_str));
    let learned = burnin(folder.path(), &arguments);
    assert_eq!(learned.status.code(), Some(0), "{}", String::from_utf8_lossy(&learned.stderr));
    for (recorded, exit) in [("healthy-6", 0), ("busy-1", 1), ("busy-2", 1), ("busy-3", 1)] {
        let arguments = ["judge", "--baseline", baseline.to_str().unwrap(), &log(recorded)];
        let judged = burnin(folder.path(), &arguments);
        let text = String::from_utf8_lossy(&judged.stdout).into_owned();
        assert_eq!(judged.status.code(), Some(exit), "{recorded}: {text}");
        // The plateau is 329 GB/s, and less than half of it while the GPU is busy.
        assert_eq!(
            exit == 1,
            text.contains("below the baseline of 329 GB/s; every size is affected"),
            "{text}"
        );
    }
}

/// A baseline of healthy logs of nvbandwidth names the GPU that another program keeps busy.
#[test]
fn a_baseline_of_nvbandwidth_logs_names_the_busy_gpu() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/verdict/tests/samples");
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline.json");
    let burnin = |arguments: &[&str], logs: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command
            .args(arguments)
            .args(["--read", "nvbandwidth"])
            .args(logs.iter().map(|log| samples.join(log)));
        command.output().unwrap()
    };
    let file = baseline.to_str().unwrap();
    let learned = burnin(&["baseline", "--save", file], &["h100-1.json", "h100-2.json"]);
    assert_eq!(learned.status.code(), Some(0), "{}", String::from_utf8_lossy(&learned.stderr));
    let healthy = burnin(&["judge", "--baseline", file], &["h100-3.json"]);
    assert_eq!(healthy.status.code(), Some(0), "{}", String::from_utf8_lossy(&healthy.stdout));
    let busy = burnin(&["judge", "--baseline", file, "--output", "json"], &["h100-busy.json"]);
    assert_eq!(busy.status.code(), Some(1), "{}", String::from_utf8_lossy(&busy.stdout));
    let verdict: serde_json::Value = serde_json::from_slice(&busy.stdout).unwrap();
    assert_eq!(verdict["suspects"][0]["gpu"], 0, "{verdict}");
}
