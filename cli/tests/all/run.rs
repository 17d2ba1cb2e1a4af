//! Whole runs on the command line.

use std::{fs, process::Command};

use crate::support::{TestProject, json, signal, wait_for};

#[test]
fn a_successful_run_passes_and_its_files_match_the_manifests() {
    let project = TestProject::new("", "");
    let output = project.burnin(&["run", "w.yaml", "--output", "json"]);
    let document = json(&output);
    assert_eq!(output.status.code(), Some(0), "{document}");
    assert_eq!(document["schema"], "burnin/run/v1");
    assert_eq!((&document["conclusion"], &document["verdict"]), (&"completed".into(), &"pass".into()));
    let run = document["run"].as_str().unwrap();

    let page = fs::read_to_string(document["report"].as_str().unwrap()).unwrap();
    assert!(page.contains("<svg") && page.contains(run));
    let entries = project.entries();
    assert_eq!(entries.len(), 12, "{entries:?}");
    assert_eq!(
        project.counts(),
        [("builds", 1), ("rank-0", 1), ("rank-1", 1), ("rank-2", 1)]
            .map(|(name, count)| (name.to_owned(), count))
    );

    // Every byte in the bucket matches its manifest.
    let logs = project.data().join("artefacts").join(run).join("logs/1");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(logs.join("manifest.json")).unwrap()).unwrap();
    let objects = manifest["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 3);
    for object in objects {
        let path = logs.join(object["name"].as_str().unwrap());
        let sum = Command::new("sha256sum").arg(&path).output().unwrap();
        assert!(String::from_utf8(sum.stdout).unwrap().starts_with(object["sha256"].as_str().unwrap()));
    }
    let warehouse = rusqlite::Connection::open(project.data().join("warehouse.sqlite")).unwrap();
    let rows: i64 = warehouse
        .query_row(
            "SELECT count(*) FROM measurements WHERE run = ?1 AND busbw >= 0 AND wrong = 0",
            [run],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(rows, 4 * 2, "each size and placement has one row");
    project.assert_nothing_left();

    let shown = project.burnin(&["show", run]);
    assert!(String::from_utf8(shown.stdout).unwrap().contains("PASS"));
    let replayed = String::from_utf8(project.burnin(&["replay", run]).stdout).unwrap();
    assert!(replayed.contains("run.requested") && replayed.contains("closed: completed"), "{replayed}");
    let explained = String::from_utf8(project.burnin(&["explain", run]).stdout).unwrap();
    assert!(
        explained.contains("completed, verdict pass") && explained.contains("owed     nothing"),
        "{explained}"
    );
    let shown = json(&project.burnin(&["show", run, "--output", "json"]));
    assert_eq!((&shown["schema"], shown["stages"].as_array().unwrap().len()), (&"burnin/show/v1".into(), 7));
    let listed = json(&project.burnin(&["runs", "--output", "json"]));
    assert_eq!(listed["runs"][0]["verdict"], "pass");
}

/// Records never change, so the process that wrote a record does not read it. The ledger is listed once a second.
#[test]
fn a_run_lists_its_ledger_at_most_40_times_and_reads_at_most_30_records() {
    let project = TestProject::new("", "");
    let output = project.burnin(&["--log", "burnin::store=trace", "run", "w.yaml", "--output", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(project.entries().len(), 12);
    let log = String::from_utf8(output.stderr).unwrap();
    let requests = |kind: &str| {
        let wanted = format!("kind={kind} name=\"ledger/");
        log.lines().filter(|line| line.contains(&wanted)).map(str::to_owned).collect::<Vec<_>>()
    };
    let (creates, lists, reads) = (requests("Create"), requests("List"), requests("Read"));
    assert_eq!(creates.len(), 12, "each record is created by one request:\n{log}");
    assert!(
        (12..=40).contains(&lists.len()),
        "expected 12 to 40 list requests to the ledger, found {}",
        lists.len()
    );
    assert!(reads.len() <= 30, "expected at most 30 reads of records, found {}", reads.len());
    let again: Vec<_> = reads.iter().filter(|read| read.contains("found=true")).collect();
    assert!(again.is_empty(), "this process wrote every record: {again:?}");
}

/// The quickstart on a host with two stand-ins on the PATH: `nvidia-smi` lists two GPUs, and `all_reduce_perf` marks its log
/// and runs the quickstart's benchmark.
#[test]
fn the_quickstart_uses_existing_gpus_and_nccl_tests() {
    let project = TestProject::new("", "");
    project.write(
        "bin/nvidia-smi",
        "#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-1)'\necho 'GPU 1: NVIDIA H200 (UUID: GPU-2)'\n",
    );
    project.write(
        "bin/all_reduce_perf",
        &format!(
            "#!/bin/sh\necho '# the installed program, with' \"$@\"\nexec '{}' \"$@\"\n",
            crate::support::bench().display()
        ),
    );
    for program in ["bin/nvidia-smi", "bin/all_reduce_perf"] {
        fs::set_permissions(project.path(program), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/../workflows/quickstart.yaml");
    let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
    let arguments =
        ["run", quickstart, "--output", "json", "--set", "checks.all-reduce.workload.max_bytes=1K"];
    let set = format!("checks.all-reduce.criteria={}", project.path("criteria.yaml").display());
    let arguments: Vec<_> = arguments.into_iter().chain(["--set", set.as_str()]).collect();
    let output = project.command(&arguments).env("PATH", path).output().unwrap();
    let document = json(&output);
    assert_eq!(output.status.code(), Some(0), "{document}");
    let logs = project.data().join("artefacts").join(document["run"].as_str().unwrap()).join("logs/1/1");
    let log = fs::read_to_string(logs.join("node-0.log")).unwrap();
    assert!(log.starts_with("# the installed program, with -b 16 -e 1024") && log.contains("-g 2"), "{log}");
    assert_eq!(fs::read_dir(logs).unwrap().count(), 1, "one node, and so one log, has both slots");
    project.assert_nothing_left();
}

/// A single GPU without nccl-tests: four processes run the ring, because one rank would measure no link.
#[test]
fn with_one_gpu_and_no_nccl_tests_the_quickstart_measures_the_cpu_ring() {
    let project = TestProject::new("", "");
    project.write("bin/nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-1)'\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(project.path("bin/nvidia-smi"), mode).unwrap();
    let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/../workflows/quickstart.yaml");
    let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
    let criteria = format!("checks.all-reduce.criteria={}", project.path("criteria.yaml").display());
    for collective in ["all_reduce", "all_gather", "alltoall"] {
        let collective = format!("checks.all-reduce.workload.collective={collective}");
        let mut command = project.command(&["run", quickstart, "--output", "json", "--set", &collective]);
        let sizes = ["--set", "checks[0].workload.max_bytes=4K", "--set", &criteria];
        let output = command.args(sizes).env("PATH", &path).output().unwrap();
        let document = json(&output);
        assert_eq!((output.status.code(), &document["verdict"]), (Some(0), &"pass".into()), "{document}");
        let logs = project.data().join("artefacts").join(document["run"].as_str().unwrap());
        assert_eq!(fs::read_dir(logs.join("logs/1/1")).unwrap().count(), 4, "each of four nodes has a log");
        let build = fs::read_to_string(logs.join("image/1/build.log")).unwrap();
        assert!(
            build.contains("no GPU, or nccl-tests is not on the PATH"),
            "the build log gives the reason: {build}"
        );
    }
    project.assert_nothing_left();
}

#[test]
fn wrong_data_fails() {
    let project = TestProject::new("export BURNIN_FAULT=corrupt:1", "");
    let output = project.burnin(&["run", "w.yaml", "--output", "json"]);
    let document = json(&output);
    assert_eq!((output.status.code(), &document["verdict"]), (Some(1), &"fail".into()));
    let shown = String::from_utf8(project.burnin(&["show", &project.run()]).stdout).unwrap();
    assert!(shown.contains("WRONG_DATA"), "{shown}");
    project.assert_nothing_left();
}

/// The work folder of node-2 enables the fault, so the fault is on node-2 for any rank number.
#[test]
fn the_bad_node_is_located_before_the_cluster_is_released() {
    let project =
        TestProject::new("case $PWD in */node-2) export BURNIN_FAULT=corrupt:$BURNIN_RANK ;; esac", "");
    // With other tests running, good pairs differ widely.
    let output = project.burnin(&["run", "w.yaml", "--set", "locate.tolerance=0.95", "--output", "json"]);
    let document = json(&output);
    assert_eq!((output.status.code(), &document["verdict"]), (Some(1), &"fail".into()), "{document}");
    let suspects = &document["suspects"];
    let named: Vec<_> = suspects["nodes"].as_array().unwrap().iter().map(|node| &node["node"]).collect();
    assert_eq!(named, ["node-2"], "{suspects}");
    let drained = &suspects["nodes"][0]["drained"]["left"]["why"];
    assert!(drained.as_str().unwrap().contains("cannot be drained"), "{suspects}");
    let shown = String::from_utf8(project.burnin(&["show", &project.run()]).stdout).unwrap();
    assert!(shown.contains("bad node: node-2"), "{shown}");
    let page = fs::read_to_string(document["report"].as_str().unwrap()).unwrap();
    assert!(page.contains("bad node: node-2"));
    project.assert_nothing_left();
}

#[test]
fn a_hanging_run_is_inconclusive_and_released() {
    let project = TestProject::new("export BURNIN_FAULT=hang:2", "");
    let output = project.burnin(&[
        "run",
        "w.yaml",
        "--set",
        "limits.job=4s",
        "--set",
        "limits.grace=2s",
        "--output",
        "json",
    ]);
    let document = json(&output);
    assert_eq!((output.status.code(), &document["verdict"]), (Some(2), &"inconclusive".into()), "{document}");
    project.assert_nothing_left();
}

#[test]
fn a_failed_image_build_ends_the_run_and_names_the_step() {
    let project = TestProject::new("", "");
    project.write(
        "image.yaml",
        "steps:\n  - id: compile\n    name: bash\n    script: |\n      echo no such compiler\n      exit 7\n",
    );
    project.write("w.yaml", "name: lab\nimage:\n  build: {config: image.yaml}\n");
    let output = project.burnin(&["run", "w.yaml"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{shown}");
    assert!(shown.contains("compile") && shown.contains("no such compiler"), "{shown}");
}

#[test]
fn build_secrets_are_available_and_never_stored() {
    let project = TestProject::new("", "");
    project.write(
        "image.yaml",
        r#"
steps:
  - id: login
    name: bash
    secretEnv: [TOKEN]
    script: |
      #!/usr/bin/env bash
      echo "token: $TOKEN"
      echo "length: ${#TOKEN}"
availableSecrets:
  secretManager:
    - {versionName: projects/p/secrets/registry-token/versions/latest, env: TOKEN}
"#,
    );
    project.write("w.yaml", "name: lab\nimage:\n  build: {config: image.yaml}\n");
    let missing = project.burnin(&["run", "w.yaml"]);
    let stdout = String::from_utf8(missing.stdout).unwrap();
    assert_eq!(missing.status.code(), Some(3));
    assert!(stdout.contains("registry-token") || stdout.contains("TOKEN"), "{stdout}");

    project.write("data/secrets/registry-token", "hunter2-hunter2\n");
    let output = project.burnin(&["run", "w.yaml", "--output", "json"]);
    let document = json(&output);
    assert_eq!(output.status.code(), Some(0), "{document}");
    let run = document["run"].as_str().unwrap();
    let log =
        fs::read_to_string(project.data().join("artefacts").join(run).join("image/1/build.log")).unwrap();
    assert!(log.contains("token: ***") && log.contains("length: 15"), "{log}");
    let found = Command::new("grep").args(["-rl", "hunter2"]).arg(project.data()).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert_eq!(
        found.trim(),
        project.data().join("secrets/registry-token").display().to_string(),
        "only the secret's own file contains it"
    );
}

/// A build that prints undeclared secrets: a token, and the content of a file in `secrets/`.
#[test]
fn build_output_is_redacted_before_it_is_stored_or_reported() {
    let project = TestProject::new("", "");
    project.write("data/secrets/unrelated", "correct-horse-battery\n");
    let token = format!("ghp_{}", "Ab3dE5fGh1".repeat(4));
    for exit in [0, 7] {
        // The script assembles the secrets at run time, because the source archive must not contain them.
        let script = format!(
            "printf 'using correct-horse-%s\\n' battery\nprintf 'a-token-of-%s\\n' the-operator\n\
             printf 'failed with ghp_%s\\n' \"$(printf 'Ab3dE5fGh1%.0s' 1 2 3 4)\"\nexit {exit}\n"
        );
        project.write("source/step.sh", &script);
        project.write(
            "image.yaml",
            "steps: [{id: leak, name: bash, automapSubstitutions: true, script: \"bash step.sh\"}]\n",
        );
        project.write("w.yaml", "name: lab\nimage:\n  build: {config: image.yaml, source: source}\n");
        let output =
            project.command(&["run", "w.yaml"]).env("MY_API_TOKEN", "a-token-of-the-operator").output();
        let output = output.unwrap();
        let shown =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(if exit == 0 { 0 } else { 3 }), "{shown}");
        assert!(exit == 0 || shown.contains("failed with [redacted:git-token]"), "{shown}");
        for secret in ["correct-horse-battery", token.as_str()] {
            assert!(!shown.contains(secret), "{shown}");
            let found = Command::new("grep").args(["-rl", secret]).arg(project.data()).output().unwrap();
            let found = String::from_utf8(found.stdout).unwrap();
            let own = project.data().join("secrets/unrelated").display().to_string();
            assert!(found.lines().all(|file| file == own), "{secret} was found in {found}");
        }
        // Only the process that stores the log has this secret in its environment; the build's supervisor does not.
        for folder in ["artefacts", "ledger", "reports"] {
            let place = project.data().join(folder);
            let found = Command::new("grep").args(["-rl", "a-token-of-the-operator"]).arg(place).output();
            assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "", "{folder}");
        }
    }
}

#[test]
fn a_run_with_a_dead_node_passes_in_a_second_attempt() {
    // The first start of a rank waits to be killed; the second start completes.
    let project = TestProject::new(
        r#"if [[ $(wc -l < "$(dirname "$0")/../../../../../../counts/rank-$BURNIN_RANK") == 1 ]]; then sleep 60; fi"#,
        "",
    );
    let run = project.start();
    let counts = project.path("counts/rank-1");
    wait_for("the job to start", || counts.exists());
    let clusters = project.data().join("host/clusters");
    let leader = fs::read_dir(clusters).unwrap().next().unwrap().unwrap().path().join("nodes/node-1/leader");
    let leader: serde_json::Value = serde_json::from_slice(&fs::read(leader).unwrap()).unwrap();
    signal("-KILL", u32::try_from(leader["id"].as_u64().unwrap()).unwrap());
    let output = run.wait_with_output().unwrap();
    let document = json(&output);
    assert_eq!(output.status.code(), Some(0), "{document} {}", String::from_utf8_lossy(&output.stderr));
    let entries = project.entries();
    assert!(entries.contains(&"attempt_opened".to_owned()), "{entries:?}");
    assert_eq!(
        entries.iter().filter(|entry| *entry == "cluster.deleted").count(),
        2,
        "both clusters were released"
    );
    project.assert_nothing_left();
}

#[test]
fn an_interrupt_cancels_and_releases_everything() {
    let project = TestProject::new("sleep 60", "");
    let run = project.start();
    wait_for("the job to start", || project.path("counts/rank-0").exists());
    signal("-INT", run.id());
    let output = run.wait_with_output().unwrap();
    let document = json(&output);
    assert_eq!((output.status.code(), &document["conclusion"]), (Some(4), &"cancelled".into()));
    project.assert_nothing_left();
}

#[test]
fn a_run_can_be_cancelled_from_another_terminal() {
    let project = TestProject::new("sleep 60", "");
    let run = project.start();
    wait_for("the job to start", || project.path("counts/rank-0").exists());
    let cancelled = project.burnin(&["cancel", &project.run(), "--reason", "lunch"]);
    assert_eq!(cancelled.status.code(), Some(0));
    let output = run.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &json(&output)["conclusion"]), (Some(4), &"cancelled".into()));
    project.assert_nothing_left();
}

#[test]
fn an_invalid_file_is_reported_and_no_run_is_started() {
    let project = TestProject::new("", "");
    project.write("w.yaml", "name: lab\ncolour: red\n");
    let output = project.burnin(&["run", "w.yaml"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("error: colour: is not a known field\n --> w.yaml:2:1\n")
    );
    assert!(!project.data().exists(), "no data folder was created");
    for wrong in
        [&["run"][..], &["run", "nope.yaml"], &["show", "no-such-run"], &["frobnicate"], &["show", "../x"]]
    {
        assert_eq!(project.burnin(wrong).status.code(), Some(64), "{wrong:?}");
    }
    assert_eq!(project.burnin(&["--help"]).status.code(), Some(0));
    assert!(project.burnin(&["completions", "bash"]).stdout.len() > 1000);
}
