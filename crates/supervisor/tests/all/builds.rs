//! Builds as processes: started once, cancelled at any time, and ended when their supervisor is killed.

use std::{fs, thread};

use crate::support::{TestMachine, kill, runs, wait_for};
use cloudbuild::BuildStatus;
use supervisor::BuildState;

#[test]
fn a_build_that_is_started_twice_runs_once() {
    let bed = TestMachine::new();
    let request = bed.build("echo ran >> $WORLD/counter; echo one > made");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| bed.builds.start("b", &request).unwrap());
        }
    });
    assert_eq!(bed.outcome("b").status, BuildStatus::Success);
    bed.builds.start("b", &request).unwrap();
    assert_eq!(bed.outcome("b").status, BuildStatus::Success, "a later start finds the recorded result");
    assert_eq!(bed.text("counter"), "ran\n");
}

#[test]
fn a_build_runs_only_its_first_request() {
    let bed = TestMachine::new();
    bed.builds.start("b", &bed.build("echo first >> $WORLD/counter")).unwrap();
    bed.builds.start("b", &bed.build("echo second >> $WORLD/counter")).unwrap();
    bed.outcome("b");
    assert_eq!(bed.text("counter"), "first\n");
}

#[test]
fn a_supervisor_continues_after_its_parent_ends() {
    let bed = TestMachine::new();
    bed.builds.start("b", &bed.build("sleep 300")).unwrap();
    let supervisor = bed.supervisor("b");
    let group = |pid: i32| -> i32 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap().parse().unwrap()
    };
    assert_eq!(group(supervisor), supervisor, "Ctrl-C for the parent does not reach another process group");
}

#[test]
fn a_build_with_a_killed_supervisor_is_lost_and_its_orphans_are_ended() {
    let bed = TestMachine::new();
    bed.builds
        .start("b", &bed.build("sleep 300 & echo $! > $WORLD/child; echo $$ > $WORLD/step; wait"))
        .unwrap();
    let (step, child) = (bed.pid("step"), bed.pid("child"));
    kill(bed.supervisor("b"));
    wait_for("the loss to be reported", || {
        matches!(bed.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    assert!(runs(step) && runs(child), "the step is still running");

    bed.builds.record_end("b", BuildStatus::InternalError, "the supervisor ended").unwrap();
    assert!(!runs(step) && !runs(child), "the orphaned step has ended with its child");
    let outcome = bed.outcome("b");
    assert_eq!(
        (outcome.status, outcome.failure.as_deref()),
        (BuildStatus::InternalError, Some("the supervisor ended"))
    );

    bed.builds.record_end("b", BuildStatus::Cancelled, "again").unwrap();
    assert_eq!(bed.outcome("b").status, BuildStatus::InternalError, "the recorded end is final");
}

#[test]
fn steps_of_a_lost_build_are_ended_even_with_unrecorded_groups() {
    let bed = TestMachine::new();
    bed.builds
        .start("b", &bed.build("setsid sh -c 'echo $$ > $WORLD/hidden; sleep 300; sleep 300' & wait"))
        .unwrap();
    let hidden = bed.pid("hidden");
    kill(bed.supervisor("b"));
    wait_for("the loss to be reported", || {
        matches!(bed.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    fs::remove_dir_all(bed.builds.folder("b").join("groups")).ok();
    bed.builds.record_end("b", BuildStatus::InternalError, "the supervisor ended").unwrap();
    assert!(!runs(hidden));
}

#[test]
fn a_lost_build_is_not_restarted() {
    let bed = TestMachine::new();
    let request = bed.build("echo ran >> $WORLD/counter; echo $$ > $WORLD/step; sleep 300");
    bed.builds.start("b", &request).unwrap();
    let step = bed.pid("step");
    kill(bed.supervisor("b"));
    wait_for("the loss to be reported", || {
        matches!(bed.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    // Neither another start nor a late concurrent supervisor restarts the build.
    bed.builds.start("b", &request).unwrap();
    let program = crate::support::program().0;
    let mut late = std::process::Command::new(&program[0]);
    let mut late = late.args(&program[1..]).arg("build").arg(bed.builds.folder("b")).spawn().unwrap();
    assert!(wait_for("the late supervisor to end", || late.try_wait().unwrap()).success());
    assert!(matches!(bed.builds.poll("b").unwrap(), BuildState::Lost));
    assert_eq!(bed.text("counter"), "ran\n", "two steps in one workspace would conflict");
    bed.builds.record_end("b", BuildStatus::InternalError, "the supervisor ended").unwrap();
    assert!(!runs(step));
}

#[test]
fn a_running_build_cannot_be_recorded_as_lost() {
    let bed = TestMachine::new();
    bed.builds.start("b", &bed.build("echo $$ > $WORLD/step; sleep 300")).unwrap();
    let step = bed.pid("step");
    bed.builds.record_end("b", BuildStatus::InternalError, "too early").unwrap();
    assert!(matches!(bed.builds.poll("b").unwrap(), BuildState::Working));
    assert!(runs(step));
}

#[test]
fn a_build_cancelled_before_its_start_never_begins() {
    let bed = TestMachine::new();
    bed.builds.cancel("b").unwrap();
    bed.builds.start("b", &bed.build("echo ran >> $WORLD/counter")).unwrap();
    assert_eq!(bed.outcome("b").status, BuildStatus::Cancelled);
    assert_eq!(bed.text("counter"), "");
}

#[test]
fn a_build_cancelled_while_it_runs_ends_with_all_its_processes() {
    let bed = TestMachine::new();
    bed.builds
        .start("b", &bed.build("sleep 300 & echo $! > $WORLD/child; echo $$ > $WORLD/step; wait"))
        .unwrap();
    let (step, child) = (bed.pid("step"), bed.pid("child"));
    bed.builds.cancel("b").unwrap();
    assert_eq!(bed.outcome("b").status, BuildStatus::Cancelled);
    assert!(!runs(step) && !runs(child));
    bed.builds.cancel("b").unwrap();
    assert_eq!(bed.outcome("b").status, BuildStatus::Cancelled);
}

#[test]
fn a_cancel_after_the_end_of_a_build_has_no_effect() {
    let bed = TestMachine::new();
    bed.builds.start("b", &bed.build("true")).unwrap();
    assert_eq!(bed.outcome("b").status, BuildStatus::Success);
    bed.builds.cancel("b").unwrap();
    assert_eq!(bed.outcome("b").status, BuildStatus::Success);
}

#[test]
fn cancelling_a_lost_build_ends_its_orphans() {
    let bed = TestMachine::new();
    bed.builds.start("b", &bed.build("echo $$ > $WORLD/step; sleep 300")).unwrap();
    let step = bed.pid("step");
    kill(bed.supervisor("b"));
    wait_for("the loss to be reported", || {
        matches!(bed.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    bed.builds.cancel("b").unwrap();
    assert!(!runs(step));
    assert_eq!(bed.outcome("b").status, BuildStatus::Cancelled);
}

#[test]
fn a_start_and_a_concurrent_cancel_return_quickly() {
    let bed = TestMachine::new();
    let request = bed.build("sleep 300");
    for number in 0..10 {
        let name = format!("b{number}");
        let started = std::time::Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| bed.builds.start(&name, &request).unwrap());
            scope.spawn(|| bed.builds.cancel(&name).unwrap());
        });
        assert_eq!(bed.outcome(&name).status, BuildStatus::Cancelled);
        assert!(started.elapsed().as_secs() < 5, "start and cancel blocked each other");
    }
}

#[test]
fn polls_never_block_the_lock_of_a_supervisor() {
    let bed = TestMachine::new();
    let request = bed.build("true");
    for number in 0..10 {
        let name = format!("b{number}");
        let started = std::time::Instant::now();
        thread::scope(|scope| {
            let start = scope.spawn(|| bed.builds.start(&name, &request).unwrap());
            for _ in 0..2 {
                scope.spawn(|| {
                    while !matches!(bed.builds.poll(&name).unwrap(), BuildState::Ended(_)) {
                        assert!(
                            started.elapsed().as_secs() < 5,
                            "the supervisor did not get its lock within 5 s"
                        );
                    }
                });
            }
            start.join().unwrap();
        });
        assert_eq!(bed.outcome(&name).status, BuildStatus::Success);
    }
}

#[test]
fn a_build_that_cannot_be_started_reports_the_reason() {
    let bed = TestMachine::new();
    let mut request = bed.build("true");
    request.source = Some(bed.path("no-such.tar"));
    bed.builds.start("source", &request).unwrap();
    let outcome = bed.outcome("source");
    assert_eq!(outcome.status, BuildStatus::Failure);
    assert!(outcome.failure.as_ref().unwrap().contains("no-such.tar"), "{outcome:?}");

    let mut request = bed.build("true");
    request.config = serde_json::json!({"steps": []});
    bed.builds.start("config", &request).unwrap();
    let outcome = bed.outcome("config");
    assert_eq!(outcome.status, BuildStatus::Failure);
    assert!(outcome.failure.is_some(), "{outcome:?}");
}

#[test]
fn an_unknown_build_is_absent() {
    let bed = TestMachine::new();
    assert!(matches!(bed.builds.poll("b").unwrap(), BuildState::Absent));
}
