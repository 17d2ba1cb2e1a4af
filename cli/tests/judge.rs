//! `burnin baseline` and `judge`, as scripts use them.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn h200(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/nccl/h200").join(name).display().to_string()
}

fn burnin(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_burnin")).args(arguments).output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_baseline_tells_healthy_from_degraded() {
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline.json").display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| h200(&format!("healthy-{run}.log"))).collect();
    let mut learn: Vec<&str> = vec!["baseline", "--save", &baseline];
    learn.extend(healthy.iter().map(String::as_str));
    let learned = burnin(&learn);
    assert_eq!(learned.status.code(), Some(0));
    assert!(String::from_utf8(learned.stdout).unwrap().contains("22 points of 5 runs"));

    let judge = |log: &str| burnin(&["judge", "--baseline", &baseline, "--output", "json", log]);
    let passed = judge(&healthy[2]);
    assert_eq!((passed.status.code(), &document(&passed)["verdict"]), (Some(0), &"pass".into()));
    let failed = judge(&h200("degraded-max-nchannels-4.log"));
    let verdict = document(&failed);
    assert_eq!((failed.status.code(), &verdict["schema"]), (Some(1), &"burnin/verdict/v1".into()));
    assert_eq!(
        (&verdict["verdict"], &verdict["reasons"][0]["code"]),
        (&"fail".into(), &"BELOW_BASELINE".into())
    );
    let both = burnin(&["judge", "--baseline", &baseline, &healthy[0], &h200("degraded-proto-ll.log")]);
    assert_eq!(both.status.code(), Some(1), "the gravest counts");
    let nothing = burnin(&["judge", "--baseline", &baseline, &baseline]);
    assert_eq!(nothing.status.code(), Some(2), "a log without a table is no pass");
}

#[test]
fn a_cause_is_named_with_the_lines_that_prove_it() {
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline.json").display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| h200(&format!("healthy-{run}.log"))).collect();
    let mut learn: Vec<&str> = vec!["baseline", "--save", &baseline];
    learn.extend(healthy.iter().map(String::as_str));
    assert_eq!(burnin(&learn).status.code(), Some(0));
    let log = h200("degraded-socket-only.log");
    let verdict = document(&burnin(&["judge", "--baseline", &baseline, "--output", "json", &log]));
    let causes: Vec<_> = verdict["diagnoses"].as_array().unwrap().iter().map(|it| &it["cause"]).collect();
    assert_eq!(causes, ["socket_fallback", "overridden_setting"], "{verdict:#}");
    let text = std::fs::read_to_string(&log).unwrap();
    for line in
        verdict["diagnoses"].as_array().unwrap().iter().flat_map(|it| it["evidence"].as_array().unwrap())
    {
        let number = line["line"].as_u64().unwrap() as usize;
        assert_eq!(text.lines().nth(number - 1).unwrap().trim(), line["text"].as_str().unwrap());
    }
}

#[test]
fn one_rank_measures_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let log = h200("../ours/226-own-one-gpu.log");
    let criteria = folder.path().join("data.yaml").display().to_string();
    std::fs::write(&criteria, "name: data\nsource: only the data\nhistory: false\n").unwrap();
    let judge = |criteria: &str| burnin(&["judge", "--criteria", criteria, "--output", "json", &log]);
    let codes = |verdict: &Value| -> Vec<String> {
        let reasons = verdict["reasons"].as_array().unwrap();
        reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect()
    };
    let passed = judge(&criteria);
    assert_eq!(
        (passed.status.code(), codes(&document(&passed))),
        (Some(0), vec!["SANE".into(), "ONE_RANK".into()])
    );
    let floored = judge(&h200("../../../../workflows/criteria/this-machine.yaml"));
    assert_eq!(
        (floored.status.code(), codes(&document(&floored))),
        (Some(2), vec!["ONE_RANK".into(), "SANE".into()])
    );
    let junit = burnin(&[
        "judge",
        "--criteria",
        &h200("../../../../workflows/criteria/this-machine.yaml"),
        "--output",
        "junit",
        &log,
    ]);
    let junit = String::from_utf8(junit.stdout).unwrap();
    assert!(junit.contains("type=\"ONE_RANK\"") && !junit.contains("<failure"), "{junit}");

    let save = folder.path().join("baseline.json").display().to_string();
    let refused = burnin(&["baseline", "--save", &save, &log]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("226-own-one-gpu.log") && said.contains("one rank measures no link"), "{said}");
    assert!(!Path::new(&save).exists());
}

#[test]
fn wrong_usage_is_told() {
    let log = h200("healthy-1.log");
    for wrong in [
        &["judge", log.as_str()][..],
        &["judge", "--baseline", "no-such-file", &log],
        &["judge", "--baseline", &log, &log],
        &["judge", "--criteria", &log, &log],
        &["baseline", &log],
        &["baseline", "--save", "/no/such/folder/b.json", &log],
        &["baseline", "--save", "x", &log, &h200("matrix-healthy-z0.json")],
    ] {
        let output = burnin(wrong);
        assert_eq!(output.status.code(), Some(64), "{wrong:?}: {}", String::from_utf8_lossy(&output.stdout));
        assert!(!output.stderr.is_empty());
    }
    assert!(!Path::new("x").exists());
}

#[test]
fn logs_made_to_fill_the_memory_are_refused_together() {
    let folder = tempfile::tempdir().unwrap();
    let header = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    let row = "8 2 float sum -1 46.48 22.56 33.84 0 44.46 23.58 35.38 0\n";
    let logs: Vec<_> = (0..10)
        .map(|number| {
            let path = folder.path().join(format!("{number}.log"));
            std::fs::write(&path, header.to_owned() + &row.repeat(20_000)).unwrap();
            path.display().to_string()
        })
        .collect();
    let save = folder.path().join("baseline.json").display().to_string();
    let judged = h200("../../../../workflows/criteria/this-machine.yaml");
    for command in [vec!["judge", "--criteria", &judged], vec!["baseline", "--save", &save]] {
        let all: Vec<&str> = command.into_iter().chain(logs.iter().map(String::as_str)).collect();
        let mut child = Command::new(env!("CARGO_BIN_EXE_burnin"));
        let mut child = child.args(&all).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut most = 0;
        let status = loop {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line =
                status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
            most = most.max(line.map_or(0, |kib| kib.parse::<u64>().unwrap()));
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => std::thread::yield_now(),
            }
        };
        let mut said = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
        assert_eq!(status.code(), Some(64), "{said}");
        assert!(
            said.contains("2.log: with its 20000 rows") && said.contains("fewer logs at a time"),
            "{said}"
        );
        assert!(most > 0 && most <= 64 * 1024, "{most} KiB");
    }
    assert!(!Path::new(&save).exists());
}
