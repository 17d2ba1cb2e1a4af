use std::time::{Duration, Instant};

use cloudbuild::{BuildEvent, BuildStatus, local};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bed::{BuildHost, is_gone};

/// A step with a child process, and with another process that ignores SIGTERM.
const FAMILY: &str = "sleep 100 & echo $! > child
sh -c 'trap \"\" TERM; echo $$ > stubborn.part; mv stubborn.part stubborn; while :; do sleep 0.05; done' &
wait";

#[tokio::test]
async fn a_steps_time_limit_ends_its_whole_group() {
    let bed = BuildHost::new();
    let started = Instant::now();
    let outcome = bed
        .run(json!({"steps": [
            {"name": "bash", "id": "slow", "timeout": "1.5s", "script": FAMILY},
            {"name": "bash", "id": "never", "script": "true"},
        ]}))
        .await;
    assert_eq!(
        outcome.status,
        BuildStatus::Failure,
        "a timeout of a step fails the build, as in Cloud Build"
    );
    assert_eq!(outcome.steps[0].status, BuildStatus::Timeout);
    assert_eq!(outcome.steps[1].status, BuildStatus::Queued);
    assert_eq!(outcome.failure.as_deref(), Some("step 0 (slow) took longer than its timeout of 1.5s"));
    assert!(is_gone(bed.pid("child").await) && is_gone(bed.pid("stubborn").await));
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_group_gets_its_grace_period() {
    let mut bed = BuildHost::new();
    bed.request.grace = Duration::from_secs(20);
    // The child process, and not the step's own process, performs the cleanup.
    let script =
        "(trap 'sleep 0.2; touch tidy; exit' TERM; touch ready; while :; do sleep 0.02; done) & wait";
    let outcome = bed.run(json!({"steps": [{"name": "bash", "timeout": "1.5s", "script": script}]})).await;
    assert_eq!(outcome.steps[0].status, BuildStatus::Timeout);
    assert!(bed.path("ready").exists() && bed.path("tidy").exists(), "{}", bed.log());
}

#[tokio::test]
async fn the_builds_time_limit_ends_all_steps() {
    let bed = BuildHost::new();
    let outcome = bed
        .run(json!({"timeout": "1.5s", "steps": [
            {"name": "bash", "waitFor": ["-"], "script": FAMILY},
            {"name": "bash", "waitFor": ["-"], "allowFailure": true, "script": "sleep 100"},
            {"name": "bash", "script": "true"},
        ]}))
        .await;
    assert_eq!(outcome.status, BuildStatus::Timeout);
    let statuses: Vec<BuildStatus> = outcome.steps.iter().map(|step| step.status).collect();
    assert_eq!(statuses, [BuildStatus::Timeout, BuildStatus::Timeout, BuildStatus::Queued]);
    assert_eq!(outcome.failure.as_deref(), Some("the build took longer than its timeout of 1.5s"));
    assert!(is_gone(bed.pid("child").await) && is_gone(bed.pid("stubborn").await));
}

#[tokio::test]
async fn an_allowed_failure_may_be_a_timeout() {
    let bed = BuildHost::new();
    let slow = json!({"name": "bash", "timeout": "0.2s", "allowFailure": true, "script": "sleep 100"});
    let outcome = bed.run(json!({"steps": [slow, {"name": "bash", "script": "true"}]})).await;
    assert_eq!((outcome.status, outcome.steps[0].status), (BuildStatus::Success, BuildStatus::Timeout));
}

#[tokio::test]
async fn a_cancel_ends_all_steps() {
    let bed = BuildHost::new();
    let config = json!({"steps": [
        {"name": "bash", "script": FAMILY},
        {"name": "bash", "script": "true"},
    ]});
    let (outcome, (child, stubborn)) = tokio::join!(bed.run(config), async {
        let pids = (bed.pid("child").await, bed.pid("stubborn").await);
        bed.cancel.cancel();
        pids
    });
    assert_eq!(outcome.status, BuildStatus::Cancelled);
    assert_eq!(outcome.steps[0].status, BuildStatus::Cancelled);
    assert_eq!(outcome.steps[1].status, BuildStatus::Queued);
    assert!(is_gone(child) && is_gone(stubborn));
    assert!(bed.log().ends_with("ERROR: the build was cancelled\nCANCELLED\n"));
}

#[tokio::test]
async fn a_build_cancelled_before_its_start_runs_no_step() {
    let bed = BuildHost::new();
    bed.cancel.cancel();
    let outcome = bed.run(json!({"steps": [{"name": "bash", "script": "touch ran"}]})).await;
    assert_eq!((outcome.status, outcome.steps[0].status), (BuildStatus::Cancelled, BuildStatus::Queued));
    assert!(!bed.path("ran").exists());
}

#[tokio::test]
async fn a_dropped_build_leaves_no_process() {
    let bed = BuildHost::new();
    let plan = bed.plan(json!({"steps": [{"name": "bash", "script": FAMILY}]}));
    let (child, stubborn) = {
        let build = std::pin::pin!(local::run(&plan, &bed.request, CancellationToken::new()));
        let pids = async { (bed.pid("child").await, bed.pid("stubborn").await) };
        tokio::select! {
            outcome = build => panic!("{outcome:?}"),
            pids = pids => pids,
        }
    };
    let started = Instant::now();
    while !(is_gone(child) && is_gone(stubborn)) {
        assert!(started.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn remaining_processes_of_a_step_are_killed() {
    let bed = BuildHost::new();
    let started = Instant::now();
    let outcome =
        bed.run(json!({"steps": [{"name": "bash", "script": "sleep 100 & echo $! > child; exit 0"}]})).await;
    assert_eq!(outcome.status, BuildStatus::Success);
    assert!(is_gone(bed.pid("child").await));
    assert!(started.elapsed() < Duration::from_secs(20), "the build does not wait for the child's output");
}

#[tokio::test]
async fn a_process_that_left_its_group_does_not_delay_the_build() {
    let bed = BuildHost::new();
    let outcome = bed
        .run(json!({"steps": [{"name": "bash", "script": "setsid sh -c 'echo $$ > far.part; mv far.part far; exec sleep 30' & \
             until [ -f far ]; do sleep 0.01; done"}]}))
        .await;
    assert_eq!(outcome.status, BuildStatus::Success, "{}", bed.log());
    let far = bed.pid("far").await;
    rustix::process::kill_process(far, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_step_ended_by_a_signal_has_the_exit_code_of_a_container() {
    let bed = BuildHost::new();
    let outcome = bed.run(json!({"steps": [{"name": "bash", "script": "kill -SEGV $$"}]})).await;
    assert_eq!(outcome.steps[0].exit_code, Some(139));
    let ended = bed.events().into_iter().any(|event| {
        matches!(event, BuildEvent::StepEnded { status: BuildStatus::Failure, exit_code: Some(139), .. })
    });
    assert!(ended && outcome.failure.unwrap().contains("exit code 139"));
}
