//! Cost of clusters, and the budget of runs.

use crate::support::{
    TestLedger, cluster, deleted, handle, job_done, loaded, logs, successful_facts, verdict, with_checks,
    workflow,
};
use lifecycle::{Usage, max_cost, wake};
use model::{
    Attempt, Body, CheckIndex, ClusterCost, Conclusion, Fact, Money, RecordEntry, Span, Stage, Verdict,
    Workflow,
};

fn money(text: &str) -> Money {
    text.parse().unwrap()
}

/// Two nodes at 60 EUR per hour each cost 2 EUR per minute.
fn priced(budget: Option<&str>) -> Workflow {
    let budget = budget.map(money);
    let cost = ClusterCost { node_hour: money("60"), budget, kept_hour: None, currency: "EUR".into() };
    Workflow { cost: Some(cost), ..workflow() }
}

fn spent(ledger: &TestLedger) -> String {
    ledger.state.usage(ledger.now).spent.unwrap().to_string()
}

/// The cluster is ready this many seconds after its request.
fn up(workflow: Workflow, seconds: u64) -> TestLedger {
    let mut ledger = TestLedger::open(workflow);
    ledger.until("dev.burnin.image.built.v1");
    ledger.tick(seconds);
    ledger.deliver(1, Fact::ClusterAccepted(handle()));
    ledger.deliver(1, Fact::ClusterReady(cluster()));
    ledger
}

#[test]
fn a_cluster_costs_from_its_request_to_its_confirmed_deletion() {
    let mut ledger = up(priced(None), 90);
    assert_eq!(spent(&ledger), "3.00", "the cost starts at the request: the cluster may exist from then on");
    ledger.tick(30);
    ledger.deliver(1, Fact::JobAccepted(handle()));
    ledger.deliver(1, job_done());
    ledger.deliver(1, logs());
    ledger.tick(60);
    assert_eq!(spent(&ledger), "6.00", "the cluster costs until its deletion is confirmed");
    ledger.deliver(1, deleted(ledger.now));
    ledger.tick(3600);
    let usage = ledger.state.usage(ledger.now);
    assert_eq!((usage.held, usage.spent), (Span::from_secs(180), Some(money("6"))));
    assert_eq!(usage.idle(), Span(usage.held.0 - usage.busy.0));

    // A cluster that reappears costs again.
    ledger.feed_as("late", 1, Fact::ClusterReady(cluster()));
    ledger.tick(60);
    assert_eq!(spent(&ledger), "8.00");
}

#[test]
fn a_run_is_stopped_and_its_cluster_released_within_the_budget() {
    let mut ledger = up(priced(Some("20")), 60);
    ledger.deliver(1, Fact::JobAccepted(handle()));
    let grace = ledger.state.workflow.limits.grace;
    let stop = wake(&ledger.state, ledger.now).unwrap();
    ledger.tick(60);
    assert!(!ledger.entries().iter().any(|entry| matches!(entry, RecordEntry::OverBudget { .. })));
    // A budget of 20 EUR covers ten minutes, including the grace period for the release.
    let seconds = 600 - grace.0.as_secs() - 120;
    ledger.tick(seconds - 1);
    assert!(stop <= ledger.now + Span::from_secs(1), "the next evaluation is due when the run must stop");
    assert!(ledger.state.settled.is_none());
    ledger.tick(1);
    assert!(
        matches!(ledger.entries().last(), Some(RecordEntry::OverBudget { .. })),
        "{:?}",
        ledger.entries().last()
    );
    assert_eq!(ledger.entries().last().unwrap().format(), 2);
    assert_eq!(ledger.owes(), ["cluster.1.delete", "job.1.cancel"]);
    let (conclusion, _) = ledger.state.settled.clone().unwrap();
    let text = format!("{conclusion:?}");
    assert!(text.contains("OVER_BUDGET") && text.contains("EUR of 20.00"), "{text}");
    ledger.tick(grace.0.as_secs());
    ledger.deliver(1, deleted(ledger.now));
    assert_eq!(ledger.conclusion(), Some("failed"));
    assert!(ledger.state.usage(ledger.now).spent.unwrap() <= money("20"), "{}", spent(&ledger));
}

/// The second of three checks runs when the budget stops the run.
#[test]
fn the_budget_of_several_checks_stops_the_running_one_and_starts_no_further() {
    for (first, expected) in [(Verdict::Pass, None), (Verdict::Fail, Some(Verdict::Fail))] {
        let checks = with_checks(&["", "", ""]).checks;
        let mut ledger = up(Workflow { checks, benchmark: None, ..priced(Some("40")) }, 60);
        let (second, third) = (CheckIndex(1), CheckIndex(2));
        ledger.tick(300);
        for fact in [Fact::JobAccepted(handle()), job_done(), logs(), verdict(first)] {
            assert_eq!(ledger.deliver(1, fact), None);
        }
        assert_eq!(ledger.feed_at(Attempt::first_of(second), Fact::JobAccepted(handle())), None);
        // A budget of 40 EUR covers twenty minutes of the cluster; six minutes have passed.
        let seconds = 1200 - ledger.state.workflow.limits.grace.0.as_secs() - 360;
        ledger.tick(seconds - 1);
        assert_eq!(
            (ledger.owes(), ledger.state.settled.is_none()),
            (vec!["job.c2a1.observe".to_owned()], true)
        );
        ledger.tick(1);
        assert!(matches!(ledger.entries().last(), Some(RecordEntry::OverBudget { .. })));
        assert_eq!(ledger.owes(), ["cluster.1.delete", "job.c2a1.cancel"]);
        let Some((Conclusion::Failed { stage: Stage::Job, check, failure }, _)) = &ledger.state.settled
        else {
            panic!("{:?}", ledger.state.settled);
        };
        assert_eq!((*check, failure.code.as_str()), (second, "OVER_BUDGET"));
        ledger.deliver(1, deleted(ledger.now));
        assert_eq!(ledger.conclusion(), Some("failed"));
        assert!(ledger.state.stage(Stage::Job.of(third)).is_none(), "no further job starts");
        assert_eq!(ledger.state.verdict().map(|reached| reached.verdict), expected);
        assert!(ledger.state.usage(ledger.now).spent.unwrap() <= money("40"), "{}", spent(&ledger));
    }
}

#[test]
fn the_budget_does_not_stop_a_run_with_collected_logs() {
    let mut ledger = up(priced(Some("20")), 60);
    for fact in [Fact::JobAccepted(handle()), job_done(), logs()] {
        ledger.deliver(1, fact);
    }
    ledger.tick(3600);
    assert!(!ledger.entries().iter().any(|entry| matches!(entry, RecordEntry::OverBudget { .. })));
}

#[test]
fn the_budget_ends_the_search_and_not_the_run() {
    for judged in [false, true] {
        let searching = Workflow { locate: Some(Default::default()), ..priced(Some("20")) };
        let mut ledger = up(searching, 60);
        for fact in [Fact::JobAccepted(handle()), job_done(), logs()] {
            ledger.deliver(1, fact);
        }
        if judged {
            ledger.deliver(1, verdict(Verdict::Fail));
        }
        ledger.tick(540 - ledger.state.workflow.limits.grace.0.as_secs());
        assert!(ledger.owes().contains(&"cluster.1.delete".to_owned()), "{:?}", ledger.owes());
        if !judged {
            ledger.deliver(1, verdict(Verdict::Fail));
        }
        for fact in [loaded(), deleted(ledger.now)] {
            ledger.deliver(1, fact);
        }
        assert_eq!(ledger.conclusion(), Some("completed"));
    }
}

#[test]
fn a_cluster_ends_by_itself_when_its_lease_or_the_budget_ends() {
    let ends_after = |workflow: Workflow| {
        let mut ledger = TestLedger::open(workflow);
        ledger.until("dev.burnin.image.built.v1");
        let owed = lifecycle::owed(&ledger.state, ledger.now);
        let expires_at = owed.iter().find_map(|owed| match &owed.command.body {
            Body::ClusterCreate { expires_at, .. } => *expires_at,
            _ => None,
        });
        expires_at.unwrap().since(ledger.now)
    };
    let lease = workflow().limits.lease;
    assert_eq!(ends_after(workflow()), lease);
    assert_eq!(ends_after(priced(Some("1000000"))), lease);
    assert_eq!(
        ends_after(priced(Some("20"))),
        Span::from_secs(600),
        "the lease ends even if no service is running"
    );
}

#[test]
fn a_second_cluster_gets_the_remaining_lease_and_budget() {
    let mut ledger = up(priced(Some("30")), 300);
    let lost = model::Failure::new(model::Class::ClusterLost, "NODE_FAIL", "gone");
    ledger.deliver(1, Fact::JobFailed(lost));
    ledger.deliver(1, deleted(ledger.now));
    let lease = &ledger.state.leases[&Attempt::new(2)];
    assert_eq!(lease.expires_at.since(lease.asked_at), Span::from_secs(600), "10 EUR of 30 EUR are spent");
}

#[test]
fn the_maximum_cost_of_a_workflow_is_known_in_advance() {
    assert_eq!(max_cost(&workflow()), None, "without a price the cost is unknown");
    let hours = priced(None).limits.lease.0.as_secs() / 3600 * u64::from(priced(None).limits.attempts);
    assert_eq!(max_cost(&priced(None)), Some(Money::from_micros(120_000_000 * hours)));
    assert_eq!(max_cost(&priced(Some("20"))), Some(money("20")));
    let free = ClusterCost {
        node_hour: Money::default(),
        budget: Some(money("1")),
        kept_hour: None,
        currency: "USD".into(),
    };
    let mut ledger = TestLedger::open(Workflow { cost: Some(free), ..workflow() });
    for fact in successful_facts() {
        ledger.deliver(1, fact);
        ledger.tick(3600 * 24);
    }
    assert!(
        !ledger.entries().iter().any(|entry| matches!(entry, RecordEntry::OverBudget { .. })),
        "without a cluster the cost is zero"
    );
    let own = Usage::default();
    assert_eq!((own.held, own.spent), (Span::default(), None));
}
