//! Tests `burnin-notifier` as a process: errors in its environment, `/about`, and the periodic task over folders.

use test_support::program::{ServiceProcess, program, refuses};

const PROGRAM: &str = env!("CARGO_BIN_EXE_burnin-notifier");

#[test]
fn all_errors_in_the_environment_are_reported_together() {
    let mut program = program(PROGRAM);
    program
        .env("BURNIN_LEDGER", "gs://ledger")
        .env("BURNIN_CHANNELS", "channels")
        .env("BURNIN_GITHUB_API", "http://github.example/api/v3")
        .env("BURNIN_LINK", "https://burnin.example/runs");
    refuses(
        program,
        &[
            "BURNIN_ARTEFACTS: is not set",
            "BURNIN_CHANNELS: `channels` is invalid: expected an absolute path",
            "BURNIN_GITHUB_API: `http://github.example/api/v3` is invalid: expected https://",
            "BURNIN_LINK: `https://burnin.example/runs` is invalid: expected a URL with {run} in it",
        ],
    );
}

#[test]
fn the_program_executes_its_periodic_task_over_folders() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = program(PROGRAM);
    program
        .env("BURNIN_LEDGER", folder.path().join("ledger"))
        .env("BURNIN_ARTEFACTS", folder.path().join("artefacts"));
    let served = ServiceProcess::start(program);
    let (status, about) = served.get("/about");
    assert!(
        status == 200 && about.contains("dev.burnin.run.closed.v1") && about.contains("notices"),
        "{about}"
    );
    assert_eq!(served.send("POST", "/chores/notices", "").0, 204);
    assert!(folder.path().join("artefacts/notices/since.json").exists());
}
