//! `burnin locate`, on real measurements.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

fn h200(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/nccl/h200").join(name).display().to_string()
}

fn locate(arguments: &[String]) -> (Output, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_burnin"))
        .args(["locate", "--output", "json"])
        .args(arguments)
        .output()
        .unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, document)
}

#[test]
fn the_slow_rank_of_a_run_is_located() {
    let slow = h200("matrix-rank2-slow-z3.json");
    let reference = ["--reference".to_owned(), h200("matrix-healthy-z3.json")];
    for arguments in [vec![slow.clone()], [&reference[..], std::slice::from_ref(&slow)].concat()] {
        let (output, located) = locate(&arguments);
        assert_eq!((output.status.code(), &located["schema"]), (Some(1), &"burnin/locate/v1".into()));
        assert_eq!(located["suspects"].as_array().unwrap().len(), 1, "{located}");
        assert_eq!(located["suspects"][0]["rank"], 2, "{located}");
    }
}

#[test]
fn a_healthy_run_has_no_suspect() {
    for name in ["matrix-healthy-z3.json", "matrix-healthy-z0.json"] {
        let (output, located) = locate(&[h200(name)]);
        assert_eq!((output.status.code(), &located["healthy"]), (Some(0), &true.into()), "{name}: {located}");
    }
}

#[test]
fn the_bad_gpu_of_pair_tests_is_located() {
    let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    let healthy: Vec<_> = pairs.iter().map(|(a, b)| h200(&format!("pair-healthy-{a},{b}.log"))).collect();
    let (output, located) = locate(&healthy);
    assert_eq!((output.status.code(), &located["healthy"]), (Some(0), &true.into()), "{located}");

    // Simulates a slow GPU: the pairs of GPU 3 have less than half of their bandwidth.
    let folder = tempfile::tempdir().unwrap();
    let mut slow = Vec::new();
    for ((a, b), log) in pairs.iter().zip(&healthy) {
        let text = std::fs::read_to_string(log).unwrap();
        let text = if *b == 3 { slowed(&text) } else { text };
        let path = folder.path().join(format!("{a},{b}.log"));
        std::fs::write(&path, text).unwrap();
        slow.push(path.display().to_string());
    }
    let (output, located) = locate(&slow);
    assert_eq!(output.status.code(), Some(1), "{located}");
    let suspects = located["suspects"].as_array().unwrap();
    assert_eq!((suspects.len(), &suspects[0]["bus_id"]), (1, &"0000:00:09".into()), "{located}");
}

/// Multiplies the time of every row by 2.5.
fn slowed(log: &str) -> String {
    let slower = |line: &str| {
        let mut fields: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        for (index, slower) in [(5, true), (6, false), (7, false), (9, true), (10, false), (11, false)] {
            let value: f64 = fields[index].parse().unwrap();
            fields[index] = format!("{:.2}", if slower { value * 2.5 } else { value / 2.5 });
        }
        fields.join(" ")
    };
    log.lines()
        .map(|line| {
            if line.trim_start().starts_with('#') || line.trim().is_empty() {
                line.to_owned()
            } else {
                slower(line)
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
        + "\n"
}

/// A log of `ib_write_lat` between two nodes. The log does not name the nodes.
fn write_lat(average: f64) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/measure/tests/samples/perftest/26.4-write-lat.json");
    let text = std::fs::read_to_string(path).unwrap();
    text.replace(r#""t_avg": 2.03"#, &format!(r#""t_avg": {average}"#))
}

#[test]
fn the_bad_node_of_pairs_of_any_program_is_located_in_the_direction_of_its_metric() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    // The files are named after the nodes of each pair. The metric is a latency: a higher value is worse.
    let pairs = [("n0", "n1"), ("n0", "n2"), ("n0", "n3"), ("n1", "n2"), ("n1", "n3"), ("n2", "n3")];
    let logs: Vec<_> = pairs
        .iter()
        .map(|(a, b)| file(&format!("{a},{b}.json"), &write_lat(if *b == "n3" { 3.5 } else { 2.03 })))
        .collect();
    let (output, _) = locate(&logs);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("choose with --metric") && error.contains("perftest.write.latency.avg"),
        "{error}"
    );
    let metric = |name: &str| ["--metric".to_owned(), name.to_owned()];
    let (output, located) = locate(&[&metric("perftest.write.latency.avg")[..], &logs].concat());
    assert_eq!(output.status.code(), Some(1), "{located}");
    assert_eq!(
        (located["suspects"].as_array().unwrap().len(), &located["suspects"][0]["host"]),
        (1, &"n3".into())
    );
    // A healthy metric of the same logs: no node is suspected.
    let (output, located) = locate(&[&metric("perftest.write.latency.min")[..], &logs].concat());
    assert_eq!((output.status.code(), &located["healthy"]), (Some(0), &true.into()), "{located}");
    let (output, _) = locate(&[&metric("hpl.time")[..], &logs].concat());
    assert!(String::from_utf8(output.stderr).unwrap().contains("`hpl.time` is not a metric of pairs"));
    let unnamed = file("one.json", &write_lat(2.0));
    let (output, _) = locate(&[unnamed]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("name the file after its two nodes"));

    // A declaration reads the log of a check with `every: pair`.
    let rules = file(
        "rules.yaml",
        "row: '^bw=(?P<value>\\S+) GB/s$'\nend: '^done$'\nname: bw\nunit: GB/s\nbetter: higher\nscope: world\n",
    );
    let mut log = "burnin pairs: n0 n1 n2 n3\n".to_owned();
    // Pairs of four nodes, in three rounds.
    let pairs = [("n0", "n3"), ("n1", "n2"), ("n0", "n2"), ("n3", "n1"), ("n0", "n1"), ("n2", "n3")];
    for (server, client) in pairs {
        let value = if [server, client].contains(&"n1") { 7 } else { 11 };
        log += &format!("burnin pair: {client} to {server}\nbw={value} GB/s\ndone\n\nburnin pair ended: 0\n");
    }
    let (output, located) = locate(&["--read".to_owned(), rules.clone(), file("pairs.log", &log)]);
    assert_eq!((output.status.code(), &located["suspects"][0]["host"]), (Some(1), &"n1".into()), "{located}");
    let (output, _) = locate(&["--read".to_owned(), rules, file("cut.log", &log[..log.len() - 30])]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("cut.log: is incomplete"), "{error}");
}

#[test]
fn copies_between_gpus_locate_the_bad_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let copies = |slow: Option<usize>| {
        let row = |from: usize| {
            let value = |to: usize| match (from == to, slow.is_some_and(|gpu| [from, to].contains(&gpu))) {
                (true, _) => "N/A".to_owned(),
                (_, true) => "110.50".to_owned(),
                (_, false) => "276.25".to_owned(),
            };
            (0..4).map(value).collect::<Vec<_>>()
        };
        let rows: Vec<_> = (0..4).map(row).collect();
        let sum: f64 = rows.iter().flatten().filter_map(|value| value.parse::<f64>().ok()).sum();
        let rows: String =
            rows.iter().enumerate().map(|(at, row)| format!(" {at} {}\n", row.join(" "))).collect();
        let name = "device_to_device_memcpy_read_ce";
        let text = format!(
            "nvbandwidth Version: v0.8\nRunning {name}.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n  0 1 2 3\n{rows}\n\
             SUM {name} {sum:.2}\n\nNOTE: The reported results may not reflect the full capabilities of the platform.\n"
        );
        let path = folder.path().join("copies.txt");
        std::fs::write(&path, text).unwrap();
        locate(&[path.display().to_string()])
    };
    let (output, located) = copies(Some(2));
    assert_eq!((output.status.code(), &located["suspects"][0]["gpu"]), (Some(1), &2.into()), "{located}");
    assert_eq!(copies(None).0.status.code(), Some(0));
}

#[test]
fn logs_without_pairs_or_process_times_are_refused() {
    let (output, _) = locate(&[h200("healthy-1.log")]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8(output.stderr).unwrap().contains("healthy-1.log"));
}

/// Runs `burnin locate --groups` on a file with the content `text`.
fn groups(text: &str, more: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tested.json");
    std::fs::write(&path, text).unwrap();
    let file = ["--groups".to_owned(), path.display().to_string()];
    locate(&[&file[..], &more.iter().map(|&one| one.to_owned()).collect::<Vec<_>>()].concat())
}

fn nodes(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("node-{at:02}")).collect()
}

/// Executes the tests that the search requests, until it requests no more. The argument of `outcome`, which
/// returns a test's result, states whether the group contains the bad node. Returns the last output, its JSON, and all tests.
fn searched(
    members: &[String],
    reference: Option<&Value>,
    bad: &str,
    outcome: impl Fn(bool) -> Value,
) -> (Output, Value, Vec<Value>) {
    let mut tests: Vec<Value> = Vec::new();
    loop {
        let file = json!({"members": members, "reference": reference, "tests": tests}).to_string();
        let (output, located) = groups(&file, &[]);
        let Some(next) = located["next"].as_array().cloned() else { return (output, located, tests) };
        assert_eq!(output.status.code(), Some(2), "an unfinished search is undecided: {located}");
        let mut test = outcome(next.contains(&bad.into()));
        test["members"] = next.into();
        tests.push(test);
        assert!(tests.len() <= 20, "{located}");
    }
}

#[test]
fn group_tests_are_planned_until_the_bad_node_is_known() {
    let members = nodes(40);
    let (output, located, mut tests) =
        searched(&members, None, "node-07", |degraded| json!({"degraded": degraded}));
    assert_eq!((output.status.code(), &located["search"]["sure"]), (Some(1), &true.into()), "{located}");
    assert_eq!(located["suspects"][0]["host"], "node-07");
    assert!(located["search"]["confidence"].as_f64().unwrap() > 0.99, "{located}");

    // With half of the tests the search ends without certainty, and reports this.
    tests.truncate(tests.len() / 2);
    let file = json!({ "members": members, "tests": tests }).to_string();
    let limit = tests.len().to_string();
    let (output, located) = groups(&file, &["--tests", &limit]);
    assert_eq!((output.status.code(), &located["next"]), (Some(2), &Value::Null), "{located}");
    assert_eq!(located["search"]["sure"], false);
    assert!(
        located["undecided"].as_str().unwrap().contains("maximum number of tests is reached"),
        "{located}"
    );
}

#[test]
fn values_of_group_tests_are_compared_with_the_reference() {
    for (reference, good, bad) in [
        (json!({"value": 390.0}), 380.0, 340.0),
        (json!({"value": 20.0, "better": "lower", "within": 0.05}), 20.5, 22.0),
    ] {
        let value = |degraded| json!({"value": if degraded { bad } else { good }});
        let (_, located, _) = searched(&nodes(16), Some(&reference), "node-11", value);
        assert_eq!(located["suspects"][0]["host"], "node-11", "{located}");
    }
}

/// Logs of any program are the outcomes of group tests: HPCG, IOR's bandwidth, a latency, and the collectives of nccl-tests.
#[test]
fn logs_of_group_tests_are_read_and_judged_by_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        json!({ "log": path })
    };
    let hpcg = |rating: f64| {
        format!(
            "HPCG-Benchmark\nversion=3.1\nFinal Summary::HPCG result is VALID with a GFLOP/s rating of={rating}\n"
        )
    };
    let osu = |time: f64| {
        format!(
            "# OSU MPI Allgather Latency Test v7.4\n# Size       Avg Latency(us)\n8    {time:.2}\n16    {time:.2}\n-- end of osu --\n"
        )
    };
    let reference = json!({"value": 500.0, "unit": "GFLOP/s"});
    let value = |bad| log(if bad { "bad.txt" } else { "good.txt" }, hpcg(if bad { 410.5 } else { 497.25 }));
    let (_, located, tests) = searched(&nodes(16), Some(&reference), "node-11", value);
    assert_eq!(located["suspects"][0]["host"], "node-11", "{located}");
    // The metric determines the direction: a lower latency is better.
    let reference = json!({"value": 20.0, "metric": "osu.allgather_latency.latency", "unit": "us"});
    let value = |bad| log(if bad { "high.txt" } else { "low.txt" }, osu(if bad { 31.0 } else { 20.5 }));
    let (_, located, _) = searched(&nodes(16), Some(&reference), "node-02", value);
    assert_eq!(located["suspects"][0]["host"], "node-02", "{located}");
    // A test is degraded if its program fails, or if the program itself reports its result as invalid.
    let reference = json!({"value": 500.0, "unit": "GFLOP/s"});
    let invalid = "HPCG-Benchmark\nFinal Summary::HPCG result is=INVALID.\n";
    let value =
        |bad| log(if bad { "x.txt" } else { "y.txt" }, if bad { invalid.to_owned() } else { hpcg(499.0) });
    let (_, located, _) = searched(&nodes(16), Some(&reference), "node-05", value);
    assert_eq!(located["suspects"][0]["host"], "node-05", "{located}");
    // Logs that do not show the state of the group are refused.
    let refused = |test: &Value, reference: &Value, expected: &str| {
        let mut test = test.clone();
        test["members"] = json!(["node-00", "node-01"]);
        let file = json!({"members": nodes(4), "reference": reference, "tests": [test]}).to_string();
        let (output, _) = groups(&file, &[]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
    };
    let good = &tests[0];
    refused(
        &log("cut.txt", "HPCG-Benchmark\nversion=3.1\n".to_owned()),
        &reference,
        "is incomplete; repeat the test",
    );
    refused(&log("empty.txt", String::new()), &reference, "has no measurement");
    refused(good, &Value::Null, "without `reference` in the file");
    refused(good, &json!({"value": 9.0, "metric": "hpl.throughput"}), "has no metric `hpl.throughput`");
    refused(
        good,
        &json!({"value": 9.0, "unit": "TFLOP/s"}),
        "is in `GFLOP/s`, and `reference.unit` is `TFLOP/s`",
    );
    refused(good, &json!({"value": 9.0}), "is in `GFLOP/s`; state the unit of the reference");
    let mut both = good.clone();
    both["degraded"] = true.into();
    refused(&both, &reference, "expected one of `degraded`, `value` and `log`");
}

/// The log of a collective names the nodes of the group itself.
#[test]
fn the_log_of_a_collective_names_the_members_of_its_group_test() {
    let text = std::fs::read_to_string(h200("healthy-1.log")).unwrap();
    let host = text.lines().find(|line| line.contains("Rank  0")).unwrap();
    let host = host.split(" on ").nth(1).unwrap().split_whitespace().next().unwrap();
    let file = |value: f64| {
        let tests = json!([{"log": h200("healthy-1.log")}]);
        json!({"members": [host, "other"], "reference": {"value": value}, "tests": tests}).to_string()
    };
    let (_, good) = groups(&file(0.001), &[]);
    let (_, bad) = groups(&file(1e6), &[]);
    assert_eq!((&good["search"]["tests"], &bad["search"]["tests"]), (&1.into(), &1.into()));
    assert_ne!(good["search"]["confidence"], bad["search"]["confidence"], "{good} {bad}");
    let (output, _) = groups(&file(0.001).replace(host, "another"), &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("tests[0].members") && error.contains("is not in `members`"), "{error}");
}

#[test]
fn each_invalid_group_test_file_is_reported_with_one_error() {
    for (text, more, expected) in [
        ("{", &[][..], "tested.json: expected an object with `members` and `tests`"),
        (r#"{"members": ["a", "b"], "test": []}"#, &[], "unknown field `test`"),
        (r#"{"members": ["a"]}"#, &[], "members: expected between 2 and"),
        (r#"{"members": ["a", "b", "a"]}"#, &[], "members: a is listed twice"),
        (
            r#"{"members": ["a", "b"], "tests": [{"members": ["c"], "degraded": true}]}"#,
            &[],
            "tests[0].members: c is not",
        ),
        (
            r#"{"members": ["a", "b"], "tests": [{"members": [], "degraded": true}]}"#,
            &[],
            "tests[0].members: expected at least",
        ),
        (
            r#"{"members": ["a", "b"], "tests": [{"members": ["a", "b"]}]}"#,
            &[],
            "tests[0]: expected one of `degraded`, `value` and `log`",
        ),
        (
            r#"{"members": ["a", "b"], "tests": [{"members": ["a"], "value": 9, "degraded": true}]}"#,
            &[],
            "tests[0]: expected one of `degraded`, `value` and `log`",
        ),
        (
            r#"{"members": ["a", "b"], "tests": [{"members": ["a"], "value": 9}]}"#,
            &[],
            "tests[0]: value: found 9 without `reference` in the file",
        ),
        (
            r#"{"members": ["a", "b"], "reference": {"value": 9}, "tests": [{"members": ["a"], "value": -9}]}"#,
            &[],
            "tests[0]: value: expected a number of at least 0",
        ),
        (
            r#"{"members": ["a", "b"], "reference": {"value": 0}}"#,
            &[],
            "reference.value: expected a positive",
        ),
        (
            r#"{"members": ["a", "b"], "reference": {"value": 1, "within": 1}}"#,
            &[],
            "reference.within: expected a fraction",
        ),
        (
            r#"{"members": ["a", "b"], "reference": {"value": 1, "better": "exact"}}"#,
            &[],
            "reference.better: expected `higher` or `lower`",
        ),
        (r#"{"members": ["a", "b"]}"#, &["--suspected", "0"], "--suspected"),
        (r#"{"members": ["a", "b"]}"#, &["--tests", "1e400"], "--tests"),
        ("\0\u{1}\u{2}", &[], "tested.json: expected an object with `members`"),
    ] {
        let (output, located) = groups(text, more);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), &located), (Some(64), &Value::Null), "{text}: {error}");
        assert!(error.contains(expected), "{text}: {error}");
    }
}
