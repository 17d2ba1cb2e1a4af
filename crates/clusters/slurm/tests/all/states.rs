//! Recorded output of two Slurm versions, and the states derived from it.

use std::path::Path;

use cluster_slurm::state::{
    LauncherEnd, Marks, SlurmFinding, SlurmJobRow, SlurmStateKind, canonical, derive, kind,
};
use model::Timestamp;

const VERSIONS: [&str; 2] = ["22.05", "24.11"];

fn recorded(version: &str, file: &str) -> String {
    let path = Path::new("tests/data").join(format!("slurm-{version}")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The recorded output of `scontrol show job`, parsed.
fn shown(version: &str, scenario: &str) -> SlurmJobRow {
    SlurmJobRow::from_scontrol(&recorded(version, &format!("{scenario}.scontrol-job.txt"))).expect("a job")
}

/// The accounting record of the allocation, with the columns that the adapter requests.
fn accounting_row(version: &str, scenario: &str) -> SlurmJobRow {
    let text = recorded(version, &format!("{scenario}.sacct.txt"));
    let line = text.lines().nth(1).expect("a line");
    let column: Vec<&str> = line.split('|').collect();
    let selected = [column[0], column[2], column[3], column[8], column[9], column[6], column[10]].join("|");
    SlurmJobRow::from_accounting(&selected).expect("a job")
}

fn late() -> Timestamp {
    "2026-11-21T00:00:00Z".parse().unwrap()
}

fn claimed(row: &SlurmJobRow) -> Marks {
    Marks { claim: Some(format!("{}.0", row.id)), ..Marks::default() }
}

fn ending(row: &SlurmJobRow, launched: bool, exit_code: i32) -> Marks {
    let at = chrono::DateTime::from_timestamp_millis(1_763_700_000_000).unwrap();
    let attempt = format!("{}.0", row.id);
    let nodes = String::new();
    let end =
        LauncherEnd { attempt, launched, exit_code, timed_out: false, started_at: at, ended_at: at, nodes };
    Marks { end: Some(end), ..claimed(row) }
}

fn found(row: &SlurmJobRow, marks: &Marks) -> String {
    match derive(std::slice::from_ref(row), marks, late()) {
        SlurmFinding::Absent => "absent".into(),
        SlurmFinding::Waiting(reason) => format!("waiting: {reason}"),
        SlurmFinding::Active => "going".into(),
        SlurmFinding::Ended(end) => format!("{} {:?} {:?}", end.state, end.exit_code, end.signal),
        SlurmFinding::Lost { code, .. } => format!("lost: {code}"),
        SlurmFinding::Unschedulable { reason } => format!("never: {reason}"),
    }
}

#[test]
fn both_slurm_versions_report_the_same_states() {
    for version in VERSIONS {
        let check = |scenario: &str, begun: bool, expected: &str| {
            let row = shown(version, scenario);
            let marks = if begun { claimed(&row) } else { Marks::default() };
            assert_eq!(found(&row, &marks), expected, "{version} {scenario}: {row:?}");
        };
        check("running", true, "going");
        check("cancelled", true, "CANCELLED None Some(15)");
        check("node-cut-off", true, "lost: NODE_FAIL");
        check("requeued", true, "lost: REQUEUED");
        check("prolog-failed", false, "lost: LAUNCH_FAILED");
        check("dependency-never", false, "CANCELLED None None");
        check("failed-exit3", true, "FAILED Some(3) None");
        check("completed", true, "lost: NO_END");
        let row = shown(version, "completed");
        assert_eq!(found(&row, &ending(&row, true, 0)), "COMPLETED Some(0) None");
        let row = shown(version, "failed-one-rank");
        assert_eq!(found(&row, &ending(&row, true, 7)), "FAILED Some(7) None");
        let row = shown(version, "failed-signal");
        assert_eq!(found(&row, &ending(&row, true, 139)), "FAILED Some(139) Some(11)");
        assert_eq!(found(&row, &ending(&row, false, 1)), "lost: LAUNCH_FAILED");
    }
    // Slurm 24.11 rejects a job that exceeds the partition's limit at submission, so only 22.05 has this record.
    assert_eq!(found(&shown("22.05", "pending-impossible"), &Marks::default()), "never: PartitionNodeLimit");
    assert_eq!(found(&shown("22.05", "pending"), &Marks::default()), "waiting: Priority");
    assert_eq!(found(&shown("24.11", "pending"), &Marks::default()), "waiting: Resources");
}

#[test]
fn accounting_and_controller_agree_on_ended_jobs() {
    for version in VERSIONS {
        for scenario in ["completed", "failed-exit3", "failed-one-rank", "cancelled", "node-cut-off"] {
            let (shown, accounted) = (shown(version, scenario), accounting_row(version, scenario));
            assert_eq!(accounted.state, shown.state, "{version} {scenario}");
            assert_eq!(accounted.id, shown.id, "{version} {scenario}");
            assert_eq!(accounted.ended_at, shown.ended_at, "{version} {scenario}");
        }
        assert_eq!(accounting_row(version, "failed-exit3").exit, (3, 0));
        assert_eq!(
            found(
                &accounting_row(version, "node-cut-off"),
                &claimed(&accounting_row(version, "node-cut-off"))
            ),
            "lost: NODE_FAIL"
        );
    }
}

#[test]
fn a_job_that_its_script_stopped_has_timed_out() {
    let row = shown("22.05", "failed-exit3");
    let mut marks = ending(&row, true, cluster_slurm::script::STOPPED);
    marks.end.as_mut().unwrap().timed_out = true;
    assert_eq!(found(&row, &marks), "TIMEOUT None None");
    assert_eq!(derive(&[], &marks, late()), derive(std::slice::from_ref(&row), &marks, late()));
    marks.cancelled = true;
    assert_eq!(found(&row, &marks), "CANCELLED Some(124) None", "a cancel at the limit is a cancel");
}

#[test]
fn a_refused_submission_is_not_a_job() {
    let refused =
        SlurmJobRow::from_accounting("8|FAILED|1:0|None|2026-11-20T19:13:16|None assigned|None").unwrap();
    assert_eq!(found(&refused, &Marks::default()), "absent");
}

#[test]
fn every_state_in_slurms_documentation_is_classified() {
    let table = [
        (SlurmStateKind::Ended, "CANCELLED COMPLETED DEADLINE FAILED OUT_OF_MEMORY TIMEOUT"),
        (SlurmStateKind::Lost, "BOOT_FAIL LAUNCH_FAILED NODE_FAIL PREEMPTED RECONFIG_FAIL REVOKED"),
        (SlurmStateKind::Waiting, "PENDING"),
        (
            SlurmStateKind::Active,
            "RUNNING COMPLETING CONFIGURING RESIZING SIGNALING STAGE_OUT STOPPED SUSPENDED POWER_UP_NODE EXPEDITING",
        ),
        (SlurmStateKind::Requeued, "REQUEUED REQUEUE_FED REQUEUE_HOLD SPECIAL_EXIT"),
        // An unknown state of a future version is treated as running: the job continues until its stage's limit.
        (SlurmStateKind::Active, "HYPERSPACE"),
    ];
    for (expected, words) in table {
        for word in words.split(' ') {
            assert_eq!(kind(word), expected, "{word}");
        }
    }
    for (spelling, word) in [
        ("CANCELLED by 1000", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("node_fail", "NODE_FAIL"),
        ("LAUNCH FAILED", "LAUNCH_FAILED"),
        ("launch failed requeued held", "LAUNCH_FAILED"),
    ] {
        assert_eq!(canonical(spelling), word);
    }
}

#[test]
fn reasons_for_waiting_are_distinguished() {
    let waiting = |reason: &str, restarts| {
        let row = SlurmJobRow {
            id: 4,
            state: "PENDING".into(),
            reason: reason.into(),
            restarts,
            ..SlurmJobRow::default()
        };
        found(&row, &Marks::default())
    };
    assert_eq!(waiting("Resources", 0), "waiting: Resources");
    assert_eq!(waiting("JobHeldUser", 0), "waiting: JobHeldUser", "an administrator may release a held job");
    assert_eq!(waiting("JobHeldUser", 1), "lost: LAUNCH_FAILED", "a held job that had started is lost");
    assert_eq!(waiting("launch_failed_requeued_held", 1), "lost: LAUNCH_FAILED");
    assert_eq!(
        waiting("ReqNodeNotAvail,_UnavailableNodes:n[1-2]", 0),
        "waiting: ReqNodeNotAvail,_UnavailableNodes:n[1-2]"
    );
    for reason in
        ["PartitionTimeLimit", "BadConstraints", "AssocMaxNodePerJobLimit", "QOSMaxWallDurationPerJobLimit"]
    {
        assert_eq!(waiting(reason, 0), format!("never: {reason}"));
    }
    assert_eq!(waiting("QOSMaxJobsPerUserLimit", 0), "waiting: QOSMaxJobsPerUserLimit");
}

#[test]
fn the_claiming_job_decides_the_state_if_two_jobs_have_the_same_name() {
    let row = |id, state: &str| SlurmJobRow { id, state: state.into(), ..SlurmJobRow::default() };
    let rows = [row(7, "COMPLETED"), row(8, "RUNNING")];
    let marks = Marks { claim: Some("8.0".into()), ..Marks::default() };
    assert_eq!(derive(&rows, &marks, late()), SlurmFinding::Active);
    // Slurm purged the job, which left no record of its end.
    assert!(
        matches!(derive(&rows[..1], &marks, late()), SlurmFinding::Lost { code, .. } if code == "FORGOTTEN")
    );
    // The job never started, and must not run if it starts later.
    let marks = Marks { cancelled: true, ..Marks::default() };
    assert!(matches!(derive(&[], &marks, late()), SlurmFinding::Ended(end) if end.state == "CANCELLED"));
    assert_eq!(derive(&[], &Marks::default(), late()), SlurmFinding::Absent);
}
