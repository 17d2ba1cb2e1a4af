//! Kills a run at any point and resumes it: no build, cluster or job is repeated, no log is lost, and no process keeps running.

use crate::support::{TestProject, json, signal, wait_for};

/// Kills the run when `until` returns true, and resumes it. `what` describes the condition.
fn kill_and_resume(what: &str, until: impl Fn(&TestProject) -> bool) {
    let project = TestProject::new("sleep 0.3", "");
    let mut run = project.start();
    wait_for(what, || until(&project) || run.try_wait().unwrap().is_some());
    if run.try_wait().unwrap().is_none() {
        signal("-KILL", run.id());
    }
    run.wait().unwrap();
    let before = project.records();
    let output = project.burnin(&["run", "--resume", "--output", "json"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if before == 0 {
        assert_eq!(output.status.code(), Some(64), "nothing was started: {stderr}");
        return;
    }
    let ended_before_the_signal = output.status.code() == Some(64) && stderr.contains("no unfinished run");
    if !ended_before_the_signal {
        let document = json(&output);
        assert_eq!(
            (output.status.code(), &document["verdict"]),
            (Some(0), &"pass".into()),
            "{what}: {document} {stderr}"
        );
    }
    project.assert_each_fact_once(1, what);
    for (name, count) in project.counts() {
        assert_eq!(count, 1, "{what}: {name} was started {count} times");
    }
    assert_eq!(project.counts().len(), 4);
    project.assert_nothing_left();
}

macro_rules! killed_after {
    ($($name:ident: $records:literal;)*) => {
        $(#[test]
        fn $name() {
            kill_and_resume(stringify!($name), |project| project.records() >= $records);
        })*
    };
}

killed_after! {
    the_request: 1;
    the_image_was_accepted: 2;
    the_image_was_built: 3;
    the_cluster_was_accepted: 4;
    the_cluster_was_ready: 5;
    the_job_was_accepted: 6;
    the_job_was_done: 7;
    the_logs_were_collected: 8;
    the_results_were_loaded: 9;
    the_verdict_was_reached: 10;
    the_cluster_was_deleted: 11;
}

#[test]
fn a_kill_before_the_first_record_repeats_no_work() {
    kill_and_resume("the data folder", |project| project.data().join("locks").exists());
}

#[test]
fn a_kill_during_the_build_repeats_no_work() {
    kill_and_resume("the build", |project| project.path("counts/builds").exists());
}

#[test]
fn a_kill_during_the_job_repeats_no_work() {
    kill_and_resume("a rank", |project| project.path("counts/rank-2").exists());
}

#[test]
fn a_kill_during_the_collection_repeats_no_work() {
    kill_and_resume("a stored log", |project| {
        project.records() >= 7 && project.data().join("artefacts").join(project.run()).join("logs").exists()
    });
}

#[test]
fn a_run_without_its_hint_resumes() {
    let project = TestProject::new("sleep 0.3", "");
    let mut run = project.start();
    wait_for("a rank", || project.path("counts/rank-1").exists());
    signal("-KILL", run.id());
    run.wait().unwrap();
    std::fs::remove_file(project.data().join("open").join(project.run())).unwrap();
    let output = project.burnin(&["run", "--resume", "--output", "json"]);
    assert_eq!(json(&output)["verdict"], "pass");
    assert_eq!(project.burnin(&["run", "--resume"]).status.code(), Some(64), "no further unfinished run");
    project.assert_nothing_left();
}

/// Repeated kills at random moments.
#[test]
fn repeated_kills_cause_no_repeated_work() {
    let project = TestProject::new("sleep 0.3", "");
    let mut run = project.start();
    let mut pause = 40;
    for round in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(pause));
        if let Some(ended) = run.try_wait().unwrap() {
            let output = run.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            let done = ended.success() || (ended.code() == Some(64) && stderr.contains("no unfinished run"));
            assert!(done, "round {round}: {ended} {stderr}");
            if project.records() == 0 {
                run = project.start(); // the process was killed before its request
                continue;
            }
            project.assert_each_fact_once(1, &format!("round {round}"));
            assert!(project.counts().iter().all(|(_, count)| *count == 1), "{:?}", project.counts());
            project.assert_nothing_left();
            return;
        }
        signal("-KILL", run.id());
        run.wait().unwrap();
        // The pause grows with each round, because on a slow host a process needs more time before its first step.
        pause = 40 + (round * 37) % 400 + 5 * round;
        let arguments = ["run", "--resume", "--output", "json"];
        run = project
            .command(&arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
    }
    panic!("timeout: the run has not ended after 200 rounds: {:?}", project.entries());
}
