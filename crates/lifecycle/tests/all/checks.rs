//! Runs with several checks on one cluster.

use crate::support::*;
use lifecycle::owed;
use model::*;

const A: CheckIndex = CheckIndex(0);
const B: CheckIndex = CheckIndex(1);
const C: CheckIndex = CheckIndex(2);

fn feed(book: &mut Book, check: CheckIndex, facts: impl IntoIterator<Item = Fact>) {
    for fact in facts {
        assert_eq!(book.feed_at(Attempt::first_of(check), fact), None);
    }
}

/// The facts of a check's job that ran to its end.
fn measured() -> [Fact; 3] {
    [Fact::JobAccepted(handle()), job_done(), logs()]
}

#[test]
fn checks_run_one_after_another_and_the_cluster_is_released_once() {
    let mut book = ready(with_checks(&["", "", ""]));
    assert_eq!(book.owes(), ["job.1.start"]);
    feed(&mut book, A, measured());
    assert_eq!(book.owes(), ["verdict.1.start"]);
    feed(&mut book, A, [verdict(Verdict::Pass)]);
    assert_eq!(book.owes(), ["job.c2a1.start"]);
    feed(&mut book, B, measured());
    feed(&mut book, B, [verdict(Verdict::Inconclusive)]);
    assert_eq!(book.state.verdict(), None, "the third check may still fail");
    feed(&mut book, C, measured());
    assert_eq!(book.owes(), ["cluster.1.delete", "verdict.c3a1.start"], "all logs are collected");
    finish(&mut book);
    assert_eq!(book.conclusion(), Some("completed"));
    assert_eq!(
        book.state.verdict().unwrap().verdict,
        Verdict::Inconclusive,
        "the run has the most severe verdict of its checks"
    );
    assert_eq!(book.state.worst_check(), Some(B));
    assert!([A, B, C].iter().all(|check| book.state.results_of(*check).is_some()));
    let released = book.entries().into_iter().filter(|entry| match entry {
        RecordEntry::Accepted { fact, .. } => matches!(**fact, Fact::ClusterDeleted(_)),
        _ => false,
    });
    assert_eq!(released.count(), 1);
}

#[test]
fn a_failed_check_does_not_stop_the_next() {
    let mut book = ready(with_checks(&["", ""]));
    feed(&mut book, A, measured());
    feed(&mut book, A, [verdict(Verdict::Fail)]);
    assert_eq!(book.owes(), ["job.c2a1.start"]);
    assert_eq!(
        book.state.verdict().unwrap().verdict,
        Verdict::Fail,
        "no later check can improve the verdict"
    );
    feed(&mut book, B, measured());
    finish(&mut book);
    assert_eq!((book.conclusion(), book.state.worst_check()), (Some("completed"), Some(A)));
}

#[test]
fn a_check_is_skipped_if_its_needed_check_did_not_pass() {
    for failed in [Verdict::Fail, Verdict::Inconclusive] {
        // `c` needs `b`, which is also skipped.
        let mut book = ready(with_checks(&["", "a", "b"]));
        feed(&mut book, A, measured());
        assert!(!book.state.skipped(B), "a check is not skipped before the verdict of its needed check");
        feed(&mut book, A, [verdict(failed)]);
        assert_eq!(book.owes(), ["cluster.1.delete", "results.1.start"]);
        assert!(book.state.skipped(B) && book.state.skipped(C));
        finish(&mut book);
        assert_eq!(book.conclusion(), Some("completed"));
        assert_eq!(book.state.verdict().unwrap().verdict, failed);
    }
}

#[test]
fn a_failed_job_fails_its_check_and_the_run_but_not_the_next_check() {
    let mut book = ready(with_checks(&["", "", "a"]));
    feed(&mut book, A, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::Workload))]);
    assert_eq!(book.owes(), ["logs.1.start"], "the failed job's logs are collected");
    feed(&mut book, A, [logs()]);
    assert_eq!(book.owes(), ["job.c2a1.start"]);
    feed(&mut book, B, measured());
    feed(&mut book, B, [verdict(Verdict::Pass)]);
    assert!(book.state.skipped(C));
    finish(&mut book);
    assert_eq!(book.conclusion(), Some("failed"));
    assert_eq!(book.state.verdict(), None, "a check without a verdict never passes");
    assert!(book.state.results_of(A).is_none() && book.state.results_of(B).is_some());
}

/// Another job needs the nodes during the second of three checks.
#[test]
fn a_run_that_yields_starts_no_further_job_and_keeps_a_fail_verdict() {
    for (verdict_of_first, expected) in [(Verdict::Pass, None), (Verdict::Fail, Some(Verdict::Fail))] {
        let mut book = ready(with_checks(&["", "", ""]));
        feed(&mut book, A, measured());
        feed(&mut book, A, [verdict(verdict_of_first)]);
        feed(&mut book, B, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::Yielded))]);
        assert_eq!(book.owes(), ["logs.c2a1.start"], "the logs of a yielded job are evidence");
        feed(&mut book, B, [logs()]);
        finish(&mut book);
        assert_eq!(book.conclusion(), Some("yielded"));
        assert_eq!(book.state.verdict().map(|reached| reached.verdict), expected);
        assert!(book.state.stage(Stage::Job.of(C)).is_none());
        let formats: Vec<_> = book.records.iter().map(|record| record.entry.format()).collect();
        assert_eq!(formats.iter().filter(|format| **format == 5).count(), 2, "{formats:?}");
    }
}

#[test]
fn a_run_without_idle_nodes_yields_before_its_first_job() {
    let mut book = Book::open(with_checks(&["", ""]));
    while book.owes() != ["cluster.1.start"] {
        book.until("dev.burnin.image.built.v1");
    }
    book.feed(1, Fact::ClusterFailed(failure(Class::Yielded)));
    finish(&mut book);
    assert_eq!((book.conclusion(), book.state.verdict().is_none()), (Some("yielded"), true));
}

#[test]
fn logs_that_cannot_be_collected_fail_only_their_check() {
    let mut book = ready(with_checks(&["", ""]));
    feed(&mut book, A, [Fact::JobAccepted(handle()), job_done(), Fact::LogsFailed(failure(Class::Workload))]);
    assert_eq!(book.owes(), ["job.c2a1.start"]);
    feed(&mut book, B, measured());
    finish(&mut book);
    let Some((Conclusion::Failed { stage: Stage::Logs, check: A, .. }, _)) = book.state.settled else {
        panic!("{:?}", book.state.settled);
    };
}

#[test]
fn after_a_job_without_output_no_further_job_starts() {
    let mut book = ready(with_checks(&["", ""]));
    feed(&mut book, A, [Fact::JobAccepted(handle())]);
    for _ in 0..3 {
        book.tick(3 * 3600);
    }
    assert!(book.state.failed(Stage::Job));
    let jobs: Vec<_> = book.owes().into_iter().filter(|owed| owed.starts_with("job")).collect();
    assert_eq!(jobs, ["job.1.cancel"], "the job may still be running and disturb the next measurement");
    feed(&mut book, A, [logs()]);
    assert!(matches!(book.state.settled, Some((Conclusion::TimedOut { stage: Stage::Job, check: A }, _))));
}

#[test]
fn a_lost_cluster_repeats_only_the_interrupted_check() {
    let mut book = ready(with_checks(&["", ""]));
    feed(&mut book, A, measured());
    feed(&mut book, A, [verdict(Verdict::Pass)]);
    feed(&mut book, B, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::ClusterLost))]);
    assert_eq!(book.owes(), ["cluster.1.delete"], "a run has at most one cluster at a time");
    book.feed(1, deleted(book.now));
    assert_eq!(book.owes(), ["cluster.2.start"]);
    book.feed(2, Fact::ClusterReady(cluster()));
    assert_eq!(book.owes(), ["job.c2a2.start"]);
    assert!(book.state.verdict_of(A).is_some() && book.state.attempt(Stage::Job) == Attempt::FIRST);
    let second = Attempt { check: B, number: 2 };
    for fact in [Fact::JobAccepted(handle()), job_done()] {
        assert_eq!(book.feed_at(second, fact), None);
    }
    feed(&mut book, B, [logs(), verdict(Verdict::Pass)]);
    finish(&mut book);
    assert_eq!(book.conclusion(), Some("completed"));
    assert_eq!(book.state.verdict().unwrap().verdict, Verdict::Pass);
}

#[test]
fn a_cancel_stops_the_running_check() {
    let mut book = ready(with_checks(&["", ""]));
    feed(&mut book, A, measured());
    feed(&mut book, A, [verdict(Verdict::Pass)]);
    feed(&mut book, B, [Fact::JobAccepted(handle())]);
    book.feed(1, Fact::CancelRequested(CancelRequested { by: "alice".into(), reason: String::new() }));
    assert_eq!(book.owes(), ["cluster.1.delete", "job.c2a1.cancel"]);
}

#[test]
fn the_search_after_a_failed_check_precedes_the_next_check() {
    let mut book = ready(Workflow { locate: Some(Locate::default()), ..with_checks(&["", ""]) });
    feed(&mut book, A, measured());
    feed(&mut book, A, [verdict(Verdict::Fail)]);
    assert_eq!(book.owes(), ["locate.1.start"]);
    feed(&mut book, A, [located()]);
    assert_eq!(book.owes(), ["job.c2a1.start"]);
    feed(&mut book, B, measured());
    assert!(!book.owes().contains(&"cluster.1.delete".to_owned()), "a search may follow");
    feed(&mut book, B, [verdict(Verdict::Pass)]);
    assert_eq!(book.owes(), ["cluster.1.delete", "results.1.start"]);
}

/// The pending search for bad nodes.
fn search(book: &Book) -> NodeSearch {
    let mut searches = owed(&book.state, book.now).into_iter().filter_map(|owed| match owed.command.body {
        Body::NodesLocate { search } => Some(*search),
        _ => None,
    });
    searches.next().expect("a search is owed")
}

#[test]
fn the_search_after_a_check_begins_with_the_suspects_of_its_verdict() {
    let mut book = ready(Workflow { locate: Some(Locate::default()), ..with_checks(&["", ""]) });
    feed(&mut book, A, measured());
    let Fact::VerdictReached(mut reached) = verdict(Verdict::Fail) else { panic!("a verdict") };
    reached.suspects = vec![VerdictSuspect { node: "n2".to_owned(), evidence: vec!["XID_79".to_owned()] }];
    feed(&mut book, A, [Fact::VerdictReached(reached)]);
    assert_eq!(search(&book).suspected, ["n2"]);
}

/// Measures a check, judges it as failed, and returns its search for bad nodes.
fn failed_check(book: &mut Book, check: CheckIndex) -> NodeSearch {
    feed(book, check, measured());
    feed(book, check, [verdict(Verdict::Fail)]);
    search(book)
}

fn draining(drain_at_most: u32) -> Workflow {
    let locate = Locate { drain: Drain::Apply, drain_at_most, ..Locate::default() };
    Workflow { locate: Some(locate), ..with_checks(&["", "", ""]) }
}

#[test]
fn all_searches_of_a_run_share_its_maximum_of_drained_nodes() {
    let mut book = ready(draining(1));
    let first = failed_check(&mut book, A);
    assert_eq!((first.drains_left, first.locate.drain_at_most), (None, 1));
    let command = serde_json::to_value(&first).unwrap();
    assert!(command.get("drains_left").is_none() && command.get("drained").is_none(), "{command}");
    feed(&mut book, A, [drained(&["n1"])]);
    let second = failed_check(&mut book, B);
    assert_eq!((second.drains_left, &*second.drained), (Some(0), &["n1".to_owned()][..]));
    assert_eq!(second.locate, first.locate, "the reason names the maximum of the workflow");
    // The second search names the drained node and a further node, whose drain the search only proposes.
    let Fact::NodesLocated(again) = drained(&["n1"]) else { panic!() };
    let Fact::NodesLocated(mut proposed) = located() else { panic!() };
    proposed.nodes[0].node = "n2".into();
    let nodes = [again.nodes, proposed.nodes.clone()].concat();
    feed(&mut book, B, [Fact::NodesLocated(Suspects { nodes, ..proposed })]);
    let third = failed_check(&mut book, C);
    assert_eq!((third.drains_left, third.drained), (Some(0), vec!["n1".to_owned()]));
    assert_eq!(lifecycle::fold(&book.records).unwrap(), book.state);
}

#[test]
fn a_node_that_two_searches_drain_counts_once_toward_the_maximum() {
    let mut book = ready(draining(3));
    failed_check(&mut book, A);
    feed(&mut book, A, [drained(&["n1"])]);
    assert_eq!(failed_check(&mut book, B).drains_left, Some(2));
    feed(&mut book, B, [drained(&["n1", "n2"])]);
    let third = failed_check(&mut book, C);
    assert_eq!((third.drains_left, &*third.drained), (Some(1), &["n1".to_owned(), "n2".to_owned()][..]));
}

/// The nodes of another cluster may have the same names.
#[test]
fn nodes_drained_on_a_lost_cluster_count_toward_the_maximum() {
    let mut book = ready(draining(2));
    failed_check(&mut book, A);
    feed(&mut book, A, [drained(&["n1"])]);
    feed(&mut book, B, [Fact::JobAccepted(handle()), Fact::JobFailed(failure(Class::ClusterLost))]);
    book.feed(1, deleted(book.now));
    book.feed(2, Fact::ClusterReady(cluster()));
    let again = Attempt { check: B, number: 2 };
    for fact in [Fact::JobAccepted(handle()), job_done()] {
        assert_eq!(book.feed_at(again, fact), None);
    }
    feed(&mut book, B, [logs(), verdict(Verdict::Fail)]);
    let second = search(&book);
    assert_eq!((second.drains_left, &*second.drained), (Some(1), &[][..]));
    feed(&mut book, B, [drained(&["n1"])]);
    assert_eq!(failed_check(&mut book, C).drains_left, Some(0));
}

#[test]
fn nodes_are_returned_after_the_last_check_only_if_every_check_passed() {
    let retest = Retest { nodes: vec!["n3".into()], after_pass: AfterPass::Return };
    let workflow = Workflow { retest: Some(retest.clone()), ..with_checks(&["", ""]) };
    let after = |first: Verdict, second: Verdict| {
        let mut book = ready(workflow.clone());
        for (check, reached) in [(A, first), (B, second)] {
            feed(&mut book, check, measured());
            feed(&mut book, check, [verdict(reached)]);
        }
        book
    };
    let mut book = after(Verdict::Pass, Verdict::Pass);
    assert_eq!(book.owes(), ["locate.c2a1.start"], "the cluster is kept until the nodes are returned");
    assert_eq!(search(&book).retest, Some(retest));
    let node = RetestedNode { node: "n3".into(), returned: Returned::Applied };
    let Fact::NodesLocated(located) = located() else { panic!("{:?}", located()) };
    let ended = Suspects { nodes: vec![], retested: vec![node.clone()], ..located };
    feed(&mut book, B, [Fact::NodesLocated(ended)]);
    assert_eq!((book.state.retested(), book.state.suspects()), (&[node][..], None));
    finish(&mut book);
    assert!(book.state.closed.is_some());
    for (first, second) in [
        (Verdict::Fail, Verdict::Pass),
        (Verdict::Pass, Verdict::Fail),
        (Verdict::Inconclusive, Verdict::Pass),
    ] {
        let book = after(first, second);
        assert!(book.owes().iter().all(|owed| !owed.starts_with("locate")), "{first} {second}");
    }
}

#[test]
fn a_check_has_its_own_limit() {
    let mut workflow = with_checks(&["", ""]);
    workflow.checks[1].limit = Some(Span::from_secs(60));
    let book = ready(workflow);
    assert_eq!(book.state.limit(Stage::Job), Limits::default().job);
    assert_eq!(book.state.limit(Stage::Job.of(B)), Span::from_secs(60));
}

#[test]
fn facts_of_unknown_checks_are_refused() {
    let mut book = ready(with_checks(&["", ""]));
    assert_eq!(
        book.feed_at(Attempt::first_of(CheckIndex(7)), job_done()),
        Some(lifecycle::Ignored::NotAsked)
    );
    let elsewhere = Attempt::first_of(B);
    assert_eq!(book.feed_at(elsewhere, Fact::ClusterReady(cluster())), Some(lifecycle::Ignored::NotAsked));
}

#[test]
fn records_of_several_checks_have_a_format_that_older_programs_refuse() {
    let mut book = ready(with_checks(&["", ""]));
    feed(&mut book, A, measured());
    feed(&mut book, A, [verdict(Verdict::Pass)]);
    feed(&mut book, B, [Fact::JobAccepted(handle())]);
    let formats: Vec<_> = book.entries().iter().map(|entry| entry.format()).collect();
    assert_eq!((formats.first(), formats.last()), (Some(&4), Some(&4)));
    assert!(formats[1..formats.len() - 1].iter().all(|format| *format == 1));
}
