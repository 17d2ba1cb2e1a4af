use cloudbuild::{BuildEvent, BuildStatus, Secret};
use serde_json::{Value, json};

use crate::bed::BuildHost;

fn sh(id: &str, script: &str) -> Value {
    json!({"name": "bash", "id": id, "script": script})
}

fn statuses(outcome: &cloudbuild::PlanOutcome) -> Vec<BuildStatus> {
    outcome.steps.iter().map(|step| step.status).collect()
}

#[tokio::test]
async fn steps_share_the_workspace_and_run_in_their_directory() {
    let bed = BuildHost::new();
    let outcome = bed
        .run(json!({"steps": [
            {"name": "ubuntu", "args": ["mkdir", "-p", "made"]},
            {"name": "ubuntu", "dir": "made/deeper", "args": ["bash", "-c", "pwd; echo hello > out"]},
            {"name": "bash", "dir": "made", "script": "#!/usr/bin/env bash\n[[ -f deeper/out ]] && cat deeper/out"},
            {"name": "bash", "entrypoint": "cat", "args": ["made/deeper/out"]},
        ]}))
        .await;
    assert_eq!(outcome.status, BuildStatus::Success, "{}", bed.log());
    assert_eq!(outcome.failure, None);
    assert!(outcome.steps.iter().all(|step| step.exit_code == Some(0) && step.started <= step.ended));
    let made = bed.path("made/deeper").canonicalize().unwrap();
    assert_eq!(bed.output(), [made.to_str().unwrap(), "hello", "hello"]);
}

#[tokio::test]
async fn steps_run_in_parallel_if_the_config_permits_it() {
    let bed = BuildHost::new();
    // Each of the two steps waits for a file of the other step: run one after the other, they would never end.
    let meet = |mine: &str, other: &str| format!("mkfifo {mine}; until [ -p {other} ]; do sleep 0.01; done");
    let config = json!({"timeout": "20s", "steps": [
        sh("first", "true"),
        {"name": "bash", "id": "left", "waitFor": ["first"], "script": meet("l", "r")},
        {"name": "bash", "id": "right", "waitFor": ["first"], "script": meet("r", "l")},
        {"name": "bash", "id": "free", "waitFor": ["-"], "script": "true"},
        sh("last", "true"),
    ]});
    let outcome = bed.run(config).await;
    assert_eq!(outcome.status, BuildStatus::Success, "{}", bed.log());
    let events = bed.events();
    let started = |step: usize| {
        events
            .iter()
            .position(|e| matches!(e, BuildEvent::StepStarted { index, .. } if *index == step))
            .unwrap()
    };
    let ended = |step: usize| {
        events
            .iter()
            .position(|e| matches!(e, BuildEvent::StepEnded { index, .. } if *index == step))
            .unwrap()
    };
    assert!(ended(0) < started(1) && ended(0) < started(2));
    assert!(started(1) < ended(2) && started(2) < ended(1), "both steps ran at the same time");
    assert!(started(3) < ended(0), "`-` starts without waiting");
    assert!(
        (0..4).all(|step| ended(step) < started(4)),
        "a step without waitFor waits for all earlier steps"
    );
    let groups =
        events.iter().filter(|e| matches!(e, BuildEvent::ProcessGroup { pgid, .. } if *pgid > 1)).count();
    assert_eq!(groups, 5);
}

#[tokio::test]
async fn a_failure_ends_the_build() {
    let bed = BuildHost::new();
    let outcome = bed
        .run(json!({"steps": [
            sh("good", "true"),
            {"name": "bash", "id": "beside", "waitFor": ["good"], "script": "sleep 100"},
            {"name": "bash", "id": "bad", "waitFor": ["good"], "script": "echo why >&2; exit 7"},
            sh("never", "touch never"),
        ]}))
        .await;
    assert_eq!(outcome.status, BuildStatus::Failure);
    assert_eq!(
        statuses(&outcome),
        [BuildStatus::Success, BuildStatus::Cancelled, BuildStatus::Failure, BuildStatus::Queued]
    );
    assert_eq!(outcome.failure.as_deref(), Some("step 2 (bad) ended with exit code 7"));
    assert_eq!(outcome.steps[2].exit_code, Some(7));
    assert!(!bed.path("never").exists() && outcome.steps[3].started.is_none());
    assert!(bed.log().contains("Step #2 - \"bad\": why\n"), "{}", bed.log());
    assert!(bed.log().ends_with("ERROR: step 2 (bad) ended with exit code 7\nFAILURE\n"), "{}", bed.log());
}

#[tokio::test]
async fn tolerated_failures_do_not_end_the_build() {
    let table = [
        (json!({"allowFailure": true}), 3, true),
        (json!({"allowFailure": false}), 3, false),
        (json!({"allowExitCodes": [3, 4]}), 3, true),
        (json!({"allowExitCodes": [4]}), 3, false),
        (json!({"allowExitCodes": [4], "allowFailure": true}), 3, false),
        (json!({"allowFailure": true}), 0, true),
    ];
    for (fields, code, continues) in table {
        let bed = BuildHost::new();
        let mut step = sh("a", &format!("exit {code}"));
        step.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let outcome = bed.run(json!({"steps": [step, sh("b", "true")]})).await;
        let of = |well| if well { BuildStatus::Success } else { BuildStatus::Failure };
        assert_eq!(outcome.status, of(continues), "{fields}");
        let second = if continues { BuildStatus::Success } else { BuildStatus::Queued };
        assert_eq!(statuses(&outcome), [of(code == 0), second], "{fields}");
    }
}

#[tokio::test]
async fn missing_tools_are_reported_before_the_build_starts() {
    let bed = BuildHost::new();
    let outcome = bed
        .run(json!({"steps": [
            sh("first", "touch ran"),
            {"name": "gcr.io/x/no-such-tool:1", "id": "deploy"},
            {"name": "python", "script": "#!/no/such/python\n"},
            {"name": "ubuntu", "script": "#!/usr/bin/env -S no-such-shell -e\n"},
            {"name": "ubuntu", "entrypoint": "./made-by-a-step"},
        ]}))
        .await;
    assert_eq!(outcome.status, BuildStatus::Failure);
    assert!(
        statuses(&outcome).iter().all(|&status| status == BuildStatus::Queued) && !bed.path("ran").exists()
    );
    let failure = outcome.failure.unwrap();
    let lines: Vec<&str> = failure.lines().collect();
    assert_eq!(lines.len(), 3, "{failure}");
    assert_eq!(
        lines[0],
        "step 1 (deploy): image gcr.io/x/no-such-tool:1 would have to be pulled, which the local runner cannot do; \
         the tool `no-such-tool` is not on the PATH; install it or map the builder with `tools`: \
         {\"gcr.io/x/no-such-tool:1\": TOOL}"
    );
    assert!(lines[1].contains("/no/such/python") && lines[2].contains("`no-such-shell`"), "{failure}");
}

#[tokio::test]
async fn a_tool_that_cannot_start_fails_its_step() {
    let bed = BuildHost::new();
    let outcome = bed.run(json!({"steps": [{"name": "x", "entrypoint": "./missing"}]})).await;
    assert_eq!(outcome.status, BuildStatus::Failure);
    assert!(outcome.failure.unwrap().starts_with("step 0 could not be started: "));
}

#[tokio::test]
async fn a_working_directory_linked_outside_the_workspace_is_rejected() {
    let bed = BuildHost::new();
    std::os::unix::fs::symlink(bed.outside(), bed.path("link")).unwrap();
    for dir in ["link", "link/sub"] {
        let outcome = bed.run(json!({"steps": [{"name": "bash", "dir": dir, "script": "touch here"}]})).await;
        assert_eq!(outcome.status, BuildStatus::Failure);
        assert!(outcome.failure.unwrap().contains("is outside the workspace"));
    }
    assert!(!bed.outside().join("here").exists() && !bed.outside().join("sub").exists());
}

#[tokio::test]
async fn a_missing_workspace_is_an_internal_error() {
    let mut bed = BuildHost::new();
    bed.request.workspace = bed.outside().join("gone");
    let outcome = bed.run(json!({"steps": [sh("a", "true")]})).await;
    assert_eq!(outcome.status, BuildStatus::InternalError);
}

#[tokio::test]
async fn a_step_receives_only_the_declared_environment() {
    let mut bed = BuildHost::new();
    bed.request.environment =
        vec![("PATH".into(), std::env::var_os("PATH").unwrap()), ("LANG".into(), "C".into())];
    bed.inputs.secrets.insert("token".to_owned(), Secret::new("s3cret"));
    let outcome = bed
        .run(json!({
            "steps": [{"name": "ubuntu", "args": ["env"], "env": ["B=step", "LANG=de"], "secretEnv": ["TOKEN"]}],
            "options": {"env": ["A=all", "B=all"]},
            "availableSecrets": {"secretManager": [
                {"versionName": "projects/p/secrets/token/versions/1", "env": "TOKEN"}]},
        }))
        .await;
    assert_eq!(outcome.status, BuildStatus::Success);
    let mut seen: Vec<String> = bed.output();
    seen.retain(|line| !line.starts_with("PATH="));
    seen.sort();
    assert_eq!(seen, ["A=all", "B=step", "LANG=de", "TOKEN=***"]);
}

#[tokio::test]
async fn artifacts_are_measured_after_success() {
    let bed = BuildHost::new();
    let objects = |paths: Value| json!({"objects": {"location": "gs://b/", "paths": paths}});
    let make = sh("make", "mkdir -p out/deep; printf abc > out/one; : > out/.two; printf x > out/deep/three");
    let outcome = bed
        .run(json!({"steps": [make], "artifacts": objects(json!(["out/*", "**/three"])), "images": ["i"]}))
        .await;
    assert_eq!(outcome.status, BuildStatus::Success, "{:?}", outcome.failure);
    assert_eq!(outcome.images, ["i"]);
    let found: Vec<(&str, u64, &str)> =
        outcome.artifacts.iter().map(|file| (&file.name[..], file.size_bytes, &file.sha256[..8])).collect();
    assert_eq!(found, [(".two", 0, "e3b0c442"), ("one", 3, "ba7816bf"), ("three", 1, "2d711642")]);
    assert_eq!(
        outcome.artifacts[1].sha256,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(std::fs::read(&outcome.artifacts[1].path).unwrap(), b"abc");

    std::os::unix::fs::symlink("/etc/passwd", bed.path("leak")).unwrap();
    for (paths, part) in [
        (json!(["nothing/*"]), "no file matches \"nothing/*\""),
        (json!(["leak"]), "is outside the workspace"),
        (json!(["out/one", "other/one"]), "would both be stored as \"one\""),
    ] {
        let steps = [sh("make", "mkdir -p other; printf z > other/one")];
        let outcome = bed.run(json!({"steps": steps, "artifacts": objects(paths)})).await;
        assert_eq!(outcome.status, BuildStatus::Failure);
        assert!(outcome.failure.as_ref().unwrap().contains(part), "{part}: {:?}", outcome.failure);
        assert!(outcome.artifacts.is_empty());
    }
}
