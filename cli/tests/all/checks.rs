//! Runs with several checks on one cluster, with real processes.

use std::{fs, path::Path};

use crate::support::{TestProject, json, signal, wait_for};
use serde_json::{Value, json};

const WORKLOAD: &str = "workload: {collective: all_reduce, min_bytes: 16, max_bytes: 1K, step_factor: 4, iterations: 5, warmup_iterations: 1}";

/// A project whose workflow has these checks instead of its benchmark; each check gets [`WORKLOAD`].
fn project(prelude: &str, checks: &[&str]) -> TestProject {
    let project = TestProject::new(prelude, "");
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    let (head, rest) = workflow.split_once("benchmark:").unwrap();
    let (_, limits) = rest.split_once("limits:").unwrap();
    let checks: String = checks.iter().map(|check| format!("  - {{{check}, {WORKLOAD}}}\n")).collect();
    project.write("w.yaml", &format!("{head}checks:\n{checks}limits:{limits}"));
    project.write("high.yaml", "name: high\nhistory: false\nfloors: [{size_bytes: 1K, busbw: 900}]\n");
    project
}

fn checks(document: &Value) -> Vec<Value> {
    let checks = document["checks"].as_array().unwrap().iter();
    checks.map(|check| json!([check["name"], check["state"], check["verdict"]])).collect()
}

#[test]
fn each_check_has_its_own_verdict_and_the_cluster_is_started_once() {
    let names = [
        "name: a, criteria: criteria.yaml",
        "name: b, criteria: high.yaml",
        "name: c, criteria: criteria.yaml, needs: [b]",
        "name: d, criteria: criteria.yaml, environment: {BURNIN_TEST: x}",
    ];
    let project = project("echo \"# BURNIN_TEST=${BURNIN_TEST:-}\"", &names);
    let output = project.burnin(&["run", "w.yaml", "--output", "json"]);
    let document = json(&output);
    assert_eq!((output.status.code(), &document["verdict"]), (Some(1), &"fail".into()), "{document}");
    let expected = [
        json!(["a", "judged", "pass"]),
        json!(["b", "judged", "fail"]),
        json!(["c", "skipped", null]),
        json!(["d", "judged", "pass"]),
    ];
    assert_eq!(checks(&document), expected);
    for (name, count) in project.counts() {
        assert_eq!(count, if name == "builds" { 1 } else { 3 }, "{name}");
    }
    let run = document["run"].as_str().unwrap();
    let show =
        |form: &str| String::from_utf8(project.burnin(&["show", run, "--output", form]).stdout).unwrap();
    assert_eq!(checks(&serde_json::from_str(&show("json")).unwrap()), expected);
    let [human, markdown, junit, html] = ["human", "markdown", "junit", "html"].map(show);
    let line = |text: &str, name: &str| text.lines().position(|line| line.contains(name)).unwrap();
    assert!(
        line(&human, "✗ b") < line(&human, "! c") && line(&human, "! c") < line(&human, "✓ a"),
        "the checks are ordered by severity: {human}"
    );
    assert!(human.contains("measurements and verdict of b"), "{human}");
    assert!(markdown.contains("| ✗ | `b` | fail | BELOW"), "{markdown}");
    assert!(junit.contains("name=\"check b\""), "{junit}");
    assert!(html.contains("<h2>Checks</h2>") && html.contains("<code>d</code>"), "{html}");
    // The variable reaches only the check that names it.
    let log = |check: &str| {
        let folder = project.data().join("artefacts").join(run).join("logs").join(check);
        let attempt =
            fs::read_dir(&folder).unwrap().filter_map(Result::ok).find(|entry| entry.path().is_dir());
        fs::read_to_string(attempt.unwrap().path().join("node-0.log")).unwrap()
    };
    assert!(log("1").contains("# BURNIN_TEST=\n"), "{}", log("1"));
    assert!(log("c4a1").contains("# BURNIN_TEST=x\n"), "{}", log("c4a1"));
    let listed = String::from_utf8(project.burnin(&["logs", run]).stdout).unwrap();
    for name in ["1/node-0.log", "c2a1/node-0.log", "c4a1/node-0.log"] {
        assert!(listed.contains(name), "{listed}");
        let printed = String::from_utf8(project.burnin(&["logs", run, name]).stdout).unwrap();
        assert!(printed.contains("Avg bus bandwidth"), "{name}: {printed}");
    }
    let one = |name: &str| project.burnin(&["show", run, "--check", name]);
    let shown = String::from_utf8(one("d").stdout).unwrap();
    assert!(shown.contains("\nPASS  ") && shown.contains("measurements and verdict of d"), "{shown}");
    let unknown = one("e");
    let stderr = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(
        (unknown.status.code(), stderr.contains("no check `e`: its checks are a, b, c, d")),
        (Some(64), true),
        "{stderr}"
    );
    project.assert_nothing_left();
}

#[test]
fn a_kill_in_any_check_repeats_no_work() {
    // Request, image and cluster have 5 records; the first check has the next 5 records.
    for records in [6, 9, 10, 11, 12, 13, 14, 16, 18, 20] {
        let project = project(
            "sleep 0.2",
            &[
                "name: a, criteria: criteria.yaml",
                "name: b, criteria: criteria.yaml",
                "name: c, criteria: criteria.yaml",
            ],
        );
        let mut run = project.start();
        wait_for("the records", || project.records() >= records || run.try_wait().unwrap().is_some());
        if run.try_wait().unwrap().is_none() {
            signal("-KILL", run.id());
        }
        run.wait().unwrap();
        let output = project.burnin(&["run", "--resume", "--output", "json"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if !(output.status.code() == Some(64) && stderr.contains("no unfinished run")) {
            let document = json(&output);
            assert_eq!(
                (output.status.code(), &document["verdict"]),
                (Some(0), &"pass".into()),
                "{document} {stderr}"
            );
        }
        project.assert_each_fact_once(3, &format!("killed after {records}"));
        for (name, count) in project.counts() {
            assert_eq!(count, if name == "builds" { 1 } else { 3 }, "killed after {records}: {name}");
        }
        project.assert_nothing_left();
    }
}

#[test]
fn a_cancelled_second_check_stops_and_the_third_does_not_start() {
    let checks = [
        "name: a, criteria: criteria.yaml",
        "name: b, criteria: criteria.yaml",
        "name: c, criteria: criteria.yaml",
    ];
    let project = project("[ \"$(wc -l < $COUNT_FILE)\" = 1 ] || sleep 30", &checks);
    // Each rank counts its starts in a file; the prelude waits from the second start on.
    let prelude = format!("COUNT_FILE={}/rank-$BURNIN_RANK\n", project.path("counts").display());
    let waits = fs::read_to_string(project.path("build/prelude.sh")).unwrap();
    project.write("build/prelude.sh", &(prelude + &waits));
    let run = project.start();
    wait_for("the second check", || {
        project.counts().iter().any(|(name, count)| name.starts_with("rank") && *count == 2)
    });
    let id = project.run();
    assert!(project.burnin(&["cancel", &id]).status.success());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(project.counts().iter().all(|(_, count)| *count <= 2), "{:?}", project.counts());
    project.assert_nothing_left();
}

/// A project whose checks run these commands; each script is the text of a bash command.
fn project_of_commands(checks: &[(&str, &str, &str)]) -> TestProject {
    let project = TestProject::new("", "");
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    let (head, rest) = workflow.split_once("benchmark:").unwrap();
    let (_, limits) = rest.split_once("limits:").unwrap();
    let mut text = String::new();
    for (name, script, fields) in checks {
        let command = json!(["bash", "-c", script]);
        text += &format!("  - {{name: {name}, command: {command}, {fields}}}\n");
    }
    project.write("w.yaml", &format!("{head}checks:\n{text}limits:{limits}"));
    project.write(
        "floor.yaml",
        "name: floor\nhistory: false\nmetrics: [{metric: memory.copy, unit: GB/s, subjects: 3, floor: 80}]\n",
    );
    project.write("nothing.yaml", "name: nothing\nhistory: false\n");
    project
}

const DECLARED: &str = "read: {row: '^gpu (?P<gpu>\\d+): (?P<value>\\S+) GB/s$', end: '^done$', name: memory.copy, unit: GB/s, \
                        better: higher, scope: gpu, exit: [0, 3]}, criteria: floor.yaml";

#[test]
fn a_program_of_each_node_is_judged_and_its_bad_node_named() {
    let of_node = |other: &str| {
        format!(
            "if [[ $BURNIN_NODE_NAME == node-1 ]]; then {other}; else echo 'gpu 0: 100 GB/s'; echo done; fi"
        )
    };
    let (slow, cut, silent, failing, excused) = (
        of_node("echo 'gpu 0: 50.5 GB/s'; echo done"),
        of_node("echo 'gpu 0: 100 GB/s'"),
        of_node("true"),
        of_node("echo 'gpu 0: 100 GB/s'; echo done; exit 4"),
        of_node("echo 'gpu 0: 100 GB/s'; echo done; exit 3"),
    );
    let faulty =
        of_node("printf 'GPU 0: NVIDIA H100 (UUID: GPU-1)\\nTested 1 GPUs:\\n\\tGPU 0: FAULTY\\n'; exit 0");
    let faulty =
        faulty.replace("echo 'gpu 0: 100 GB/s'; echo done", "printf 'Tested 1 GPUs:\\n\\tGPU 0: OK\\n'");
    let project = project_of_commands(&[
        ("good", "echo 'gpu 0: 100 GB/s'; echo done", DECLARED),
        ("slow", &slow, DECLARED),
        ("cut", &cut, DECLARED),
        ("silent", &silent, DECLARED),
        ("failing", &failing, DECLARED),
        ("excused", &excused, DECLARED),
        ("faulty", &faulty, "read: gpu-burn, criteria: nothing.yaml"),
        ("none", "true", DECLARED),
        ("ranks", "echo \"gpu $BURNIN_RANK: 100 GB/s\"; echo done", &format!("every: rank, {DECLARED}")),
    ]);
    let output = project.burnin(&["run", "w.yaml", "--output", "json"]);
    let document = json(&output);
    let verdicts = |document: &Value| -> Vec<String> {
        let checks = document["checks"].as_array().unwrap().iter();
        checks.map(|check| format!("{}: {} {}", check["name"], check["verdict"], check["reasons"])).collect()
    };
    let expected = [
        r#""good": "pass" ["METRICS_GOOD"]"#,
        r#""slow": "fail" ["BELOW_FLOOR"]"#,
        r#""cut": "inconclusive" ["TRUNCATED"]"#,
        r#""silent": "inconclusive" ["NODES_MISSING","NOT_MEASURED"]"#,
        r#""failing": "fail" ["JOB_FAILED"]"#,
        r#""excused": "pass" ["METRICS_GOOD"]"#,
        r#""faulty": "fail" ["#,
        r#""none": "inconclusive" ["NO_METRICS","NODES_MISSING","NOT_MEASURED"]"#,
        r#""ranks": "pass" ["METRICS_GOOD"]"#,
    ];
    let found = verdicts(&document);
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}, expected {expected}");
    }
    assert_eq!(found.len(), expected.len());
    let run = document["run"].as_str().unwrap();
    let shown = |check: &str| {
        let output = project.burnin(&["show", run, "--check", check, "--output", "json"]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    for (check, gpu) in [("slow", 0), ("faulty", 0)] {
        let suspect = &shown(check)["suspects"][0];
        assert_eq!((&suspect["host"], &suspect["gpu"]), (&"node-1".into(), &gpu.into()), "{check}");
    }
    let text = shown("silent")["reasons"].to_string();
    assert!(text.contains("no measurement of node-1"), "{text}");
    project.assert_nothing_left();
}

/// A value of all ranks does not identify a bad node; the same program on pairs of nodes does.
#[test]
fn a_slow_node_is_located_by_the_metric_of_any_program() {
    let declared = "every: rank, read: {row: '^rate (?P<value>\\S+) GB/s$', end: '^done$', name: world.rate, unit: GB/s, better: higher, \
                    scope: world}, criteria: world.yaml";
    let rate = "case $PWD in */node-2) echo 'rate 50 GB/s' ;; *) echo 'rate 100 GB/s' ;; esac; echo done";
    let project = project_of_commands(&[("world", rate, declared)]);
    project.write(
        "world.yaml",
        "name: world\nhistory: false\nmetrics: [{metric: world.rate, unit: GB/s, subjects: 1, floor: 80}]\n",
    );
    let document =
        json(&project.burnin(&["run", "w.yaml", "--set", "locate.tolerance=0.2", "--output", "json"]));
    assert_eq!(checks(&document), [json!(["world", "judged", "fail"])], "{document}");
    let shown = json(&project.burnin(&[
        "show",
        document["run"].as_str().unwrap(),
        "--check",
        "world",
        "--output",
        "json",
    ]));
    let nodes = shown["suspects"]["nodes"].as_array().unwrap_or_else(|| panic!("{shown}"));
    assert_eq!((nodes.len(), &nodes[0]["node"]), (1, &"node-2".into()), "{shown}");
    project.assert_nothing_left();
}

/// Three nodes make three pairs; node-1, with the address 127.0.0.2, is bad with both partners.
#[test]
fn a_program_on_pairs_of_nodes_is_judged_and_its_bad_node_named() {
    let pair = |of_bad: &str| {
        format!(
            "[[ $BURNIN_PAIR_INDEX == 1 ]] || exit 0\n\
             if [[ $BURNIN_NODE_NAME == node-1 || $BURNIN_PEER == 127.0.0.2 ]]; then {of_bad}; else echo 'rate 100 GB/s'; echo done; fi"
        )
    };
    let declared = "every: pair, read: {row: '^rate (?P<value>\\S+) GB/s$', end: '^done$', name: pair.rate, unit: GB/s, better: higher, \
                    scope: pair}, criteria: pairs.yaml";
    let project = project_of_commands(&[
        ("good", &pair("echo 'rate 99 GB/s'; echo done"), declared),
        ("slow", &pair("echo 'rate 50 GB/s'; echo done"), declared),
        ("cut", &pair("echo 'rate 100 GB/s'"), declared),
        ("failing", &pair("echo 'cannot connect'; exit 4"), declared),
        ("one-round", &pair("echo 'rate 100 GB/s'; echo done"), &format!("rounds: 1, {declared}")),
    ]);
    project.write(
        "pairs.yaml",
        "name: pairs\nhistory: false\nmetrics: [{metric: pair.rate, unit: GB/s, floor: 80}]\n",
    );
    let document = json(&project.burnin(&["run", "w.yaml", "--output", "json"]));
    let verdicts: Vec<_> =
        document["checks"].as_array().unwrap().iter().map(|it| it["verdict"].clone()).collect();
    assert_eq!(verdicts, ["pass", "fail", "inconclusive", "fail", "inconclusive"], "{document}");
    let run = document["run"].as_str().unwrap();
    let shown = |check: &str| json(&project.burnin(&["show", run, "--check", check, "--output", "json"]));
    for check in ["slow", "failing"] {
        let suspects = shown(check)["suspects"].clone();
        assert_eq!(suspects[0]["host"], "node-1", "{check}: {suspects}");
        assert_eq!(suspects.as_array().map(Vec::len), Some(1), "{check}: {suspects}");
    }
    let metric = &shown("good")["metrics"][0];
    assert_eq!((&metric["name"], &metric["subjects"]), (&"pair.rate".into(), &3.into()), "{metric}");
    // One round of pairs leaves one of three nodes unmeasured.
    let reasons = shown("one-round")["reasons"].to_string();
    assert!(reasons.contains("NODES_MISSING"), "{reasons}");
    project.assert_nothing_left();
}

#[test]
fn a_program_is_found_in_the_image_and_a_missing_one_never_passes() {
    let project = project_of_commands(&[("missing", "exec no-such-program", DECLARED)]);
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    let in_image = json!(["all_reduce_perf", "-b", "16", "-e", "1K", "-f", "4", "-n", "5", "-w", "1"]);
    let check = format!(
        "  - {{name: image, command: {in_image}, every: rank, read: nccl-tests, criteria: criteria.yaml}}\n"
    );
    project.write("w.yaml", &workflow.replace("limits:", &format!("{check}limits:")));
    let document = json(&project.burnin(&["run", "w.yaml", "--output", "json"]));
    assert_eq!(checks(&document)[0], json!(["missing", "judged", "inconclusive"]), "{document}");
    assert_eq!(checks(&document)[1], json!(["image", "judged", "pass"]), "{document}");
}

/// The smoke suite on four nodes with one GPU each. `nvbandwidth` is a script that prints the output of the real program on an H100: on a
/// healthy one, and next to a program that kept the GPU busy.
#[test]
fn the_smoke_suite_names_the_gpu_that_another_program_uses() {
    let project = TestProject::new("", "");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let samples = shipped.join("crates/verdict/tests/samples");
    let script = |busy: &str| {
        format!(
            "#!/bin/bash\n[[ \"$*\" == '-j -t device_local_copy -t host_to_device_memcpy_ce -t device_to_host_memcpy_ce' ]] || exit 9\n\
             case $BURNIN_NODE_NAME in {busy}) f=busy;; node-0) f=1;; node-1) f=2;; *) f=3;; esac\ncat \"{}/h100-$f.json\"\n",
            samples.display()
        )
    };
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    let (head, rest) = workflow.split_once("benchmark:").unwrap();
    let (_, limits) = rest.split_once("limits:").unwrap();
    let suite = shipped.join("workflows/suites/smoke.yaml");
    project.write("w.yaml", &format!("{head}suite: {}\nlimits:{limits}", suite.display()));
    let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
    let run = |busy: &str| {
        project.write("bin/nvbandwidth", &script(busy));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(project.path("bin/nvbandwidth"), mode).unwrap();
        let settings = [
            "cluster.rent.processes.nodes=4",
            "limits.lease=1h",
            "checks.all-reduce.skip=no second GPU in this test",
        ];
        let arguments: Vec<_> = ["run", "w.yaml", "--output", "json"]
            .into_iter()
            .chain(settings.iter().flat_map(|it| ["--set", it]))
            .collect();
        let document = json(&project.command(&arguments).env("PATH", &path).output().unwrap());
        let run = document["run"].as_str().unwrap().to_owned();
        let shown = project.burnin(&["show", &run, "--output", "json"]).stdout;
        (document, serde_json::from_slice::<Value>(&shown).unwrap(), project.burnin(&["show", &run]).stdout)
    };
    let (healthy, shown, text) = run("none");
    assert_eq!((&healthy["verdict"], &shown["suspects"]), (&"pass".into(), &Value::Null), "{healthy}");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("not run") && text.contains("no second GPU in this test"), "{text}");
    let handover = |document: &Value| {
        let output = project.burnin(&["handover", document["run"].as_str().unwrap()]);
        String::from_utf8(output.stdout).unwrap()
    };
    let text = handover(&healthy);
    for part in [
        "# Hand-over of lab-",
        "| `memory` | `nvbandwidth -j -t device_local_copy",
        "| `memory` | `nvbandwidth.device_local_copy` | `GB/s` | 4 |",
        "| `node-2` | 0 | `NVIDIA H100",
        "`nvbandwidth.device_local_copy 14",
        "- `all-reduce`: excluded by the workflow: no second GPU in this test",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (degraded, shown, _) = run("node-2");
    assert_eq!(degraded["verdict"], "fail", "{degraded}");
    let suspects = shown["suspects"].as_array().unwrap();
    assert_eq!(suspects.len(), 1, "{shown}");
    assert_eq!((&suspects[0]["host"], &suspects[0]["gpu"]), (&"node-2".into(), &0.into()));
}

#[test]
fn each_gpu_is_compared_with_its_own_past() {
    let project = TestProject::new("", "");
    let slow = project.path("slow");
    // Node-1 is always faster than node-0, so that its drop stays within the range of all nodes.
    let script = format!(
        "v=100; [[ $BURNIN_NODE_NAME != node-1 ]] || v=120; [[ $BURNIN_NODE_NAME != node-1 || ! -e '{}' ]] || v=105; \
         echo \"gpu 0: $v GB/s\"; echo done",
        slow.display()
    );
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    let (head, rest) = workflow.split_once("benchmark:").unwrap();
    let (_, limits) = rest.split_once("limits:").unwrap();
    let command = json!(["bash", "-c", script]);
    let read = DECLARED.replace("floor.yaml", "past.yaml");
    project.write(
        "w.yaml",
        &format!("{head}checks:\n  - {{name: memory, command: {command}, {read}}}\nlimits:{limits}"),
    );
    project.write(
        "past.yaml",
        "name: past\nmetrics: [{metric: memory.copy, unit: GB/s, subjects: 3, floor: 80}]\n",
    );
    let run = || json(&project.burnin(&["run", "w.yaml", "--output", "json"]));
    for _ in 0..6 {
        let document = run();
        assert_eq!(document["verdict"], "pass", "{document}");
    }
    project.write("slow", "");
    let document = run();
    assert_eq!(document["checks"][0]["reasons"], json!(["WORSE_THAN_BASELINE"]), "{document}");
    let shown = project.burnin(&["show", document["run"].as_str().unwrap(), "--output", "json"]).stdout;
    let shown: Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!((&shown["suspects"][0]["host"], &shown["suspects"][0]["gpu"]), (&"node-1".into(), &0.into()));
    assert!(shown["suspects"].as_array().unwrap().len() == 1, "{shown}");
}

/// Node-1 counts its starts, and its value falls by `fall` GB/s with each start.
fn soaking(project: &TestProject, fall: u32) -> String {
    let count = project.path("starts").display().to_string();
    format!(
        "sleep 0.2; value=1000; if [[ $BURNIN_NODE_NAME == node-1 ]]; then echo >> {count}; \
         value=$((1000 - {fall} * $(wc -l < {count}))); fi; echo \"gpu 0: $value GB/s\"; echo done"
    )
}

#[test]
fn a_killed_soak_resumes_and_repeats_its_checks_for_its_duration() {
    let project = project_of_commands(&[("a", "true", DECLARED), ("b", "true", DECLARED)]);
    let script = json!(soaking(&project, 0)).to_string();
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap().replace("\"true\"", &script);
    project.write("w.yaml", &format!("soak: {{for: 12s}}\n{workflow}"));
    let mut run = project.start();
    // With 18 records the second round has begun.
    wait_for("the second round", || project.records() >= 18 || run.try_wait().unwrap().is_some());
    signal("-KILL", run.id());
    run.wait().unwrap();
    let document = json(&project.burnin(&["run", "--resume", "--output", "json"]));
    assert_eq!(
        (&document["conclusion"], &document["verdict"]),
        (&"completed".into(), &"pass".into()),
        "{document}"
    );
    assert_eq!(checks(&document), [json!(["a", "judged", "pass"]), json!(["b", "judged", "pass"])]);
    let rounds = document["checks"][0]["rounds_passed"].as_u64().unwrap();
    assert!(rounds >= 3, "{document}");
    // Two jobs of each round start on node-1, and no job starts twice.
    let starts = fs::read_to_string(project.path("starts")).unwrap().lines().count() as u64;
    assert_eq!(starts, 2 * rounds);
    let id = document["run"].as_str().unwrap();
    let shown = project.burnin(&["show", id, "--check", "b@2"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("PASS") && shown.contains("soak: "), "{shown}");
    assert_eq!(project.burnin(&["show", id, "--check", "b@99"]).status.code(), Some(64));
    let logs = String::from_utf8(project.burnin(&["logs", id, "--check", "a@3"]).stdout).unwrap();
    assert_eq!(
        logs.matches("gpu 0: 1000 GB/s").count(),
        3,
        "one round of the check has three values: {logs}"
    );
    project.assert_nothing_left();
}

/// Node-1 corrupts data from its third start on: in the third round, and in each pair of the search after it.
#[test]
fn wrong_data_in_a_round_of_a_soak_fails_and_names_the_size_and_the_node() {
    let project = project("", &["name: a, criteria: criteria.yaml"]);
    let starts = project.path("counts/node-1").display().to_string();
    project.write(
        "build/prelude.sh",
        &format!(
            "case $PWD in */node-1) echo >> {starts}; [[ $(wc -l < {starts}) -lt 3 ]] || export BURNIN_FAULT=corrupt:$BURNIN_RANK ;; esac\n"
        ),
    );
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    project.write("w.yaml", &format!("soak: {{for: 4m}}\nlocate: {{}}\n{workflow}"));
    let output = project.burnin(&["run", "w.yaml", "--output", "json"]);
    let document = json(&output);
    assert_eq!(output.status.code(), Some(1), "{document}");
    let check = &document["checks"][0];
    assert!(check["reasons"].as_array().unwrap().contains(&"WRONG_DATA".into()), "{document}");
    assert_eq!(check["rounds_passed"], 2, "{document}");
    let run = document["run"].as_str().unwrap();
    let shown = json(&project.burnin(&["show", run, "--check", "a@3", "--output", "json"]));
    let nodes = shown["suspects"]["nodes"].as_array().unwrap_or_else(|| panic!("{shown}"));
    assert_eq!((nodes.len(), &nodes[0]["node"]), (1, &"node-1".into()), "{shown}");
    let text = String::from_utf8(project.burnin(&["show", run, "--check", "a@3"]).stdout).unwrap();
    assert!(text.contains("the first at 16") && text.contains("node-1"), "{text}");
    project.assert_nothing_left();
}

/// A soak of one check, and its process, after two rounds.
fn soak_in_its_third_round() -> (TestProject, std::process::Child) {
    let project = project_of_commands(&[("a", "true", DECLARED)]);
    let script = json!(soaking(&project, 0)).to_string();
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap().replace("\"true\"", &script);
    project.write("w.yaml", &format!("soak: {{for: 2m}}\n{workflow}"));
    let mut run = project.start();
    wait_for("the third round", || project.records() >= 16 || run.try_wait().unwrap().is_some());
    (project, run)
}

#[test]
fn a_cancelled_soak_loads_the_measurements_of_its_rounds() {
    let (project, mut run) = soak_in_its_third_round();
    signal("-INT", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(4));
    let file = rusqlite::Connection::open(project.path("data/warehouse.sqlite")).unwrap();
    let count = |query: &str| file.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    let rounds = count("SELECT count(*) FROM verdicts WHERE verdict = 'pass'");
    assert!(rounds >= 2, "{rounds}");
    assert!(
        count("SELECT count(*) FROM metrics WHERE verdict = 'pass'") >= 2 * rounds,
        "each round has its values"
    );
    project.assert_nothing_left();
}

/// Another process writes into the warehouse, so that no load ends before the kill.
#[test]
fn a_resumed_soak_that_was_killed_after_its_end_loads_each_round_once() {
    let (project, mut run) = soak_in_its_third_round();
    let mut file = rusqlite::Connection::open(project.path("data/warehouse.sqlite")).unwrap();
    let writing = file.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive).unwrap();
    signal("-INT", run.id());
    wait_for("the end", || project.entries().last().is_some_and(|entry| entry == "closed"));
    signal("-KILL", run.id());
    run.wait().unwrap();
    drop(writing);
    let count = |query: &str| file.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    let judged = project.entries().iter().filter(|entry| *entry == "verdict.reached").count() as i64;
    assert!(judged >= 2 && count("SELECT count(*) FROM verdicts") == 0, "{judged} rounds, none is loaded");
    let resumed = project.burnin(&["run", "--resume", "--output", "json"]);
    assert_eq!((resumed.status.code(), &json(&resumed)["conclusion"]), (Some(4), &"cancelled".into()));
    assert_eq!(count("SELECT count(*) FROM verdicts"), judged);
    assert_eq!(count("SELECT count(DISTINCT check_name) FROM verdicts"), judged);
    let values = count("SELECT count(*) FROM metrics");
    assert_eq!(values, count("SELECT count(*) FROM (SELECT DISTINCT check_name, node FROM metrics)"));
    assert!(values >= 2 * judged, "each round has its values: {values}");
    assert_eq!(project.burnin(&["run", "--resume"]).status.code(), Some(64), "nothing is left to do");
    project.assert_nothing_left();
}

#[test]
fn a_declining_node_fails_the_soak_and_is_named() {
    let project = project_of_commands(&[("a", "true", DECLARED)]);
    let script = json!(soaking(&project, 5)).to_string();
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap().replace("\"true\"", &script);
    project.write("w.yaml", &format!("soak: {{for: 4m}}\n{workflow}"));
    let output = project.burnin(&["run", "w.yaml", "--output", "json"]);
    let document = json(&output);
    assert_eq!(output.status.code(), Some(1), "{document}");
    assert_eq!(document["checks"][0]["reasons"][0], "SOAK_DECLINE", "{document}");
    let run = document["run"].as_str().unwrap();
    let shown = json(&project.burnin(&["show", run, "--output", "json"]));
    assert_eq!(shown["suspects"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(shown["suspects"][0]["host"], "node-1");
    let html = String::from_utf8(project.burnin(&["show", run, "--output", "html"]).stdout).unwrap();
    assert!(html.contains("<h2>Rounds</h2>"), "the rounds are shown");
    // The page states the time to the first error, and its round.
    let passed = document["checks"][0]["rounds_passed"].as_u64().unwrap();
    let (_, rest) = html.split_once("ended after ").unwrap_or_else(|| panic!("{html}"));
    let (sentence, _) = rest.split_once(" did not pass").unwrap();
    let (lasted, round) =
        sentence.split_once(" of 4m 00s, because round ").unwrap_or_else(|| panic!("{sentence}"));
    assert_eq!(round.parse(), Ok(passed + 1), "{sentence}");
    let number = |text: &str| text.trim_end_matches('s').parse::<f64>().unwrap();
    let seconds =
        lasted.split_once("m ").map_or_else(|| number(lasted), |(m, s)| 60.0 * number(m) + number(s));
    // Each round lasts 0.2 s or more, and the soak ends at the first decline.
    assert!(seconds >= 0.2 * round.parse::<f64>().unwrap() && seconds < 240.0, "{sentence}");
    let text = String::from_utf8(project.burnin(&["show", run]).stdout).unwrap();
    assert!(text.contains(&format!("ended after {sentence} did not pass")), "{text}");
    project.assert_nothing_left();
}

#[test]
fn a_soak_that_cannot_run_is_refused_with_its_field() {
    let project = project("", &["name: a, criteria: criteria.yaml"]);
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    for (soak, field) in [
        ("{for: 5s}", "soak.for: expected 10s to 168h"),
        ("{for: 169h}", "soak.for: expected 10s to 168h"),
        ("{for: 1h, drift: 2}", "soak.drift: "),
        ("{for: 100h}", "limits.lease: "),
        ("{}", "soak: lacks the field `for`"),
    ] {
        project.write("w.yaml", &format!("soak: {soak}\n{workflow}"));
        let output = project.burnin(&["check", "w.yaml"]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.contains(field)), (Some(64), true), "{soak}: {stderr}");
    }
}
