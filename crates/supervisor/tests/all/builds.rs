//! Builds as processes: started once, cancelled at any time, and ended when their supervisor is killed.

use std::{fs, thread};

use crate::support::{TestMachine, kill, runs, wait};
use cloudbuild::BuildStatus;
use supervisor::BuildState;

#[test]
fn a_build_that_is_started_twice_runs_once() {
    let world = TestMachine::new();
    let request = world.build("echo ran >> $WORLD/counter; echo one > made");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| world.builds.start("b", &request).unwrap());
        }
    });
    assert_eq!(world.outcome("b").status, BuildStatus::Success);
    world.builds.start("b", &request).unwrap();
    assert_eq!(world.outcome("b").status, BuildStatus::Success, "a later start finds the recorded result");
    assert_eq!(world.text("counter"), "ran\n");
}

#[test]
fn a_build_runs_only_its_first_request() {
    let world = TestMachine::new();
    world.builds.start("b", &world.build("echo first >> $WORLD/counter")).unwrap();
    world.builds.start("b", &world.build("echo second >> $WORLD/counter")).unwrap();
    world.outcome("b");
    assert_eq!(world.text("counter"), "first\n");
}

#[test]
fn a_supervisor_continues_after_its_parent_ends() {
    let world = TestMachine::new();
    world.builds.start("b", &world.build("sleep 300")).unwrap();
    let supervisor = world.supervisor("b");
    let group = |pid: i32| -> i32 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap().parse().unwrap()
    };
    assert_eq!(group(supervisor), supervisor, "Ctrl-C for the parent does not reach another process group");
}

#[test]
fn a_build_with_a_killed_supervisor_is_lost_and_its_orphans_are_ended() {
    let world = TestMachine::new();
    world
        .builds
        .start("b", &world.build("sleep 300 & echo $! > $WORLD/child; echo $$ > $WORLD/step; wait"))
        .unwrap();
    let (step, child) = (world.pid("step"), world.pid("child"));
    kill(world.supervisor("b"));
    wait("the loss to be reported", || {
        matches!(world.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    assert!(runs(step) && runs(child), "the step is still running");

    world.builds.bury("b", BuildStatus::InternalError, "the supervisor ended").unwrap();
    assert!(!runs(step) && !runs(child), "the orphaned step has ended with its child");
    let outcome = world.outcome("b");
    assert_eq!(
        (outcome.status, outcome.failure.as_deref()),
        (BuildStatus::InternalError, Some("the supervisor ended"))
    );

    world.builds.bury("b", BuildStatus::Cancelled, "again").unwrap();
    assert_eq!(world.outcome("b").status, BuildStatus::InternalError, "the recorded end is final");
}

#[test]
fn steps_of_a_lost_build_are_ended_even_with_unrecorded_groups() {
    let world = TestMachine::new();
    world
        .builds
        .start("b", &world.build("setsid sh -c 'echo $$ > $WORLD/hidden; sleep 300; sleep 300' & wait"))
        .unwrap();
    let hidden = world.pid("hidden");
    kill(world.supervisor("b"));
    wait("the loss to be reported", || {
        matches!(world.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    fs::remove_dir_all(world.builds.folder("b").join("groups")).ok();
    world.builds.bury("b", BuildStatus::InternalError, "the supervisor ended").unwrap();
    assert!(!runs(hidden));
}

#[test]
fn a_lost_build_is_not_restarted() {
    let world = TestMachine::new();
    let request = world.build("echo ran >> $WORLD/counter; echo $$ > $WORLD/step; sleep 300");
    world.builds.start("b", &request).unwrap();
    let step = world.pid("step");
    kill(world.supervisor("b"));
    wait("the loss to be reported", || {
        matches!(world.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    // Neither another start nor a late concurrent supervisor restarts the build.
    world.builds.start("b", &request).unwrap();
    let program = crate::support::program().0;
    let mut late = std::process::Command::new(&program[0]);
    let mut late = late.args(&program[1..]).arg("build").arg(world.builds.folder("b")).spawn().unwrap();
    assert!(wait("the late supervisor to end", || late.try_wait().unwrap()).success());
    assert!(matches!(world.builds.poll("b").unwrap(), BuildState::Lost));
    assert_eq!(world.text("counter"), "ran\n", "two steps in one workspace would conflict");
    world.builds.bury("b", BuildStatus::InternalError, "the supervisor ended").unwrap();
    assert!(!runs(step));
}

#[test]
fn a_running_build_cannot_be_recorded_as_lost() {
    let world = TestMachine::new();
    world.builds.start("b", &world.build("echo $$ > $WORLD/step; sleep 300")).unwrap();
    let step = world.pid("step");
    world.builds.bury("b", BuildStatus::InternalError, "too early").unwrap();
    assert!(matches!(world.builds.poll("b").unwrap(), BuildState::Working));
    assert!(runs(step));
}

#[test]
fn a_build_cancelled_before_its_start_never_begins() {
    let world = TestMachine::new();
    world.builds.cancel("b").unwrap();
    world.builds.start("b", &world.build("echo ran >> $WORLD/counter")).unwrap();
    assert_eq!(world.outcome("b").status, BuildStatus::Cancelled);
    assert_eq!(world.text("counter"), "");
}

#[test]
fn a_build_cancelled_while_it_runs_ends_with_all_its_processes() {
    let world = TestMachine::new();
    world
        .builds
        .start("b", &world.build("sleep 300 & echo $! > $WORLD/child; echo $$ > $WORLD/step; wait"))
        .unwrap();
    let (step, child) = (world.pid("step"), world.pid("child"));
    world.builds.cancel("b").unwrap();
    assert_eq!(world.outcome("b").status, BuildStatus::Cancelled);
    assert!(!runs(step) && !runs(child));
    world.builds.cancel("b").unwrap();
    assert_eq!(world.outcome("b").status, BuildStatus::Cancelled);
}

#[test]
fn a_cancel_after_the_end_of_a_build_has_no_effect() {
    let world = TestMachine::new();
    world.builds.start("b", &world.build("true")).unwrap();
    assert_eq!(world.outcome("b").status, BuildStatus::Success);
    world.builds.cancel("b").unwrap();
    assert_eq!(world.outcome("b").status, BuildStatus::Success);
}

#[test]
fn cancelling_a_lost_build_ends_its_orphans() {
    let world = TestMachine::new();
    world.builds.start("b", &world.build("echo $$ > $WORLD/step; sleep 300")).unwrap();
    let step = world.pid("step");
    kill(world.supervisor("b"));
    wait("the loss to be reported", || {
        matches!(world.builds.poll("b").unwrap(), BuildState::Lost).then_some(())
    });
    world.builds.cancel("b").unwrap();
    assert!(!runs(step));
    assert_eq!(world.outcome("b").status, BuildStatus::Cancelled);
}

#[test]
fn a_start_and_a_concurrent_cancel_return_quickly() {
    let world = TestMachine::new();
    let request = world.build("sleep 300");
    for number in 0..10 {
        let name = format!("b{number}");
        let began = std::time::Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| world.builds.start(&name, &request).unwrap());
            scope.spawn(|| world.builds.cancel(&name).unwrap());
        });
        assert_eq!(world.outcome(&name).status, BuildStatus::Cancelled);
        assert!(began.elapsed().as_secs() < 5, "start and cancel blocked each other");
    }
}

#[test]
fn polls_never_block_the_lock_of_a_supervisor() {
    let world = TestMachine::new();
    let request = world.build("true");
    for number in 0..10 {
        let name = format!("b{number}");
        let began = std::time::Instant::now();
        thread::scope(|scope| {
            let start = scope.spawn(|| world.builds.start(&name, &request).unwrap());
            for _ in 0..2 {
                scope.spawn(|| {
                    while !matches!(world.builds.poll(&name).unwrap(), BuildState::Ended(_)) {
                        assert!(
                            began.elapsed().as_secs() < 5,
                            "the supervisor did not get its lock within 5 s"
                        );
                    }
                });
            }
            start.join().unwrap();
        });
        assert_eq!(world.outcome(&name).status, BuildStatus::Success);
    }
}

#[test]
fn a_build_that_cannot_be_started_reports_the_reason() {
    let world = TestMachine::new();
    let mut request = world.build("true");
    request.source = Some(world.path("no-such.tar"));
    world.builds.start("source", &request).unwrap();
    let outcome = world.outcome("source");
    assert_eq!(outcome.status, BuildStatus::Failure);
    assert!(outcome.failure.as_ref().unwrap().contains("no-such.tar"), "{outcome:?}");

    let mut request = world.build("true");
    request.config = serde_json::json!({"steps": []});
    world.builds.start("config", &request).unwrap();
    let outcome = world.outcome("config");
    assert_eq!(outcome.status, BuildStatus::Failure);
    assert!(outcome.failure.is_some(), "{outcome:?}");
}

#[test]
fn an_unknown_build_is_absent() {
    let world = TestMachine::new();
    assert!(matches!(world.builds.poll("b").unwrap(), BuildState::Absent));
}
