//! Runs of a real Ansible on real ssh hosts, as recorded by its callback.

use ansible_events::{Counts, EventReader, PlayFindings, read};

fn recorded(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/ansible-2.17/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn found(name: &str) -> PlayFindings {
    read(&recorded(name)[..]).unwrap()
}

fn counts(ok: u64, changed: u64, failures: u64, unreachable: u64, skipped: u64) -> Counts {
    Counts { ok, changed, failures, unreachable, skipped, ..Counts::default() }
}

#[test]
fn a_successful_run_has_no_problems() {
    let findings = found("ok");
    assert!(findings.is_success(), "{findings:#?}");
    assert_eq!(findings.problems(), [""; 0]);
    assert_eq!(findings.hosts.keys().collect::<Vec<_>>(), ["dgx1", "dgx2", "dgx3", "dgx4"]);
    assert_eq!((findings.runs, findings.foreign_lines), (1, 0));
}

#[test]
fn a_failed_task_is_reported_with_host_and_play() {
    let findings = found("task-failed");
    assert!(!findings.is_success() && findings.ended);
    assert_eq!(findings.hosts["dgx2"], counts(3, 0, 1, 0, 0));
    assert_eq!(findings.hosts["dgx1"], counts(4, 0, 0, 0, 1));
    assert_eq!(
        findings.problems(),
        ["dgx2: non-zero return code: exit code 1 (task `simulated check` of play `dgx`)"]
    );
}

#[test]
fn an_unreachable_host_is_reported() {
    let findings = found("unreachable");
    assert_eq!(findings.failure, None);
    let [lost] = &findings.unreachable[..] else { panic!("{findings:#?}") };
    assert_eq!(lost.host, "dgx3");
    assert!(lost.reason.contains("ssh: connect to host 10.78.0.13 port 22"), "{}", lost.reason);
    assert_eq!(findings.hosts["dgx3"], counts(0, 0, 0, 1, 0));
}

/// Ansible's exit code 4 reports only the unreachable host; the events also contain the failure.
#[test]
fn a_failure_is_reported_in_addition_to_an_unreachable_host() {
    let findings = found("failed-and-unreachable");
    assert_eq!(findings.unreachable[0].host, "dgx3");
    assert_eq!(findings.failure.as_ref().map(|failure| failure.host.as_str()), Some("dgx2"));
    assert_eq!(findings.problems().len(), 2);
}

/// A log that is cut before its last line is incomplete; findings before the cut stay.
#[test]
fn a_truncated_run_is_incomplete() {
    for name in ["ok", "task-failed", "unreachable", "failed-and-unreachable"] {
        let whole = recorded(name);
        let last = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
        for cut in (0..last).step_by(211).chain([last, whole.len() - 2]) {
            let findings = read(&whole[..cut]).unwrap();
            assert!(
                !findings.ended && !findings.is_success(),
                "{name}, cut at byte {cut}, is reported as complete"
            );
        }
        let almost = read(&whole[..last]).unwrap();
        let full = found(name);
        assert_eq!(almost.hosts, full.hosts, "{name}: the counts equal Ansible's");
        assert_eq!((almost.failure, almost.unreachable), (full.failure, full.unreachable));
    }
}

#[test]
fn the_chunks_of_the_stream_do_not_affect_the_findings() {
    let whole = recorded("failed-and-unreachable");
    for size in [1, 7, 4096] {
        let mut reader = EventReader::default();
        whole.chunks(size).for_each(|piece| reader.take(piece));
        assert_eq!(
            reader.findings(),
            found("failed-and-unreachable"),
            "the findings differ in chunks of {size} bytes"
        );
    }
}

/// One log contains several Ansible runs, the steps of a build, between lines of other tools.
#[test]
fn consecutive_runs_are_combined() {
    let mut log = b"Starting step 0\nPLAY [x]\n".to_vec();
    log.extend(recorded("ok"));
    log.extend(b"{\"a\": 1}\n[]\n\n");
    log.extend(recorded("task-failed"));
    let findings = read(&log[..]).unwrap();
    assert_eq!((findings.runs, findings.foreign_lines), (2, 4));
    assert_eq!(findings.failure.as_ref().unwrap().host, "dgx2");
    assert_eq!(findings.hosts["dgx1"].ok, found("ok").hosts["dgx1"].ok + 4);
    // An interrupted second run makes the findings of the whole log incomplete.
    let half = read(&log[..log.len() - 600]).unwrap();
    assert_eq!((half.runs, half.ended), (1, false));
}

/// The recording has failures that are ignored, rescued, hidden, followed by an `always`, or in an item of a loop. Only final failures are
/// reported.
#[test]
fn ignored_and_rescued_failures_are_not_final() {
    let findings = found("dealt-with");
    let hosts = |count: fn(&Counts) -> u64| -> Vec<_> {
        findings.hosts.iter().filter(|(_, counts)| count(counts) > 0).map(|(host, _)| host.as_str()).collect()
    };
    assert_eq!(hosts(|counts| counts.ignored), ["dgx01"]);
    assert_eq!(hosts(|counts| counts.rescued), ["dgx02"]);
    assert_eq!(hosts(|counts| counts.failures), ["dgx03", "dgx04"]);
    let failure = findings.failure.unwrap();
    assert_eq!((failure.host.as_str(), failure.task.as_str()), ("dgx03", "Says a password"));
    assert_eq!(failure.message, "the task hides its output (no_log)");
}

#[test]
fn a_wrong_sudo_password_is_reported() {
    let findings = found("wrong-sudo-password");
    assert_eq!(findings.hosts.values().filter(|host| host.failures == 1).count(), 5);
    let failure = findings.failure.unwrap();
    assert_eq!((failure.play.as_str(), failure.task.as_str()), ("Every host answers", "Privilege is there"));
    assert_eq!(failure.message, "Incorrect sudo password");
}

#[test]
fn a_host_disconnected_during_a_run_is_unreachable() {
    let findings = found("cut-off");
    assert_eq!(
        findings.problems(),
        [
            "dgx03 is unreachable: Failed to connect to the host via ssh: mux_client_request_session: read from master \
          failed: Broken pipe ssh: connect to host 10.78.0.13 port 22: Connection timed out"
        ]
    );
}

#[test]
fn an_ignored_unreachable_host_is_not_a_finding() {
    let findings = found("ignored-unreachable");
    assert!(findings.is_success(), "{findings:#?}");
}
