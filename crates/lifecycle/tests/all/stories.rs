//! Complete runs, fact by fact.

use crate::support::*;
use model::*;

#[test]
fn a_successful_run_takes_twelve_records_and_closes() {
    let mut book = Book::open(workflow());
    let mut owes = vec![book.owes().join(" ")];
    for fact in happy() {
        assert_eq!(book.feed(1, fact), None);
        owes.push(book.owes().join(" "));
    }
    assert_eq!(
        owes,
        [
            "image.1.start",
            "",
            "cluster.1.start",
            "",
            "job.1.start",
            "",
            "logs.1.start",
            "cluster.1.delete verdict.1.start", // the logs are stored: the cluster is released while the run is judged
            "cluster.1.delete results.1.start",
            "cluster.1.delete",
            "",
        ]
    );
    assert_eq!(book.records.len(), 12);
    assert_eq!(book.conclusion(), Some("completed"));
    assert_eq!(book.state.verdict().unwrap().verdict, Verdict::Pass);
}

#[test]
fn a_failed_benchmark_is_a_result_and_is_not_repeated() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.job.accepted.v1");
    let end = JobEnd {
        state: "FAILED".into(),
        exit_code: Some(7),
        signal: None,
        started_at: None,
        ended_at: None,
        nodes: Vec::new(),
    };
    book.feed(1, Fact::JobDone(end));
    assert_eq!(book.owes(), ["logs.1.start"]);
}

#[test]
fn the_names_of_nodes_that_the_scheduler_chose_replace_placeholders() {
    let mut book = Book::open(workflow());
    book.feed(1, Fact::ImageBuilt(image()));
    let nodes = ["any-0", "any-1"].map(|name| Node::new(name, 1)).to_vec();
    book.feed(1, Fact::ClusterReady(Cluster { nodes, ..cluster() }));
    book.feed(1, Fact::JobAccepted(handle()));
    assert!(book.state.node_names().is_empty());
    let Fact::JobDone(end) = job_done() else { unreachable!() };
    book.feed(1, Fact::JobDone(JobEnd { nodes: vec!["n3".into(), "n1".into()], ..end }));
    assert_eq!(book.state.node_names(), ["n3", "n1"]);
}

#[test]
fn an_infrastructure_failure_opens_another_attempt_up_to_the_maximum() {
    let mut book = Book::open(workflow());
    book.feed(1, Fact::ImageFailed(failure(Class::Infrastructure)));
    assert_eq!(book.owes(), ["image.2.start"]);
    // A late fact about the first attempt has no effect.
    assert_eq!(book.feed(1, Fact::ImageBuilt(image())), Some(lifecycle::Ignored::OlderAttempt));
    book.feed(2, Fact::ImageFailed(failure(Class::Infrastructure)));
    assert_eq!(book.conclusion(), Some("failed"), "the maximum is two attempts");
}

#[test]
fn a_broken_cluster_is_deleted_before_the_next_request() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.cluster.accepted.v1");
    book.feed(1, Fact::ClusterFailed(failure(Class::Infrastructure)));
    assert_eq!(book.owes(), ["cluster.1.delete"], "a run has at most one cluster at a time");
    book.feed(1, deleted(book.now));
    assert_eq!(book.owes(), ["cluster.2.start"]);
}

#[test]
fn a_job_that_lost_its_cluster_gets_another_cluster() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.job.accepted.v1");
    book.feed(1, Fact::JobFailed(failure(Class::ClusterLost)));
    assert_eq!(book.owes(), ["cluster.1.delete"]);
    book.feed(1, deleted(book.now));
    assert_eq!(book.owes(), ["cluster.2.start"]);
    book.feed(2, Fact::ClusterReady(cluster()));
    assert_eq!(book.owes(), ["job.2.start"]);
}

#[test]
fn the_logs_of_a_failed_job_are_still_collected() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.job.accepted.v1");
    book.feed(1, Fact::JobFailed(failure(Class::Infrastructure)));
    book.feed(2, Fact::JobFailed(failure(Class::Infrastructure)));
    assert_eq!(book.owes(), ["logs.1.start"]);
    book.feed(1, logs());
    assert_eq!(book.owes(), ["cluster.1.delete"], "no logs to judge: all resources are released");
    book.feed(1, deleted(book.now));
    assert_eq!(book.conclusion(), Some("failed"));
}

#[test]
fn a_silent_stage_is_polled_before_its_timeout() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.job.accepted.v1");
    book.tick(59);
    assert_eq!(book.owes(), [""; 0]);
    book.tick(1);
    assert_eq!(book.owes(), ["job.1.observe"], "after the poll interval the stage is polled");
    book.tick(3600);
    assert!(matches!(book.entries().last(), Some(RecordEntry::Overdue { stage: Stage::Job, .. })));
    assert_eq!(book.owes(), ["job.1.observe"], "after the limit the stage is polled again");
    book.tick(119);
    assert!(!book.state.failed(Stage::Job));
    book.tick(1);
    assert!(book.state.failed(Stage::Job), "polled without a response");
    assert_eq!(book.owes(), ["job.1.cancel", "logs.1.start"]);
}

#[test]
fn after_an_outage_a_late_result_is_accepted_although_the_limit_has_passed() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.job.accepted.v1");
    book.tick(100_000);
    assert_eq!(book.owes(), ["job.1.observe"]);
    book.feed(1, job_done());
    assert_eq!(book.owes(), ["logs.1.start"], "a late completion is accepted before the timeout is recorded");
}

#[test]
fn a_cluster_that_appears_after_closing_reopens_only_its_lease() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.image.built.v1");
    book.feed(1, Fact::CancelRequested(CancelRequested { by: "ann".into(), reason: String::new() }));
    assert_eq!(book.owes(), ["cluster.1.delete"], "the cluster may already have been requested");
    book.feed(1, deleted(book.now));
    assert_eq!(book.conclusion(), Some("cancelled"));
    assert_eq!(book.feed(1, Fact::ClusterReady(cluster())), None);
    assert_eq!(book.owes(), ["cluster.1.delete"]);
    book.now = book.now + Span::from_secs(5);
    book.feed(1, deleted(book.now));
    assert_eq!(book.owes(), [""; 0]);
    assert_eq!(book.conclusion(), Some("cancelled"), "the result is unchanged");
}

#[test]
fn a_cancellation_at_any_time_releases_everything() {
    for moment in 0..happy().len() {
        let mut book = Book::open(workflow());
        for fact in happy().into_iter().take(moment) {
            book.feed(1, fact);
        }
        book.feed(1, Fact::CancelRequested(CancelRequested { by: "ann".into(), reason: String::new() }));
        for owed in book.owes() {
            match owed.as_str() {
                "image.1.cancel" => book.feed(1, Fact::ImageFailed(failure(Class::Cancelled))),
                "job.1.cancel" => book.feed(1, Fact::JobFailed(failure(Class::Cancelled))),
                "cluster.1.delete" => book.feed(1, deleted(book.now)),
                other => panic!("after {moment} facts a cancelled run owes {other}"),
            };
        }
        let settled = moment >= 9;
        assert_eq!(book.conclusion(), Some(if settled { "completed" } else { "cancelled" }), "at {moment}");
    }
}

#[test]
fn a_workflow_may_lack_image_or_benchmark() {
    let mut bare = workflow();
    bare.image = None;
    bare.benchmark = None;
    let mut book = Book::open(bare);
    assert_eq!(book.owes(), ["cluster.1.start"]);
    book.feed(1, Fact::ClusterReady(cluster()));
    assert_eq!(book.owes(), ["cluster.1.delete"]);
    book.feed(1, deleted(book.now));
    assert_eq!(book.conclusion(), Some("completed"));
}

#[test]
fn an_existing_cluster_is_used_and_left_unchanged() {
    let mut shared = workflow();
    shared.cluster = Some(ClusterSpec::Existing { system: System::processes(2), name: "lab".into() });
    let mut book = Book::open(shared);
    for fact in happy() {
        book.feed(1, fact);
        assert!(!book.owes().iter().any(|owed| owed.contains("delete")), "{:?}", book.owes());
    }
    assert_eq!(book.conclusion(), Some("completed"));
}

#[test]
fn a_failed_verdict_stage_does_not_lose_the_measurements() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.logs.collected.v1");
    book.feed(1, Fact::VerdictFailed(failure(Class::Workload)));
    assert_eq!(book.owes(), ["cluster.1.delete", "results.1.start"]);
    book.feed(1, loaded());
    book.feed(1, deleted(book.now));
    assert_eq!(book.conclusion(), Some("failed"));
    assert!(book.state.results().is_some() && book.state.verdict().is_none());
}

#[test]
fn a_failed_load_does_not_lose_the_verdict() {
    let mut book = Book::open(workflow());
    book.until("dev.burnin.logs.collected.v1");
    book.feed(1, verdict(Verdict::Fail));
    assert_eq!(book.owes(), ["cluster.1.delete", "results.1.start"]);
    book.feed(1, Fact::ResultsFailed(failure(Class::Workload)));
    book.feed(1, deleted(book.now));
    assert_eq!(book.conclusion(), Some("failed"));
    assert_eq!(book.state.verdict().unwrap().verdict, Verdict::Fail);
}

/// A run up to a verdict `fail`.
fn failed(workflow: Workflow) -> Book {
    let mut book = Book::open(workflow);
    book.until("dev.burnin.logs.collected.v1");
    assert_eq!(book.owes(), ["verdict.1.start"], "the cluster may still be needed");
    book.feed(1, verdict(Verdict::Fail));
    book
}

#[test]
fn a_failed_verdict_keeps_the_cluster_until_the_bad_node_is_found() {
    let mut book = failed(searching());
    assert_eq!(book.owes(), ["locate.1.start"]);
    book.feed(1, located());
    assert_eq!(book.owes(), ["cluster.1.delete", "results.1.start"]);
    book.feed(1, loaded());
    book.feed(1, deleted(book.now));
    assert_eq!(book.conclusion(), Some("completed"));
    assert_eq!(book.state.suspects().unwrap().nodes[0].node, "n1");
    let formats: Vec<u32> = book.entries().iter().map(|entry| entry.format()).collect();
    assert_eq!(formats.iter().filter(|format| **format == 3).count(), 1, "{formats:?}");
}

#[test]
fn any_other_verdict_releases_the_cluster_immediately() {
    for other in [Verdict::Pass, Verdict::Inconclusive] {
        let mut book = Book::open(searching());
        book.until("dev.burnin.logs.collected.v1");
        book.feed(1, verdict(other));
        assert_eq!(book.owes(), ["cluster.1.delete", "results.1.start"]);
        assert_eq!(book.feed(1, located()), Some(lifecycle::Ignored::NotAsked));
    }
    let mut book = Book::open(searching());
    book.until("dev.burnin.logs.collected.v1");
    book.feed(1, Fact::VerdictFailed(failure(Class::Workload)));
    assert_eq!(
        book.owes(),
        ["cluster.1.delete", "results.1.start"],
        "without a verdict the cluster is released immediately"
    );
}

#[test]
fn a_failed_search_affects_neither_verdict_nor_measurements() {
    let mut book = failed(searching());
    book.feed(1, Fact::NodesFailed(failure(Class::Infrastructure)));
    assert_eq!(book.owes(), ["locate.2.start"]);
    book.feed(2, Fact::NodesFailed(failure(Class::Infrastructure)));
    assert_eq!(book.owes(), ["cluster.1.delete", "results.1.start"]);
    book.feed(1, loaded());
    book.feed(1, deleted(book.now));
    assert_eq!(book.conclusion(), Some("completed"));
}

#[test]
fn an_unneeded_search_is_stopped_before_the_run_closes() {
    let mut shared = searching();
    shared.cluster = Some(ClusterSpec::Existing { system: System::processes(2), name: "lab".into() });
    let mut book = failed(shared.clone());
    book.feed(1, Fact::CancelRequested(CancelRequested { by: "ann".into(), reason: String::new() }));
    assert_eq!(book.owes(), ["locate.1.cancel"]);
    assert_eq!(book.conclusion(), None);
    book.feed(1, Fact::NodesFailed(failure(Class::Cancelled)));
    assert_eq!(book.conclusion(), Some("cancelled"));

    let mut book = failed(shared);
    let limits = book.state.workflow.limits;
    book.tick(limits.locate.0.as_secs());
    assert_eq!(book.owes(), ["locate.1.start"], "the search is polled again");
    book.tick(limits.grace.0.as_secs());
    assert_eq!(book.owes(), ["locate.1.cancel", "results.1.start"]);
    book.feed(1, loaded());
    assert_eq!(book.conclusion(), None);
    book.feed(1, Fact::NodesFailed(failure(Class::Cancelled)));
    assert_eq!(book.conclusion(), Some("completed"));
}

/// Repeated commands for the search are identical.
#[test]
fn a_search_ends_before_its_limit_and_before_the_lease() {
    let ends = |workflow: Workflow| {
        let mut book = failed(workflow);
        let deadline = |book: &Book| match lifecycle::owed(&book.state, book.now).remove(0).command.body {
            Body::NodesLocate { search } => search.ends_at,
            other => panic!("{other:?}"),
        };
        let first = deadline(&book);
        book.tick(30);
        assert_eq!(deadline(&book), first);
        first.since(START)
    };
    let grace = workflow().limits.grace.0;
    assert_eq!(ends(searching()).0, searching().limits.locate.0 - grace);
    let mut short = searching();
    short.limits.lease = Span::from_secs(600);
    assert_eq!(ends(short).0, std::time::Duration::from_secs(600) - grace);
}

/// Every state of a successful run with every fact: a reviewed table of the complete behavior.
#[test]
fn every_fact_has_its_reviewed_effect_in_every_stage() {
    let mut table = String::new();
    for moment in 0..=happy().len() {
        let mut book = Book::open(workflow());
        for fact in happy().into_iter().take(moment) {
            book.feed(1, fact);
        }
        let last = happy().get(moment.wrapping_sub(1)).map_or("run.requested", |fact| short(fact));
        table += &format!("after {last}\n");
        for fact in every_fact() {
            let mut next = book.clone();
            let outcome = match next.feed(1, fact.clone()) {
                Some(why) => format!("ignored: {}", why.as_str()),
                None => {
                    let new = next.records.len() - book.records.len();
                    let closed = next.conclusion().map(|how| format!(", closed {how}")).unwrap_or_default();
                    format!("{new} recorded, owes [{}]{closed}", next.owes().join(" "))
                }
            };
            let class = fact.failure().map(|failure| format!("({:?})", failure.class)).unwrap_or_default();
            table += &format!("  {:<38} {outcome}\n", format!("{}{class}", short(&fact)));
        }
    }
    insta::assert_snapshot!(table);
}

fn short(fact: &Fact) -> &'static str {
    fact.event_type().trim_start_matches("dev.burnin.").trim_end_matches(".v1")
}
