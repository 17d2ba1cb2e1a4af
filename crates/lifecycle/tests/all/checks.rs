//! Runs with several checks on one cluster.

use crate::support::*;
use lifecycle::owed;
use model::*;

const A: CheckIndex = CheckIndex(0);
const B: CheckIndex = CheckIndex(1);
const C: CheckIndex = CheckIndex(2);

fn deliver(ledger: &mut TestLedger, check: CheckIndex, facts: impl IntoIterator<Item = Fact>) {
    for fact in facts {
        assert_eq!(ledger.feed_at(Attempt::first_of(check), fact), None);
    }
}

/// The facts of a check's completed job.
fn measured() -> [Fact; 3] {
    [Fact::JobAccepted(handle()), job_done(), logs()]
}

#[test]
fn checks_run_one_after_another_and_the_cluster_is_released_once() {
    let mut ledger = ready(with_checks(&["", "", ""]));
    assert_eq!(ledger.owes(), ["job.1.start"]);
    deliver(&mut ledger, A, measured());
    assert_eq!(ledger.owes(), ["verdict.1.start"]);
    deliver(&mut ledger, A, [verdict(Verdict::Pass)]);
    assert_eq!(ledger.owes(), ["job.c2a1.start"]);
    deliver(&mut ledger, B, measured());
    deliver(&mut ledger, B, [verdict(Verdict::Inconclusive)]);
    assert_eq!(ledger.state.verdict(), None, "the third check may still fail");
    deliver(&mut ledger, C, measured());
    assert_eq!(ledger.owes(), ["cluster.1.delete", "verdict.c3a1.start"], "all logs are collected");
    finish(&mut ledger);
    assert_eq!(ledger.conclusion(), Some("completed"));
    assert_eq!(
        ledger.state.verdict().unwrap().verdict,
        Verdict::Inconclusive,
        "the run has the most severe verdict of its checks"
    );
    assert_eq!(ledger.state.worst_check(), Some(B));
    assert!([A, B, C].iter().all(|check| ledger.state.results_of(*check).is_some()));
    let released = ledger.entries().into_iter().filter(|entry| match entry {
        RecordEntry::Accepted { fact, .. } => matches!(**fact, Fact::ClusterDeleted(_)),
        _ => false,
    });
    assert_eq!(released.count(), 1);
}

#[test]
fn a_failed_check_does_not_stop_the_next() {
    let mut ledger = ready(with_checks(&["", ""]));
    deliver(&mut ledger, A, measured());
    deliver(&mut ledger, A, [verdict(Verdict::Fail)]);
    assert_eq!(ledger.owes(), ["job.c2a1.start"]);
    assert_eq!(
        ledger.state.verdict().unwrap().verdict,
        Verdict::Fail,
        "no later check can improve the verdict"
    );
    deliver(&mut ledger, B, measured());
    finish(&mut ledger);
    assert_eq!((ledger.conclusion(), ledger.state.worst_check()), (Some("completed"), Some(A)));
}

#[test]
fn a_check_is_skipped_if_its_needed_check_did_not_pass() {
    for failed in [Verdict::Fail, Verdict::Inconclusive] {
        // `c` needs `b`, which is also skipped.
        let mut ledger = ready(with_checks(&["", "a", "b"]));
        deliver(&mut ledger, A, measured());
        assert!(!ledger.state.skipped(B), "a check is not skipped before the verdict of its needed check");
        deliver(&mut ledger, A, [verdict(failed)]);
        assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
        assert!(ledger.state.skipped(B) && ledger.state.skipped(C));
        finish(&mut ledger);
        assert_eq!(ledger.conclusion(), Some("completed"));
        assert_eq!(ledger.state.verdict().unwrap().verdict, failed);
    }
}

#[test]
fn a_failed_job_fails_its_check_and_the_run_but_not_the_next_check() {
    let mut ledger = ready(with_checks(&["", "", "a"]));
    deliver(&mut ledger, A, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::Workload))]);
    assert_eq!(ledger.owes(), ["logs.1.start"], "the failed job's logs are collected");
    deliver(&mut ledger, A, [logs()]);
    assert_eq!(ledger.owes(), ["job.c2a1.start"]);
    deliver(&mut ledger, B, measured());
    deliver(&mut ledger, B, [verdict(Verdict::Pass)]);
    assert!(ledger.state.skipped(C));
    finish(&mut ledger);
    assert_eq!(ledger.conclusion(), Some("failed"));
    assert_eq!(ledger.state.verdict(), None, "a check without a verdict never passes");
    assert!(ledger.state.results_of(A).is_none() && ledger.state.results_of(B).is_some());
}

/// Another job needs the nodes during the second of three checks.
#[test]
fn a_run_that_yields_starts_no_further_job_and_keeps_a_fail_verdict() {
    for (verdict_of_first, expected) in [(Verdict::Pass, None), (Verdict::Fail, Some(Verdict::Fail))] {
        let mut ledger = ready(with_checks(&["", "", ""]));
        deliver(&mut ledger, A, measured());
        deliver(&mut ledger, A, [verdict(verdict_of_first)]);
        deliver(&mut ledger, B, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::Yielded))]);
        assert_eq!(ledger.owes(), ["logs.c2a1.start"], "the logs of a yielded job are evidence");
        deliver(&mut ledger, B, [logs()]);
        finish(&mut ledger);
        assert_eq!(ledger.conclusion(), Some("yielded"));
        assert_eq!(ledger.state.verdict().map(|reached| reached.verdict), expected);
        assert!(ledger.state.stage(Stage::Job.of(C)).is_none());
        let formats: Vec<_> = ledger.records.iter().map(|record| record.entry.format()).collect();
        assert_eq!(formats.iter().filter(|format| **format == 5).count(), 2, "{formats:?}");
    }
}

#[test]
fn a_run_without_idle_nodes_yields_before_its_first_job() {
    let mut ledger = TestLedger::open(with_checks(&["", ""]));
    while ledger.owes() != ["cluster.1.start"] {
        ledger.until("dev.burnin.image.built.v1");
    }
    ledger.deliver(1, Fact::ClusterFailed(failure(Class::Yielded)));
    finish(&mut ledger);
    assert_eq!((ledger.conclusion(), ledger.state.verdict().is_none()), (Some("yielded"), true));
}

#[test]
fn logs_that_cannot_be_collected_fail_only_their_check() {
    let mut ledger = ready(with_checks(&["", ""]));
    deliver(
        &mut ledger,
        A,
        [Fact::JobAccepted(handle()), job_done(), Fact::LogsFailed(failure(Class::Workload))],
    );
    assert_eq!(ledger.owes(), ["job.c2a1.start"]);
    deliver(&mut ledger, B, measured());
    finish(&mut ledger);
    let Some((Conclusion::Failed { stage: Stage::Logs, check: A, .. }, _)) = ledger.state.settled else {
        panic!("{:?}", ledger.state.settled);
    };
}

#[test]
fn after_a_job_without_output_no_further_job_starts() {
    let mut ledger = ready(with_checks(&["", ""]));
    deliver(&mut ledger, A, [Fact::JobAccepted(handle())]);
    for _ in 0..3 {
        ledger.tick(3 * 3600);
    }
    assert!(ledger.state.failed(Stage::Job));
    let jobs: Vec<_> = ledger.owes().into_iter().filter(|owed| owed.starts_with("job")).collect();
    assert_eq!(jobs, ["job.1.cancel"], "the job may still be running and disturb the next measurement");
    deliver(&mut ledger, A, [logs()]);
    assert!(matches!(ledger.state.settled, Some((Conclusion::TimedOut { stage: Stage::Job, check: A }, _))));
}

#[test]
fn a_lost_cluster_repeats_only_the_interrupted_check() {
    let mut ledger = ready(with_checks(&["", ""]));
    deliver(&mut ledger, A, measured());
    deliver(&mut ledger, A, [verdict(Verdict::Pass)]);
    deliver(&mut ledger, B, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::ClusterLost))]);
    assert_eq!(ledger.owes(), ["cluster.1.delete"], "a run has at most one cluster at a time");
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.owes(), ["cluster.2.start"]);
    ledger.deliver(2, Fact::ClusterReady(cluster()));
    assert_eq!(ledger.owes(), ["job.c2a2.start"]);
    assert!(ledger.state.verdict_of(A).is_some() && ledger.state.attempt(Stage::Job) == Attempt::FIRST);
    let second = Attempt { check: B, number: 2 };
    for fact in [Fact::JobAccepted(handle()), job_done()] {
        assert_eq!(ledger.feed_at(second, fact), None);
    }
    deliver(&mut ledger, B, [logs(), verdict(Verdict::Pass)]);
    finish(&mut ledger);
    assert_eq!(ledger.conclusion(), Some("completed"));
    assert_eq!(ledger.state.verdict().unwrap().verdict, Verdict::Pass);
}

#[test]
fn a_cancel_stops_the_running_check() {
    let mut ledger = ready(with_checks(&["", ""]));
    deliver(&mut ledger, A, measured());
    deliver(&mut ledger, A, [verdict(Verdict::Pass)]);
    deliver(&mut ledger, B, [Fact::JobAccepted(handle())]);
    ledger.deliver(1, Fact::CancelRequested(CancelRequested { by: "alice".into(), reason: String::new() }));
    assert_eq!(ledger.owes(), ["cluster.1.delete", "job.c2a1.cancel"]);
}

#[test]
fn the_search_after_a_failed_check_precedes_the_next_check() {
    let mut ledger = ready(Workflow { locate: Some(Locate::default()), ..with_checks(&["", ""]) });
    deliver(&mut ledger, A, measured());
    deliver(&mut ledger, A, [verdict(Verdict::Fail)]);
    assert_eq!(ledger.owes(), ["locate.1.start"]);
    deliver(&mut ledger, A, [located()]);
    assert_eq!(ledger.owes(), ["job.c2a1.start"]);
    deliver(&mut ledger, B, measured());
    assert!(!ledger.owes().contains(&"cluster.1.delete".to_owned()), "a search may follow");
    deliver(&mut ledger, B, [verdict(Verdict::Pass)]);
    assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
}

/// The pending search for bad nodes.
fn search(ledger: &TestLedger) -> NodeSearch {
    let mut searches =
        owed(&ledger.state, ledger.now).into_iter().filter_map(|owed| match owed.command.body {
            Body::NodesLocate { search } => Some(*search),
            _ => None,
        });
    searches.next().expect("a search is owed")
}

#[test]
fn the_search_after_a_check_begins_with_the_suspects_of_its_verdict() {
    let mut ledger = ready(Workflow { locate: Some(Locate::default()), ..with_checks(&["", ""]) });
    deliver(&mut ledger, A, measured());
    let Fact::VerdictReached(mut reached) = verdict(Verdict::Fail) else { panic!("a verdict") };
    reached.suspects = vec![VerdictSuspect { node: "n2".to_owned(), evidence: vec!["XID_79".to_owned()] }];
    deliver(&mut ledger, A, [Fact::VerdictReached(reached)]);
    assert_eq!(search(&ledger).suspected, ["n2"]);
}

/// Measures a check, judges it as failed, and returns its search for bad nodes.
fn failed_check(ledger: &mut TestLedger, check: CheckIndex) -> NodeSearch {
    deliver(ledger, check, measured());
    deliver(ledger, check, [verdict(Verdict::Fail)]);
    search(ledger)
}

fn draining(drain_at_most: u32) -> Workflow {
    let locate = Locate { drain: Drain::Apply, drain_at_most, ..Locate::default() };
    Workflow { locate: Some(locate), ..with_checks(&["", "", ""]) }
}

#[test]
fn all_searches_of_a_run_share_its_maximum_of_drained_nodes() {
    let mut ledger = ready(draining(1));
    let first = failed_check(&mut ledger, A);
    assert_eq!((first.drains_left, first.locate.drain_at_most), (None, 1));
    let command = serde_json::to_value(&first).unwrap();
    assert!(command.get("drains_left").is_none() && command.get("drained").is_none(), "{command}");
    deliver(&mut ledger, A, [drained(&["n1"])]);
    let second = failed_check(&mut ledger, B);
    assert_eq!((second.drains_left, &*second.drained), (Some(0), &["n1".to_owned()][..]));
    assert_eq!(second.locate, first.locate, "the reason names the maximum of the workflow");
    // The second search names the drained node and a further node, whose drain the search only proposes.
    let Fact::NodesLocated(again) = drained(&["n1"]) else { panic!() };
    let Fact::NodesLocated(mut proposed) = located() else { panic!() };
    proposed.nodes[0].node = "n2".into();
    let nodes = [again.nodes, proposed.nodes.clone()].concat();
    deliver(&mut ledger, B, [Fact::NodesLocated(Suspects { nodes, ..proposed })]);
    let third = failed_check(&mut ledger, C);
    assert_eq!((third.drains_left, third.drained), (Some(0), vec!["n1".to_owned()]));
    assert_eq!(lifecycle::fold(&ledger.records).unwrap(), ledger.state);
}

#[test]
fn a_node_that_two_searches_drain_counts_once_toward_the_maximum() {
    let mut ledger = ready(draining(3));
    failed_check(&mut ledger, A);
    deliver(&mut ledger, A, [drained(&["n1"])]);
    assert_eq!(failed_check(&mut ledger, B).drains_left, Some(2));
    deliver(&mut ledger, B, [drained(&["n1", "n2"])]);
    let third = failed_check(&mut ledger, C);
    assert_eq!((third.drains_left, &*third.drained), (Some(1), &["n1".to_owned(), "n2".to_owned()][..]));
}

/// The nodes of another cluster may have the same names.
#[test]
fn nodes_drained_on_a_lost_cluster_count_toward_the_maximum() {
    let mut ledger = ready(draining(2));
    failed_check(&mut ledger, A);
    deliver(&mut ledger, A, [drained(&["n1"])]);
    deliver(&mut ledger, B, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::ClusterLost))]);
    ledger.deliver(1, deleted(ledger.now));
    ledger.deliver(2, Fact::ClusterReady(cluster()));
    let again = Attempt { check: B, number: 2 };
    for fact in [Fact::JobAccepted(handle()), job_done()] {
        assert_eq!(ledger.feed_at(again, fact), None);
    }
    deliver(&mut ledger, B, [logs(), verdict(Verdict::Fail)]);
    let second = search(&ledger);
    assert_eq!((second.drains_left, &*second.drained), (Some(1), &[][..]));
    deliver(&mut ledger, B, [drained(&["n1"])]);
    assert_eq!(failed_check(&mut ledger, C).drains_left, Some(0));
}

#[test]
fn nodes_are_returned_after_the_last_check_only_if_every_check_passed() {
    let retest = Retest { nodes: vec!["n3".into()], after_pass: AfterPass::Return };
    let workflow = Workflow { retest: Some(retest.clone()), ..with_checks(&["", ""]) };
    let after = |first: Verdict, second: Verdict| {
        let mut ledger = ready(workflow.clone());
        for (check, reached) in [(A, first), (B, second)] {
            deliver(&mut ledger, check, measured());
            deliver(&mut ledger, check, [verdict(reached)]);
        }
        ledger
    };
    let mut ledger = after(Verdict::Pass, Verdict::Pass);
    assert_eq!(ledger.owes(), ["locate.c2a1.start"], "the cluster is kept until the nodes are returned");
    assert_eq!(search(&ledger).retest, Some(retest));
    let node = RetestedNode { node: "n3".into(), returned: Returned::Applied };
    let Fact::NodesLocated(located) = located() else { panic!("{:?}", located()) };
    let ended = Suspects { nodes: vec![], retested: vec![node.clone()], ..located };
    deliver(&mut ledger, B, [Fact::NodesLocated(ended)]);
    assert_eq!((ledger.state.retested(), ledger.state.suspects()), (&[node][..], None));
    finish(&mut ledger);
    assert!(ledger.state.closed.is_some());
    for (first, second) in [
        (Verdict::Fail, Verdict::Pass),
        (Verdict::Pass, Verdict::Fail),
        (Verdict::Inconclusive, Verdict::Pass),
    ] {
        let ledger = after(first, second);
        assert!(ledger.owes().iter().all(|owed| !owed.starts_with("locate")), "{first} {second}");
    }
}

#[test]
fn a_check_has_its_own_limit() {
    let mut workflow = with_checks(&["", ""]);
    workflow.checks[1].limit = Some(Span::from_secs(60));
    let ledger = ready(workflow);
    assert_eq!(ledger.state.limit(Stage::Job), Limits::default().job);
    assert_eq!(ledger.state.limit(Stage::Job.of(B)), Span::from_secs(60));
}

#[test]
fn facts_of_unknown_checks_are_refused() {
    let mut ledger = ready(with_checks(&["", ""]));
    assert_eq!(
        ledger.feed_at(Attempt::first_of(CheckIndex(7)), job_done()),
        Some(lifecycle::Ignored::NotRequired)
    );
    let elsewhere = Attempt::first_of(B);
    assert_eq!(
        ledger.feed_at(elsewhere, Fact::ClusterReady(cluster())),
        Some(lifecycle::Ignored::NotRequired)
    );
}

#[test]
fn records_of_several_checks_have_a_format_that_older_programs_refuse() {
    let mut ledger = ready(with_checks(&["", ""]));
    deliver(&mut ledger, A, measured());
    deliver(&mut ledger, A, [verdict(Verdict::Pass)]);
    deliver(&mut ledger, B, [Fact::JobAccepted(handle())]);
    let formats: Vec<_> = ledger.entries().iter().map(|entry| entry.format()).collect();
    assert_eq!((formats.first(), formats.last()), (Some(&4), Some(&4)));
    assert!(formats[1..formats.len() - 1].iter().all(|format| *format == 1));
}
