//! Start and end of each attempt, by the ledger's own clock.

use crate::support::{RecordedRun, START, cancelled, good, handle, workflow};
use model::*;
use report::{StageLine, timeline};

/// `name attempt: begin..end outcome`, milliseconds after the request.
fn texts(lines: &[StageLine]) -> Vec<String> {
    let after = |at: Timestamp| at.as_millis() - START.as_millis();
    let text = |line: &StageLine| {
        let ended = line.ended.map_or_else(String::new, |at| after(at).to_string());
        format!("{} {}: {}..{ended} {}", line.name(), line.attempt, after(line.began), line.outcome)
    };
    lines.iter().map(text).collect()
}

#[test]
fn a_successful_run_has_each_stage_and_the_teardown() {
    let expected = [
        "image 1: 0..3280 sha256:9f86d081884c, 1 file",
        "cluster 1: 3280..3725 2 nodes: n0, n1",
        "job 1: 3725..11873 COMPLETED, exit code 0",
        "logs 1: 11873..12033 4 objects, 12.1 KiB",
        "verdict 1: 12033..12088 pass",
        "teardown 1: 12033..12308 gone: no process remains, its folder is deleted",
        "results 1: 12088..12398 8 rows in measurements",
    ];
    assert_eq!(texts(&timeline(&good().records)), expected);
}

#[test]
fn a_lost_cluster_is_provisioned_again() {
    let mut run = RecordedRun::open(workflow());
    run.built().up().fact(28, 1, Fact::JobAccepted(handle("job-4411")));
    let lost = Failure::new(Class::ClusterLost, "NODE_FAIL", "node n1 stopped answering\nask its owner");
    run.fact(2000, 1, Fact::JobFailed(lost)).gone().fact(
        500,
        2,
        Fact::ClusterReady(crate::support::cluster()),
    );
    let expected = [
        "image 1: 0..3280 sha256:9f86d081884c, 1 file",
        "cluster 1: 3280..3725 2 nodes: n0, n1",
        "job 1: 3725..5753 NODE_FAIL: node n1 stopped answering",
        "cluster 2: 5753..6473 2 nodes: n0, n1",
        "teardown 1: 5753..5973 gone: no process remains, its folder is deleted",
        "job 2: 6473.. requested",
    ];
    assert_eq!(texts(&timeline(&run.records)), expected);
}

#[test]
fn a_reappearing_cluster_is_released_again() {
    let mut run = good();
    run.fact(60_000, 1, Fact::ClusterReady(crate::support::cluster()));
    let lines = texts(&timeline(&run.records));
    assert_eq!(lines.last().map(String::as_str), Some("teardown 1: 72398.. being released"));
}

#[test]
fn an_attempt_without_a_response_ends_at_its_limit() {
    let mut run = RecordedRun::open(workflow());
    let limits = Limits::default();
    run.tick(limits.image.0.as_secs() * 1000 + 1);
    assert_eq!(texts(&timeline(&run.records)), ["image 1: 0.. limit exceeded; its state is being polled"]);
    run.tick(limits.grace.0.as_secs() * 1000 + 1);
    assert_eq!(texts(&timeline(&run.records))[0], "image 1: 0..1920002 no response within its limit of 30m");
}

#[test]
fn a_stage_that_never_started_is_not_reported() {
    let lines = timeline(&cancelled().records);
    assert_eq!(
        lines.iter().map(StageLine::name).collect::<Vec<_>>(),
        ["image", "cluster", "job", "teardown"]
    );
    assert_eq!(timeline(&[]), []);
}

#[test]
fn every_prefix_of_a_ledger_has_a_timeline() {
    let records = good().records;
    for known in 1..=records.len() {
        let lines = timeline(&records[..known]);
        let whole = timeline(&records);
        // The result of an ended stage is final.
        for line in lines.iter().filter(|line| line.ended.is_some()) {
            assert!(whole.contains(line), "{line:?}");
        }
    }
}
