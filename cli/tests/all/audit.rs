//! `burnin audit` on logs of a real node, and on variants of them.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

/// The log of one node with two H100, driver 580.159.04.
fn log() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/evidence/h100-all-reduce.log");
    fs::read_to_string(path).unwrap()
}

/// The log with `name` as the node name.
fn of_node(log: &str, name: &str) -> String {
    log.replace("burnin evidence: vm ", &format!("burnin evidence: {name} "))
}

/// The log with the setting `new` before the job instead of `old`.
fn with(log: &str, old: &str, new: &str) -> String {
    let (old, new) = (format!("before settings {old}\n"), format!("before settings {new}\n"));
    let changed = log.replace(&old, &new);
    assert_ne!(changed, log, "{old}");
    changed
}

/// Exit code, text output and JSON output.
fn audit(logs: &[String]) -> (Option<i32>, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let run = |output: &str| {
        let mut burnin = Command::new(env!("CARGO_BIN_EXE_burnin"));
        burnin.current_dir(folder.path()).args(["audit", "--output", output]);
        for (at, log) in logs.iter().enumerate() {
            let name = format!("{at}.log");
            fs::write(folder.path().join(&name), log).unwrap();
            burnin.arg(name);
        }
        let output = burnin.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = run("human");
    let (_, json) = run("json");
    (code, text, serde_json::from_str(&json).unwrap())
}

/// Two equal nodes whose versions are above all minimums.
fn good() -> String {
    with(&log(), "nvidia=580.159.04", "nvidia=580.178.04")
}

#[test]
fn equal_nodes_above_the_minimums_pass() {
    let (code, text, json) = audit(&[of_node(&good(), "n1"), of_node(&good(), "n2")]);
    assert!(text.contains("are equal\n") && text.contains("no version is below the minimums of "), "{text}");
    assert_eq!(code, Some(0), "{text}");
    assert!(json.get("below_minimum").is_none() && json["minimums"].is_string(), "{json}");
}

#[test]
fn a_setting_difference_is_reported_before_a_version_below_a_minimum() {
    let old = with(&good(), "nvidia=580.178.04", "nvidia=580.159.04");
    let (code, text, json) = audit(&[of_node(&good(), "n1"), of_node(&old, "n2")]);
    assert_eq!(code, Some(1));
    let difference = text.find("!  nvidia").unwrap_or_else(|| panic!("{text}"));
    let below =
        text.find("below minimum: NVIDIA driver 580.159.04 on n2: ").unwrap_or_else(|| panic!("{text}"));
    assert!(difference < below, "{text}");
    let rows: Vec<_> = text[difference..].lines().take(2).map(str::trim_end).collect();
    assert!(rows[0].ends_with(" n2") && rows[1].ends_with(" n1"), "both nodes are named: {rows:?}");
    let below = &json["below_minimum"][0];
    assert_eq!((&below["minimum"], &below["date"]), (&"580.178.04".into(), &"2026-09-30".into()));
}

#[test]
fn the_most_frequent_value_has_the_number_of_its_nodes_and_the_others_are_named() {
    let other = with(&good(), "iommu=off", "iommu=on");
    let (code, text, _) = audit(&[of_node(&good(), "n1"), of_node(&other, "n2"), of_node(&good(), "n3")]);
    assert_eq!(code, Some(1));
    let rows: Vec<_> = text.lines().skip_while(|line| !line.contains("!  iommu")).take(2).collect();
    assert!(rows[0].trim_end().ends_with(" 2 of 3"), "{text}");
    assert!(rows[1].trim_end().ends_with(" n2"), "{text}");
}

#[test]
fn equal_nodes_below_a_minimum_fail() {
    let old = with(&good(), "nvidia=580.178.04", "nvidia=580.159.04");
    let (code, text, _) = audit(&[of_node(&old, "n1"), of_node(&old, "n2")]);
    assert!(
        text.contains(" on n1, n2: ") && text.contains("install 580.178.04 (2026-09-30, https://"),
        "{text}"
    );
    assert_eq!(code, Some(1));
}

#[test]
fn a_text_that_is_not_a_version_never_passes() {
    let odd = with(&good(), "nvidia=580.178.04", "nvidia=TempVersion");
    let (code, text, json) = audit(&[of_node(&odd, "n1"), of_node(&odd, "n2")]);
    assert!(text.contains("invalid version: NVIDIA driver \"TempVersion\" on n1, n2"), "{text}");
    assert_eq!((code, &json["unreadable_versions"][0]["text"]), (Some(2), &"TempVersion".into()));
}

#[test]
fn a_node_without_evidence_of_its_gpus_or_settings_is_named() {
    let without = |source: &str| -> String {
        let lines = good();
        let kept =
            lines.lines().filter(|line| !line.contains(&format!("burnin evidence: vm before {source} ")));
        kept.map(|line| line.to_owned() + "\n").collect()
    };
    let no_settings = "no settings in its evidence; run the check again with this version of Burnin\n";
    // Logs of a version that did not record settings.
    let nodes = [of_node(&without("settings"), "n1"), of_node(&without("settings"), "n2")];
    let (code, text, json) = audit(&nodes);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(&format!("n1: {no_settings}n2: {no_settings}")), "{text}");
    assert_eq!(json["without_settings"], serde_json::json!(["n1", "n2"]));
    // A cluster without GPUs, first with equal nodes, then with one different node.
    let no_gpu = without("gpus").replace("before settings nvidia=580.178.04\n", "before settings numa=1\n");
    let nodes = [of_node(&no_gpu, "n1"), of_node(&no_gpu, "n2")];
    let (code, text, json) = audit(&nodes);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no node lists a GPU; GPUs are not compared\n"), "{text}");
    assert_eq!(json["without_gpus"], serde_json::json!(["n1", "n2"]));
    let other = with(&no_gpu, "iommu=off", "iommu=on");
    let (code, text, _) = audit(&[of_node(&no_gpu, "n1"), of_node(&other, "n2")]);
    assert_eq!(code, Some(1), "{text}");
    // nvidia-smi failed on all nodes, then on one of them.
    let (code, text, _) = audit(&[of_node(&without("gpus"), "n1"), of_node(&without("gpus"), "n2")]);
    assert_eq!(code, Some(2), "{text}");
    let (code, text, json) = audit(&[of_node(&good(), "n1"), of_node(&without("gpus"), "n2")]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("\nn2: nvidia-smi listed no GPU; its GPUs are not compared\n"), "{text}");
    assert_eq!(json["without_gpus"], serde_json::json!(["n2"]));
}

#[test]
fn the_version_of_nccl_in_the_log_is_compared() {
    let old = good().replace("nccl-library=22809", "nccl-library=22807");
    let (code, text, _) = audit(&[of_node(&old, "n1"), of_node(&old, "n2")]);
    assert!(text.contains("below minimum: NCCL 2.28.7 on 0.log, 1.log: "), "{text}");
    assert_eq!(code, Some(1));
}

#[test]
fn settings_that_hinder_direct_transfers_are_reported() {
    let acs =
        with(&good(), "iommu=off", "iommu=on\nburnin evidence: vm before settings acs=0000:17:00.0=001d");
    let (code, text, json) = audit(&[of_node(&acs, "n1"), of_node(&acs, "n2")]);
    assert!(text.contains("recommendation: acs is 0000:17:00.0=001d on n1, n2: "), "{text}");
    assert_eq!((code, &json["recommendations"][0]["setting"]), (Some(0), &"acs".into()));
    let unreadable = acs.replace("acs=0000:17:00.0=001d", "acs=unreadable");
    let (_, text, _) = audit(&[of_node(&unreadable, "n1"), of_node(&unreadable, "n2")]);
    assert!(
        text.contains("missing: n1: access control services of PCIe bridges: only root can read"),
        "{text}"
    );
    assert!(!text.contains("recommendation: "), "{text}");
}
