//! Tests `burnin-dashboard` as a process: its environment, and pages over folders that the process does not
//! change.

use std::{fs, path::Path};

use test_support::program::{ServiceProcess, program, refuses};

const PROGRAM: &str = env!("CARGO_BIN_EXE_burnin-dashboard");

#[test]
fn all_errors_in_the_environment_are_reported_together() {
    refuses(program(PROGRAM), &["BURNIN_LEDGER: is not set", "BURNIN_ARTEFACTS: is not set"]);
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            path => vec![path.display().to_string()],
        })
        .collect();
    found.sort();
    found
}

/// Records of a run without stages.
fn done(ledger: &Path, run: &str) {
    let entry = |fact: &str, data: &str| {
        format!(
            r#"{{"accepted":{{"event":{{"source":"//test","id":"{run}-{fact}"}},"attempt":1,"fact":{{"type":"dev.burnin.{fact}.v1","data":{data}}}}}}}"#
        )
    };
    let requested = r#"{"workflow":{"name":"nightly","description":"","limits":{}},"trigger":{"kind":"manual","by":"ann"}}"#;
    let entries =
        [entry("run.requested", requested), r#"{"closed":{"conclusion":{"how":"completed"}}}"#.to_owned()];
    for (number, entry) in entries.iter().enumerate() {
        let seq = number + 1;
        let record = format!(
            r#"{{"format":1,"run":"{run}","seq":{seq},"nonce":"n","recorded_at":"2026-11-20T0{seq}:00:00Z","entry":{entry}}}"#
        );
        let folder = ledger.join("ledger").join(run);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{seq:010}.json")), record).unwrap();
    }
}

#[test]
fn the_program_serves_its_pages_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // The runs fill more than one segment; a process with write access would store segments.
    for number in 0..140 {
        done(&folder.path().join("ledger"), &format!("nightly-{number}"));
    }
    fs::create_dir_all(folder.path().join("artefacts")).unwrap();
    let mut program = program(PROGRAM);
    program
        .env("BURNIN_LEDGER", folder.path().join("ledger"))
        .env("BURNIN_ARTEFACTS", folder.path().join("artefacts"));
    let before = files(folder.path());
    let served = ServiceProcess::start(program);
    let get = |path: &str| served.get(path);
    let (status, page) = get("/");
    assert!(status == 200 && page.contains("/runs/nightly-100"), "{page}");
    let (status, run) = get("/runs/nightly-7");
    assert!(status == 200 && run.contains("DONE"), "{run}");
    for page in [&page, &run] {
        // Operations of the gateway are not offered.
        assert!(
            !page.contains("/api") && !page.contains("data-begin") && !page.contains("data-cancel"),
            "{page}"
        );
    }
    let (status, events) = get("/runs/nightly-7/changes");
    let numbers: Vec<_> = events.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!((status, numbers), (200, vec!["1", "2"]), "{events}");
    assert!(events.contains("event: end"), "{events}");
    assert_eq!((get("/api/v1/runs").0, get("/runs/nobody").0), (404, 404));
    assert_eq!(served.send("POST", "/chores/requests", "").0, 404);
    assert_eq!(files(folder.path()), before, "no object was written");
}
