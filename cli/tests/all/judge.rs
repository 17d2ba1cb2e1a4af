//! `burnin baseline` and `judge` on the command line.

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
fn a_baseline_separates_healthy_from_degraded_logs() {
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
    let verdict = document(&passed);
    assert_eq!((passed.status.code(), &verdict["verdict"]), (Some(0), &"pass".into()));
    assert_eq!(
        (&verdict["logs"][0]["source"], &verdict["logs"][0]["verdict"]),
        (&healthy[2].as_str().into(), &"pass".into())
    );
    assert_eq!(
        verdict["logs"][0]["reasons"], verdict["reasons"],
        "the combined verdict of one log equals its own"
    );
    let failed = judge(&h200("degraded-max-nchannels-4.log"));
    let verdict = document(&failed);
    assert_eq!((failed.status.code(), &verdict["schema"]), (Some(1), &"burnin/verdict/v1".into()));
    assert_eq!(
        (&verdict["verdict"], &verdict["reasons"][0]["code"]),
        (&"fail".into(), &"BELOW_BASELINE".into())
    );
    let both = burnin(&["judge", "--baseline", &baseline, &healthy[0], &h200("degraded-proto-ll.log")]);
    assert_eq!(both.status.code(), Some(1), "the most severe verdict sets the exit code");
    let nothing = burnin(&["judge", "--baseline", &baseline, &baseline]);
    assert_eq!(nothing.status.code(), Some(2), "a log without a table does not pass");
}

#[test]
fn a_diagnosis_is_reported_with_its_evidence() {
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
fn a_single_rank_measures_no_link() {
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
    let this_machine = judge(&h200("../../../../workflows/criteria/this-machine.yaml"));
    assert_eq!(
        (this_machine.status.code(), codes(&document(&this_machine))),
        (Some(0), vec!["SANE".into(), "ONE_RANK".into()]),
        "criteria without link requirements accept one rank"
    );
    let floors = folder.path().join("floors.yaml").display().to_string();
    std::fs::write(&floors, "name: floors\nfloors: [{size_bytes: 16M, busbw: 1}]\n").unwrap();
    let floored = judge(&floors);
    assert_eq!(
        (floored.status.code(), codes(&document(&floored))),
        (Some(2), vec!["ONE_RANK".into(), "SANE".into()])
    );
    let junit = burnin(&["judge", "--criteria", &floors, "--output", "junit", &log]);
    let junit = String::from_utf8(junit.stdout).unwrap();
    assert!(junit.contains("type=\"ONE_RANK\"") && !junit.contains("<failure"), "{junit}");

    let save = folder.path().join("baseline.json").display().to_string();
    let refused = burnin(&["baseline", "--save", &save, &log]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(64), "{stderr}");
    assert!(
        stderr.contains("226-own-one-gpu.log") && stderr.contains("one rank measures no link"),
        "{stderr}"
    );
    assert!(!Path::new(&save).exists());
}

/// A log with the times of every row multiplied by a factor, and with a timestamp, if given, at the end of every row.
fn slower(log: &str, times: f64, at: Option<&str>) -> String {
    let text = std::fs::read_to_string(h200(log)).unwrap();
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let row = words.len() == 13 && words[0].parse::<u64>().is_ok();
        if !row {
            out += &line.replace("#wrong \n", "#wrong");
            out += if at.is_some() && line.contains("algbw") { "            timestamp\n" } else { "\n" };
            continue;
        }
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        out += &words[..5].join("  ");
        for half in [5, 9] {
            let [time, algbw, busbw] =
                [number(half) * times, number(half + 1) / times, number(half + 2) / times];
            out += &format!("  {time:.3}  {algbw:.3}  {busbw:.3}  {}", words[half + 3]);
        }
        out += &at.map_or_else(String::new, |at| format!("  {at}"));
        out += "\n";
    }
    out
}

/// Writes logs into a folder: healthy logs with all times multiplied by these factors.
fn written(folder: &Path, times: &[f64]) -> Vec<String> {
    let logs = times.iter().enumerate().map(|(number, times)| {
        let path = folder.join(format!("run-{number}.log"));
        std::fs::write(&path, slower(&format!("healthy-{}.log", number % 5 + 1), *times, None)).unwrap();
        path.display().to_string()
    });
    logs.collect()
}

fn learn(save: &str, more: &[&str], logs: &[String]) -> Output {
    let mut arguments = vec!["baseline", "--save", save];
    arguments.extend(more);
    arguments.extend(logs.iter().map(String::as_str));
    burnin(&arguments)
}

#[test]
fn logs_that_do_not_repeat_are_refused_with_their_levels() {
    let folder = tempfile::tempdir().unwrap();
    let save = folder.path().join("baseline.json").display().to_string();
    let stderr = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    // Plateau bandwidths of the logs: 356, 356, 151, 254 and 127 GB/s.
    let logs = written(folder.path(), &[1.0, 1.0, 356.0 / 151.0, 356.0 / 254.0, 356.0 / 127.0]);
    for more in [&[][..], &["--drop-outliers"]] {
        let refused = learn(&save, more, &logs);
        let text = stderr(&refused);
        assert_eq!(refused.status.code(), Some(64), "{text}");
        assert!(text.contains("on 4 levels") && !Path::new(&save).exists(), "{text}");
        let group = text.find("group 1: ").unwrap();
        assert!(text[group..].contains("2 logs") && text.contains("group 4: "), "{text}");
        for (log, level) in logs.iter().zip([335.0, 335.0, 142.0, 239.0, 119.0]) {
            let line = text
                .lines()
                .find(|line| line.ends_with(log.as_str()))
                .unwrap_or_else(|| panic!("{log}: {text}"));
            let printed: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
            assert!((printed / level - 1.0_f64).abs() < 0.02 && line.contains("GB/s"), "{line}");
        }
    }
    let two = written(folder.path(), &[1.0, 2.0, 1.0, 2.0, 1.0]);
    let refused = learn(&save, &["--drop-outliers"], &two);
    assert_eq!(refused.status.code(), Some(64));
    assert!(
        stderr(&refused).contains("on 2 levels") && stderr(&refused).contains("3 logs"),
        "{}",
        stderr(&refused)
    );

    let one = written(folder.path(), &[1.0, 1.0, 1.0, 2.0, 1.0]);
    assert_eq!(learn(&save, &[], &one).status.code(), Some(64));
    let learned = learn(&save, &["--drop-outliers"], &one);
    assert_eq!(learned.status.code(), Some(0), "{}", stderr(&learned));
    assert!(
        stderr(&learned).starts_with("left out: ") && stderr(&learned).contains(&one[3]),
        "{}",
        stderr(&learned)
    );
    assert_eq!(stderr(&learned).lines().count(), 1);
    let baseline: Value = serde_json::from_str(&std::fs::read_to_string(&save).unwrap()).unwrap();
    assert_eq!(baseline["runs"], 4);
    assert!(baseline["repeats_within"].as_f64().unwrap() < 0.01, "{baseline:#}");

    // A named pipe is not replaced by a file.
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = learn(&pipe, &["--drop-outliers"], &one);
    assert_eq!(refused.status.code(), Some(64));
    assert!(stderr(&refused).contains("not a regular file"), "{}", stderr(&refused));
    assert!(!std::fs::symlink_metadata(&pipe).unwrap().is_file());

    // Most logs may be slow: a faster log is dropped with a warning.
    let fast = written(folder.path(), &[2.0, 2.0, 2.0, 1.0, 2.0]);
    let learned = learn(&save, &["--drop-outliers"], &fast);
    assert_eq!(learned.status.code(), Some(0), "{}", stderr(&learned));
    let text = stderr(&learned);
    assert!(text.contains(&fast[3]) && text.contains("% less time than the median"), "{text}");
    assert!(text.contains("the logs kept are not healthy"), "{text}");

    let shapes = learn(&save, &[], &[h200("healthy-1.log"), h200("pair-healthy-0,1.log")]);
    let text = stderr(&shapes);
    assert_eq!(shapes.status.code(), Some(64));
    assert!(text.contains("group 1: ranks 4") && text.contains("group 2: ranks 2"), "{text}");
    let sizes = [h200("healthy-1.log"), folder.path().join("short.log").display().to_string()];
    let short = slower("healthy-1.log", 1.0, None);
    let short: Vec<_> = short.lines().filter(|line| !line.starts_with("1073741824")).collect();
    std::fs::write(&sizes[1], short.join("\n") + "\n").unwrap();
    let text = stderr(&learn(&save, &[], &sizes));
    assert!(
        text.contains("11 sizes, 1 MiB to 1 GiB") && text.contains("10 sizes, 1 MiB to 512 MiB"),
        "{text}"
    );
}

#[test]
fn no_log_passes_by_a_baseline_of_mixed_levels() {
    let folder = tempfile::tempdir().unwrap();
    let save = folder.path().join("baseline.json").display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| h200(&format!("healthy-{run}.log"))).collect();
    assert_eq!(learn(&save, &[], &healthy).status.code(), Some(0));
    // A file of an older version, learned from five runs of 356, 356, 151, 254 and 127 GB/s.
    let mut baseline: Value = serde_json::from_str(&std::fs::read_to_string(&save).unwrap()).unwrap();
    baseline.as_object_mut().unwrap().remove("repeats_within");
    baseline["levels"] = serde_json::json!([-0.29, -0.29, 0.68, 0.0, 1.0]);
    baseline["plateau_spread"] = serde_json::json!(0.635);
    std::fs::write(&save, baseline.to_string()).unwrap();
    let slow = folder.path().join("slow.log").display().to_string();
    std::fs::write(&slow, slower("healthy-1.log", 356.0 / 151.0, None)).unwrap();
    let judged = burnin(&["judge", "--baseline", &save, "--output", "json", &slow]);
    assert_eq!(judged.status.code(), Some(2));
    assert_eq!(document(&judged)["reasons"][0]["code"], "UNSTABLE_BASELINE");
}

/// Every sample log of this repository, and the public sample logs if they exist next to the checkout.
fn samples() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut logs = Vec::new();
    for folder in ["tests/data/nccl/h200", "tests/data/nccl/ours", "../shared/nccl-samples/public"] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
            eprintln!("SKIPPED: the folder {folder} does not exist");
            continue;
        };
        let files = entries.map(|entry| entry.unwrap().path());
        let files =
            files.filter(|path| folder.ends_with("h200") || path.extension().is_some_and(|it| it == "log"));
        logs.extend(files.map(|path| path.display().to_string()));
    }
    logs.sort();
    logs
}

#[test]
fn the_order_of_logs_does_not_change_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let save = folder.path().join("baseline.json").display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| h200(&format!("healthy-{run}.log"))).collect();
    assert_eq!(learn(&save, &[], &healthy).status.code(), Some(0));
    let mut logs = samples();
    let verdicts = |logs: &[String]| {
        let mut arguments = vec!["judge", "--baseline", &save, "--output", "json"];
        arguments.extend(logs.iter().map(String::as_str));
        let judged = document(&burnin(&arguments));
        assert_eq!(judged["series"], false);
        let of = |log: &Value| {
            (log["source"].as_str().unwrap().to_owned(), (log["verdict"].clone(), log["reasons"].clone()))
        };
        judged["logs"].as_array().unwrap().iter().map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    let first = verdicts(&logs);
    assert_eq!(first.len(), logs.len());
    assert!(healthy.iter().all(|log| first[log].0 == "pass"), "{first:#?}");
    // Each log has the same verdict alone and in any order.
    for log in logs.iter().step_by(5) {
        assert_eq!(verdicts(std::slice::from_ref(log))[log], first[log]);
    }
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    for round in 0..8 {
        for at in (1..logs.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            logs.swap(at, (seed >> 33) as usize % (at + 1));
        }
        assert_eq!(verdicts(&logs), first, "shuffle {round}");
    }
}

#[test]
fn logs_are_a_series_only_with_the_flag_or_with_start_times() {
    let folder = tempfile::tempdir().unwrap();
    let save = folder.path().join("baseline.json").display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| h200(&format!("healthy-{run}.log"))).collect();
    assert_eq!(learn(&save, &[], &healthy).status.code(), Some(0));
    // The fourth and later logs are 1 % slower, which a single run cannot show.
    let logs = written(folder.path(), &[1.0, 1.0, 1.0, 1.012, 1.012, 1.012, 1.012, 1.012]);
    let judge = |more: &[&str], logs: &[String]| {
        let mut arguments = vec!["judge", "--baseline", &save, "--output", "json"];
        arguments.extend(more);
        arguments.extend(logs.iter().map(String::as_str));
        burnin(&arguments)
    };
    let alone = judge(&[], &logs);
    assert_eq!((alone.status.code(), &document(&alone)["series"]), (Some(0), &false.into()));
    let series = judge(&["--series"], &logs);
    let verdict = document(&series);
    assert_eq!((series.status.code(), &verdict["series"]), (Some(1), &true.into()));
    assert_eq!(verdict["reasons"][0]["code"], "DRIFTED");
    assert_eq!(verdict["logs"][7]["reasons"][0]["code"], "DRIFTED");
    assert_eq!(verdict["logs"][0]["verdict"], "pass");

    // Each row ends with its time, so the order of the logs is known.
    for (number, log) in logs.iter().enumerate() {
        let times = if number < 3 { 1.0 } else { 1.012 };
        let at = format!("2026-01-{:02} 12:00:07", 5 + number);
        std::fs::write(log, slower(&format!("healthy-{}.log", number % 5 + 1), times, Some(&at))).unwrap();
    }
    let shuffled: Vec<_> = [6, 1, 7, 0, 3, 5, 2, 4].map(|at| logs[at].clone()).into();
    let timed = judge(&[], &shuffled);
    let verdict = document(&timed);
    assert_eq!((timed.status.code(), &verdict["series"]), (Some(1), &true.into()));
    let order: Vec<_> =
        verdict["logs"].as_array().unwrap().iter().map(|log| log["source"].as_str().unwrap()).collect();
    assert_eq!(order, logs);
    assert_eq!(verdict["logs"][2]["started_at"], "2026-01-07 12:00:07");
    let stderr = String::from_utf8(timed.stderr).unwrap();
    assert!(
        stderr.starts_with("series in the order of the times in the logs:\n  2026-01-05 12:00:07  "),
        "{stderr}"
    );
    // The order of two logs with the same time is unknown.
    std::fs::copy(&logs[0], &logs[1]).unwrap();
    assert_eq!(document(&judge(&[], &shuffled))["series"], false);
}

#[test]
fn many_logs_are_summarised_with_the_worst_first() {
    let folder = tempfile::tempdir().unwrap();
    let save = folder.path().join("baseline.json").display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| h200(&format!("healthy-{run}.log"))).collect();
    assert_eq!(learn(&save, &[], &healthy).status.code(), Some(0));
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let mut times = vec![1.0; 15];
    times[13] = 2.0;
    written(&logs, &times);
    std::fs::write(logs.join("empty.log"), "").unwrap();
    // A folder as argument selects all files in it.
    let judged = burnin(&["judge", "--baseline", &save, logs.to_str().unwrap()]);
    let text = String::from_utf8(judged.stdout).unwrap();
    assert_eq!(judged.status.code(), Some(1), "{text}");
    assert!(text.starts_with("16 logs: 14 pass, 1 fail, 1 inconclusive"), "{text}");
    assert!(text.contains("FAIL  16 logs: 14 pass, 1 fail, 1 inconclusive"), "{text}");
    assert!(text.contains("run-13.log  170 of 341 GB/s, 50 % lower"), "{text}");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    let order = [
        "BELOW_BASELINE: 1 log",
        "run-13.log",
        "NO_TABLE: 1 log",
        "empty.log",
        "pass: 14 logs",
        "run-14.log",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");
    assert_eq!(text.matches("✓").count(), 14, "each passed log has one line: {text}");

    let json = document(&burnin(&["judge", "--baseline", &save, "--output", "json", logs.to_str().unwrap()]));
    assert_eq!(json["totals"], serde_json::json!({"logs": 16, "pass": 14, "fail": 1, "inconclusive": 1}));
    let slow = json["logs"].as_array().unwrap().iter().find(|log| log["verdict"] == "fail").unwrap();
    let rows = slow["measurements"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["placement"]), (22, &"out_of_place".into()));
    assert!(rows[20]["slowdown"].as_f64().unwrap() > 0.9 && rows[20]["below"][0] == "baseline", "{slow:#}");
    let page = burnin(&["judge", "--baseline", &save, "--output", "html", logs.to_str().unwrap()]);
    let page = String::from_utf8(page.stdout).unwrap();
    assert_eq!(page.matches("<svg class=\"multiple\"").count(), 15, "each log with a table has one curve");
    assert!(page.find("run-13.log: 170 of 341").unwrap() < page.find("run-14.log: 340 of 341").unwrap());
    let nothing = folder.path().join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    assert_eq!(burnin(&["judge", "--baseline", &save, nothing.to_str().unwrap()]).status.code(), Some(64));
}

#[test]
fn a_folder_includes_all_regular_files_below_it() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    for (name, content) in
        [("a/b/healthy.log", true), ("a/0.log", false), (".hidden/x.log", false), (".x.log", false)]
    {
        let path = logs.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content {
            true => drop(std::fs::copy(h200("healthy-1.log"), path).unwrap()),
            false => std::fs::write(path, "").unwrap(),
        }
    }
    std::fs::write(logs.join("new\nline\u{1b}[31m.log"), "").unwrap();
    assert!(Command::new("mkfifo").arg(logs.join("a/pipe")).status().unwrap().success());
    std::os::unix::fs::symlink(&logs, logs.join("a/cycle")).unwrap();
    let criteria = h200("../../../../workflows/criteria/this-machine.yaml");
    let judged = burnin(&["judge", "--criteria", &criteria, logs.to_str().unwrap()]);
    let text = String::from_utf8(judged.stdout).unwrap();
    assert_eq!(judged.status.code(), Some(2), "{text}");
    assert!(text.starts_with("3 logs: 1 pass, 0 fail, 2 inconclusive"), "{text}");
    assert!(!text.contains('\u{1b}') && text.lines().any(|line| line.contains("! new line.log")), "{text}");
    assert!(text.contains("a/b/healthy.log") && text.contains("a/0.log") && !text.contains("pipe"), "{text}");
}

#[test]
fn wrong_usage_is_reported() {
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
fn logs_that_would_exhaust_memory_are_refused() {
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
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
        assert_eq!(status.code(), Some(64), "{stderr}");
        assert!(stderr.contains("2.log: 20000 more rows") && stderr.contains("fewer logs"), "{stderr}");
        assert!(most > 0 && most <= 72 * 1024, "{most} KiB");
    }
    assert!(!Path::new(&save).exists());
}

/// Replaces the measured memory bandwidth of a GPU in a log of nvbandwidth.
fn copies(folder: &Path, node: &str, speed: &str) -> String {
    let sample = h200("../../../../crates/measure/tests/samples/nvbandwidth/0.9-h100.json");
    let text = std::fs::read_to_string(sample).unwrap();
    let log = folder.join(format!("{node}.json"));
    let (before, rest) = text.split_once("1490.27").unwrap();
    // Also replace the sum, which equals the single value.
    let (sum, after) = rest.split_once("\"sum\" : 1490").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    std::fs::write(&log, format!("{before}{speed}{sum}\"sum\" : {speed}\n{after}")).unwrap();
    log.display().to_string()
}

#[test]
fn logs_of_the_nodes_of_one_run_are_compared_with_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let criteria = h200("../../../../workflows/criteria/gpu-memory.yaml");
    let speeds = ["1490.1", "1491.7", "1489.2", "1401.5", "1490.8", "1488.9"];
    let logs: Vec<_> =
        (0..).zip(speeds).map(|(node, speed)| copies(folder.path(), &format!("n{node}"), speed)).collect();
    let judge = |logs: &[String]| {
        let mut arguments = vec!["judge", "--one-run", "--criteria", &criteria, "--output", "json"];
        arguments.extend(logs.iter().map(String::as_str));
        burnin(&arguments)
    };
    // All logs name the host `vm`, so the nodes are named by their files.
    let failed = judge(&logs);
    let verdict = document(&failed);
    assert_eq!((failed.status.code(), &verdict["reasons"][0]["code"]), (Some(1), &"WORSE_THAN_PEERS".into()));
    assert_eq!((&verdict["suspects"][0]["host"], &verdict["suspects"][0]["gpu"]), (&"n3".into(), &0.into()));
    assert_eq!(verdict["suspects"].as_array().unwrap().len(), 1, "{verdict}");
    let healthy: Vec<_> = [&logs[..3], &logs[4..]].concat();
    assert_eq!(judge(&healthy).status.code(), Some(0), "{}", document(&judge(&healthy)));
    // A node without a measurement does not pass, and the other nodes then have fewer peers than the minimum.
    let empty = folder.path().join("n9.json").display().to_string();
    std::fs::write(&empty, "").unwrap();
    let missing = judge(&[healthy, vec![empty.clone()]].concat());
    assert_eq!(
        (missing.status.code(), &document(&missing)["reasons"][0]["code"]),
        (Some(2), &"NODES_MISSING".into())
    );
    assert_eq!(document(&judge(&logs[..3]))["reasons"][0]["code"], "TOO_FEW_PEERS");
    // Two files may not name the same node, and a log may not measure all nodes.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let twice = judge(&[logs[0].clone(), copies(&other, "n0", "1490.1")]);
    assert_eq!(twice.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&twice.stderr).contains("both would be the node `n0`"));
    assert_eq!(judge(&[h200("healthy-1.log")]).status.code(), Some(64));
}
