//! Hardware evidence around the program of a check, on a cluster of local processes.
//!
//! `nvidia-smi` and `dmesg` are stand-ins that print output recorded on a machine with two H100 (`tests/data/evidence`).

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

/// Prints uncorrected errors of GPU 1 from the file `errors`, and its PCIe replay counter from the file `replays`.
const NVIDIA_SMI: &str = r#"#!/bin/bash
errors=$(cat "$FOLDER/errors" 2>/dev/null || echo 0)
case "$1" in
  # Responds like drivers before 570.
  --query-gpu=*gpu_recovery_action*)
    echo 'Field "gpu_recovery_action" is not a valid field to query.'
    exit 2 ;;
  --query-gpu=index,uuid,*)
    row='NVIDIA H100 80GB HBM3, 580.159.04, 96.00.DA.00.0C, Enabled, Enabled, Disabled, 700.00, 16'
    echo "0, GPU-cf8f9c59, 1752624007694, 00000000:00:06.0, $row, 0, 0, 0, 0, No, No, Completed"
    echo "1, GPU-9686fc0c, 1752624018157, 00000000:00:07.0, $row, $errors, 0, 0, 0, No, No, Completed" ;;
  --query-gpu=*)
    touch "$FOLDER/sampled"
    printf '%s\n' '0, 1980, 62, 699.12, 0x0000000000000004' '1, 1980, 56, 697.30, 0x0000000000000004'
    exec sleep 60 ;;
  pci)
    printf '%s\n' 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-cf8f9c59)' '    REPLAY_COUNTER:          0' \
      'GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-9686fc0c)' "    REPLAY_COUNTER:          $(cat "$FOLDER/replays" 2>/dev/null || echo 0)" ;;
  nvlink)
    printf '%s\n' 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-cf8f9c59)' 'GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-9686fc0c)' ;;
esac
"#;

const DMESG: &str = "#!/bin/bash\necho '[    0.000000] Linux version 6.18.44'\n";

fn write_program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn burnin(folder: &Path, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut burnin = Command::new(env!("CARGO_BIN_EXE_burnin"));
    burnin.env("PATH", path).arg("--data").arg(folder.join("data")).args(arguments);
    burnin.output().unwrap()
}

/// Exit code and document of a run whose check executes `program`.
fn run(folder: &Path, rule: &str, program: &str) -> (Option<i32>, Value) {
    run_with(folder, "", rule, program)
}

/// `fields`: further lines of the workflow.
fn run_with(folder: &Path, fields: &str, rule: &str, program: &str) -> (Option<i32>, Value) {
    let own = |text: &str| text.replace("$FOLDER", folder.to_str().unwrap());
    write_program(folder, "nvidia-smi", &own(NVIDIA_SMI));
    write_program(
        folder,
        "measure.sh",
        &format!("#!/bin/bash\n{}\necho 'gpu 0: 51.2 GB/s'\necho done\n", own(program)),
    );
    let criteria = format!(
        "name: copy\nevidence: {rule}\nmetrics: [{{metric: copy, unit: GB/s, subjects: 1, floor: 50}}]\n"
    );
    fs::write(folder.join("copy.yaml"), criteria).unwrap();
    let workflow = format!(
        "name: evidence\n{fields}cluster: {{rent: {{processes: {{nodes: 1}}}}}}\nchecks:\n  - name: copy\n    command: ['{}']\n    \
         criteria: copy.yaml\n    read: {{row: '^gpu (?P<gpu>\\d+): (?P<value>\\S+) GB/s$', end: '^done$', name: copy, unit: GB/s, \
         better: higher, scope: gpu}}\nlimits: {{job: 1m, logs: 1m, results: 1m, verdict: 1m, patience: 2s}}\n",
        folder.join("measure.sh").display()
    );
    fs::write(folder.join("evidence.yaml"), workflow).unwrap();
    let ran = burnin(folder, &["run", folder.join("evidence.yaml").to_str().unwrap()]);
    let shown = burnin(folder, &["show", "latest", "--check", "copy", "--output", "json"]);
    let shown = serde_json::from_slice(&shown.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ran.stderr)));
    (ran.status.code(), shown)
}

fn reason(shown: &Value, code: &str) -> String {
    let reasons = shown["reasons"].as_array().unwrap_or_else(|| panic!("{shown:#}"));
    let reason = reasons
        .iter()
        .find(|reason| reason["code"] == code)
        .unwrap_or_else(|| panic!("{code}: {reasons:#?}"));
    reason["text"].as_str().unwrap().to_owned()
}

#[test]
fn unchanged_hardware_is_stated_with_temperature_power_and_clock() {
    let folder = tempfile::tempdir().unwrap();
    write_program(folder.path(), "dmesg", DMESG);
    let (code, shown) =
        run(folder.path(), "required", "until [ -e \"$FOLDER/sampled\" ]; do sleep 0.1; done");
    let text = "no error counter rose and no link went down on 1 node and 2 GPUs; maximum during the job: 62 C, 699 W, 1980 MHz";
    assert_eq!(reason(&shown, "HARDWARE_UNCHANGED"), text);
    assert_eq!(code, Some(0));
}

#[test]
fn the_report_of_a_soak_shows_clock_temperature_and_power_next_to_the_metric() {
    let folder = tempfile::tempdir().unwrap();
    write_program(folder.path(), "dmesg", DMESG);
    let program = "until [ -e \"$FOLDER/sampled\" ]; do sleep 0.1; done; rm \"$FOLDER/sampled\"; sleep 1";
    let (code, _) = run_with(folder.path(), "soak: {for: 10s}\n", "judged", program);
    assert_eq!(code, Some(0));
    let html = burnin(folder.path(), &["show", "latest", "--check", "copy", "--output", "html"]);
    let html = String::from_utf8(html.stdout).unwrap();
    assert!(html.contains("clock, MHz") && html.contains("temperature, °C"), "{html}");
    let cells =
        ["51.20", "51.20", "1980", "62", "699"].map(|value| format!("<td class=\"number\">{value}</td>"));
    assert!(html.matches(&cells.concat()).count() >= 2, "each round has its row: {html}");
}

#[test]
fn an_error_counter_that_rises_fails_the_run_and_names_the_gpu() {
    let folder = tempfile::tempdir().unwrap();
    write_program(folder.path(), "dmesg", DMESG);
    let (code, shown) = run(folder.path(), "judged", "echo 3 >\"$FOLDER/errors\"");
    let text = reason(&shown, "HARDWARE_FINDING");
    assert!(text.contains("ECC_UNCORRECTABLE (hardware)"), "{text}");
    assert!(text.contains("ecc.errors.uncorrected.volatile.total rose from 0 to 3 during the job"), "{text}");
    assert_eq!(code, Some(1));
    let suspects = &shown["suspects"];
    assert_eq!(
        (suspects[0]["gpu"].as_u64(), suspects[0]["serial"].as_str()),
        (Some(1), Some("1752624018157"))
    );
    // The next run begins with these errors: the error count does not rise during that run.
    let (code, _) = run(folder.path(), "judged", "");
    assert_eq!(code, Some(0));
}

#[test]
fn pcie_replays_prevent_a_pass() {
    let folder = tempfile::tempdir().unwrap();
    write_program(folder.path(), "dmesg", DMESG);
    let (code, shown) = run(folder.path(), "judged", "echo 100 >\"$FOLDER/replays\"");
    assert!(shown["reasons"].to_string().contains("PCIE_REPLAYS"), "{shown:#}");
    assert_eq!(code, Some(2));
}

#[test]
fn missing_evidence_is_stated_and_never_passes_where_it_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        "#!/bin/bash\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2\nexit 1\n";
    write_program(folder.path(), "dmesg", refused);
    write_program(folder.path(), "journalctl", refused);
    for (rule, expected) in [("judged", 0), ("required", 2)] {
        let (code, shown) = run(folder.path(), rule, "");
        let text = reason(&shown, "EVIDENCE_MISSING");
        assert!(text.contains("kernel log before the job: dmesg: read kernel buffer failed"), "{text}");
        assert_eq!(code, Some(expected), "{rule}");
    }
}

#[test]
fn a_log_of_nccl_tests_has_the_same_table_with_and_without_evidence() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let log = fs::read_to_string(logs.join("tests/data/evidence/h100-all-reduce.log")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let without: String =
        log.split_inclusive('\n').filter(|line| !line.starts_with("burnin evidence: ")).collect();
    assert_ne!(without, log);
    let criteria = logs.join("workflows/criteria/correct-data.yaml");
    let judged = |name: &str, text: &str| -> Value {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let arguments =
            ["judge", "--criteria", criteria.to_str().unwrap(), "--output", "json", path.to_str().unwrap()];
        let output = burnin(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (with, without) = (judged("with.log", &log), judged("without.log", &without));
    assert_eq!(with["logs"][0]["measurements"], without["logs"][0]["measurements"]);
    assert!(with["logs"][0]["measurements"].as_array().is_some_and(|rows| rows.len() == 20));
    assert!(reason(&with, "HARDWARE_UNCHANGED").contains("1 node and 2 GPUs"));
    // A log of another launcher has no evidence, and its verdict does not mention any.
    let codes = without["reasons"].to_string();
    assert!(!codes.contains("EVIDENCE") && !codes.contains("HARDWARE"), "{codes}");
}
