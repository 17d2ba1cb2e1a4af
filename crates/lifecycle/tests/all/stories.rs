//! Complete runs, fact by fact.

use crate::support::*;
use model::*;

#[test]
fn a_successful_run_takes_twelve_records_and_closes() {
    let mut ledger = TestLedger::open(workflow());
    let mut owes = vec![ledger.owes().join(" ")];
    for fact in successful_facts() {
        assert_eq!(ledger.deliver(1, fact), None);
        owes.push(ledger.owes().join(" "));
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
    assert_eq!(ledger.records.len(), 12);
    assert_eq!(ledger.conclusion(), Some("completed"));
    assert_eq!(ledger.state.verdict().unwrap().verdict, Verdict::Pass);
}

#[test]
fn a_failed_benchmark_is_a_result_and_is_not_repeated() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.job.accepted.v1");
    let end = JobEnd::new("FAILED", Some(7));
    ledger.deliver(1, Fact::JobDone(end));
    assert_eq!(ledger.owes(), ["logs.1.start"]);
}

#[test]
fn the_names_of_nodes_that_the_scheduler_chose_replace_placeholders() {
    let mut ledger = TestLedger::open(workflow());
    ledger.deliver(1, Fact::ImageBuilt(image()));
    let nodes = ["any-0", "any-1"].map(|name| Node::new(name, 1)).to_vec();
    ledger.deliver(1, Fact::ClusterReady(Cluster { nodes, ..cluster() }));
    ledger.deliver(1, Fact::JobAccepted(handle()));
    assert!(ledger.state.node_names().is_empty());
    let Fact::JobDone(end) = job_done() else { unreachable!() };
    ledger.deliver(1, Fact::JobDone(JobEnd { nodes: vec!["n3".into(), "n1".into()], ..end }));
    assert_eq!(ledger.state.node_names(), ["n3", "n1"]);
}

#[test]
fn an_infrastructure_failure_opens_another_attempt_up_to_the_maximum() {
    let mut ledger = TestLedger::open(workflow());
    ledger.deliver(1, Fact::ImageFailed(failure(Class::Infrastructure)));
    assert_eq!(ledger.owes(), ["image.2.start"]);
    // A late fact about the first attempt has no effect.
    assert_eq!(ledger.deliver(1, Fact::ImageBuilt(image())), Some(lifecycle::Ignored::OlderAttempt));
    ledger.deliver(2, Fact::ImageFailed(failure(Class::Infrastructure)));
    assert_eq!(ledger.conclusion(), Some("failed"), "the maximum is two attempts");
}

#[test]
fn a_broken_cluster_is_deleted_before_the_next_request() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.cluster.accepted.v1");
    ledger.deliver(1, Fact::ClusterFailed(failure(Class::Infrastructure)));
    assert_eq!(ledger.owes(), ["cluster.1.delete"], "a run has at most one cluster at a time");
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.owes(), ["cluster.2.start"]);
}

#[test]
fn a_job_that_lost_its_cluster_gets_another_cluster() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.job.accepted.v1");
    ledger.deliver(1, Fact::JobFailed(failure(Class::ClusterLost)));
    assert_eq!(ledger.owes(), ["cluster.1.delete"]);
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.owes(), ["cluster.2.start"]);
    ledger.deliver(2, Fact::ClusterReady(cluster()));
    assert_eq!(ledger.owes(), ["job.2.start"]);
}

#[test]
fn the_logs_of_a_failed_job_are_still_collected() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.job.accepted.v1");
    ledger.deliver(1, Fact::JobFailed(failure(Class::Infrastructure)));
    ledger.deliver(2, Fact::JobFailed(failure(Class::Infrastructure)));
    assert_eq!(ledger.owes(), ["logs.1.start"]);
    ledger.deliver(1, logs());
    assert_eq!(ledger.owes(), ["cluster.1.delete"], "no logs to judge: all resources are released");
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("failed"));
}

#[test]
fn a_silent_stage_is_polled_before_its_timeout() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.job.accepted.v1");
    ledger.tick(59);
    assert_eq!(ledger.owes(), [""; 0]);
    ledger.tick(1);
    assert_eq!(ledger.owes(), ["job.1.observe"], "after the poll interval the stage is polled");
    ledger.tick(3600);
    assert!(matches!(ledger.entries().last(), Some(RecordEntry::Overdue { stage: Stage::Job, .. })));
    assert_eq!(ledger.owes(), ["job.1.observe"], "after the limit the stage is polled again");
    ledger.tick(119);
    assert!(!ledger.state.failed(Stage::Job));
    ledger.tick(1);
    assert!(ledger.state.failed(Stage::Job), "polled without a response");
    assert_eq!(ledger.owes(), ["job.1.cancel", "logs.1.start"]);
}

#[test]
fn after_an_outage_a_late_result_is_accepted_although_the_limit_has_passed() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.job.accepted.v1");
    ledger.tick(100_000);
    assert_eq!(ledger.owes(), ["job.1.observe"]);
    ledger.deliver(1, job_done());
    assert_eq!(
        ledger.owes(),
        ["logs.1.start"],
        "a late completion is accepted before the timeout is recorded"
    );
}

#[test]
fn a_cluster_that_appears_after_closing_reopens_only_its_lease() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.image.built.v1");
    ledger.deliver(1, Fact::CancelRequested(CancelRequested { by: "ann".into(), reason: String::new() }));
    assert_eq!(ledger.owes(), ["cluster.1.delete"], "the cluster may already have been requested");
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("cancelled"));
    assert_eq!(ledger.deliver(1, Fact::ClusterReady(cluster())), None);
    assert_eq!(ledger.owes(), ["cluster.1.delete"]);
    ledger.now = ledger.now + Span::from_secs(5);
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.owes(), [""; 0]);
    assert_eq!(ledger.conclusion(), Some("cancelled"), "the result is unchanged");
}

#[test]
fn a_cancellation_at_any_time_releases_everything() {
    for moment in 0..successful_facts().len() {
        let mut ledger = TestLedger::open(workflow());
        for fact in successful_facts().into_iter().take(moment) {
            ledger.deliver(1, fact);
        }
        ledger.deliver(1, Fact::CancelRequested(CancelRequested { by: "ann".into(), reason: String::new() }));
        for owed in ledger.owes() {
            match owed.as_str() {
                "image.1.cancel" => ledger.deliver(1, Fact::ImageFailed(failure(Class::Cancelled))),
                "job.1.cancel" => ledger.deliver(1, Fact::JobFailed(failure(Class::Cancelled))),
                "cluster.1.delete" => ledger.deliver(1, deleted(ledger.now)),
                other => panic!("after {moment} facts a cancelled run owes {other}"),
            };
        }
        let settled = moment >= 9;
        assert_eq!(ledger.conclusion(), Some(if settled { "completed" } else { "cancelled" }), "at {moment}");
    }
}

#[test]
fn a_workflow_may_lack_image_or_benchmark() {
    let mut bare = workflow();
    bare.image = None;
    bare.benchmark = None;
    let mut ledger = TestLedger::open(bare);
    assert_eq!(ledger.owes(), ["cluster.1.start"]);
    ledger.deliver(1, Fact::ClusterReady(cluster()));
    assert_eq!(ledger.owes(), ["cluster.1.delete"]);
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("completed"));
}

#[test]
fn an_existing_cluster_is_used_and_left_unchanged() {
    let mut shared = workflow();
    shared.cluster = Some(ClusterSpec::Existing { system: System::processes(2), name: "lab".into() });
    let mut ledger = TestLedger::open(shared);
    for fact in successful_facts() {
        ledger.deliver(1, fact);
        assert!(!ledger.owes().iter().any(|owed| owed.contains("delete")), "{:?}", ledger.owes());
    }
    assert_eq!(ledger.conclusion(), Some("completed"));
}

#[test]
fn a_failed_verdict_stage_does_not_lose_the_measurements() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.logs.collected.v1");
    ledger.deliver(1, Fact::VerdictFailed(failure(Class::Workload)));
    assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
    ledger.deliver(1, loaded());
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("failed"));
    assert!(ledger.state.results().is_some() && ledger.state.verdict().is_none());
}

#[test]
fn a_failed_load_does_not_lose_the_verdict() {
    let mut ledger = TestLedger::open(workflow());
    ledger.until("dev.burnin.logs.collected.v1");
    ledger.deliver(1, verdict(Verdict::Fail));
    assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
    ledger.deliver(1, Fact::ResultsFailed(failure(Class::Workload)));
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("failed"));
    assert_eq!(ledger.state.verdict().unwrap().verdict, Verdict::Fail);
}

/// A run up to a verdict `fail`.
fn failed(workflow: Workflow) -> TestLedger {
    let mut ledger = TestLedger::open(workflow);
    ledger.until("dev.burnin.logs.collected.v1");
    assert_eq!(ledger.owes(), ["verdict.1.start"], "the cluster may still be needed");
    ledger.deliver(1, verdict(Verdict::Fail));
    ledger
}

#[test]
fn a_failed_verdict_keeps_the_cluster_until_the_bad_node_is_found() {
    let mut ledger = failed(searching());
    assert_eq!(ledger.owes(), ["locate.1.start"]);
    ledger.deliver(1, located());
    assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
    ledger.deliver(1, loaded());
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("completed"));
    assert_eq!(ledger.state.suspects().unwrap().nodes[0].node, "n1");
    let formats: Vec<u32> = ledger.entries().iter().map(|entry| entry.format()).collect();
    assert_eq!(formats.iter().filter(|format| **format == 3).count(), 1, "{formats:?}");
}

#[test]
fn any_other_verdict_releases_the_cluster_immediately() {
    for other in [Verdict::Pass, Verdict::Inconclusive] {
        let mut ledger = TestLedger::open(searching());
        ledger.until("dev.burnin.logs.collected.v1");
        ledger.deliver(1, verdict(other));
        assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
        assert_eq!(ledger.deliver(1, located()), Some(lifecycle::Ignored::NotRequired));
    }
    let mut ledger = TestLedger::open(searching());
    ledger.until("dev.burnin.logs.collected.v1");
    ledger.deliver(1, Fact::VerdictFailed(failure(Class::Workload)));
    assert_eq!(
        ledger.owes(),
        ["cluster.1.delete", "results.1.start"],
        "without a verdict the cluster is released immediately"
    );
}

#[test]
fn a_failed_search_affects_neither_verdict_nor_measurements() {
    let mut ledger = failed(searching());
    ledger.deliver(1, Fact::NodesFailed(failure(Class::Infrastructure)));
    assert_eq!(ledger.owes(), ["locate.2.start"]);
    ledger.deliver(2, Fact::NodesFailed(failure(Class::Infrastructure)));
    assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
    ledger.deliver(1, loaded());
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("completed"));
}

#[test]
fn an_unneeded_search_is_stopped_before_the_run_closes() {
    let mut shared = searching();
    shared.cluster = Some(ClusterSpec::Existing { system: System::processes(2), name: "lab".into() });
    let mut ledger = failed(shared.clone());
    ledger.deliver(1, Fact::CancelRequested(CancelRequested { by: "ann".into(), reason: String::new() }));
    assert_eq!(ledger.owes(), ["locate.1.cancel"]);
    assert_eq!(ledger.conclusion(), None);
    ledger.deliver(1, Fact::NodesFailed(failure(Class::Cancelled)));
    assert_eq!(ledger.conclusion(), Some("cancelled"));

    let mut ledger = failed(shared);
    let limits = ledger.state.workflow.limits;
    ledger.tick(limits.locate.0.as_secs());
    assert_eq!(ledger.owes(), ["locate.1.start"], "the search is polled again");
    ledger.tick(limits.grace.0.as_secs());
    assert_eq!(ledger.owes(), ["locate.1.cancel", "results.1.start"]);
    ledger.deliver(1, loaded());
    assert_eq!(ledger.conclusion(), None);
    ledger.deliver(1, Fact::NodesFailed(failure(Class::Cancelled)));
    assert_eq!(ledger.conclusion(), Some("completed"));
}

/// Repeated commands for the search are identical.
#[test]
fn a_search_ends_before_its_limit_and_before_the_lease() {
    let ends = |workflow: Workflow| {
        let mut ledger = failed(workflow);
        let deadline =
            |ledger: &TestLedger| match lifecycle::owed(&ledger.state, ledger.now).remove(0).command.body {
                Body::NodesLocate { search } => search.ends_at,
                other => panic!("{other:?}"),
            };
        let first = deadline(&ledger);
        ledger.tick(30);
        assert_eq!(deadline(&ledger), first);
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
    for moment in 0..=successful_facts().len() {
        let mut ledger = TestLedger::open(workflow());
        for fact in successful_facts().into_iter().take(moment) {
            ledger.deliver(1, fact);
        }
        let last = successful_facts().get(moment.wrapping_sub(1)).map_or("run.requested", |fact| short(fact));
        table += &format!("after {last}\n");
        for fact in every_fact() {
            let mut next = ledger.clone();
            let outcome = match next.deliver(1, fact.clone()) {
                Some(why) => format!("ignored: {}", why.as_str()),
                None => {
                    let new = next.records.len() - ledger.records.len();
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
