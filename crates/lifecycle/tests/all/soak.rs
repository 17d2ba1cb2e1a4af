//! Runs that repeat their checks.

use crate::support::*;
use lifecycle::{SoakEnd, fold, last_loads};
use model::*;

/// A soak of two checks, the second of which needs the first.
fn soak(seconds: u64) -> Workflow {
    let soak = Some(Soak { duration: Span::from_secs(seconds), drift: 0.02 });
    Workflow { soak, ..with_checks(&["", "a"]) }
}

/// Measures and judges the next check, which takes a minute.
fn check(ledger: &mut TestLedger, check: u16, reached: Verdict) {
    let attempt = Attempt::first_of(CheckIndex(check));
    ledger.now = ledger.now + Span::from_secs(60);
    for fact in [Fact::JobAccepted(handle()), job_done(), logs(), verdict(reached)] {
        assert_eq!(ledger.feed_at(attempt, fact), None);
    }
}

fn settled(ledger: &mut TestLedger) -> Option<Conclusion> {
    finish(ledger);
    ledger.state.settled.clone().map(|(conclusion, _)| conclusion)
}

#[test]
fn rounds_are_repeated_until_the_duration_of_the_soak_has_passed() {
    let mut ledger = ready(soak(300));
    for round in 0..2 {
        check(&mut ledger, 2 * round, Verdict::Pass);
        check(&mut ledger, 2 * round + 1, Verdict::Pass);
        assert_eq!(ledger.owes(), [format!("job.c{}a1.start", 2 * round + 3)], "only the next job is owed");
    }
    check(&mut ledger, 4, Verdict::Pass);
    assert_eq!(
        ledger.owes(),
        ["job.c6a1.start"],
        "a round is finished even if the duration of the soak has passed"
    );
    check(&mut ledger, 5, Verdict::Pass);
    let progress = ledger.state.soak.unwrap();
    assert_eq!((progress.rounds, progress.ended.map(|(_, end)| end)), (3, Some(SoakEnd::TimePassed)));
    assert_eq!(progress.lasted(ledger.now), Span::from_secs(360));
    assert_eq!(ledger.owes(), ["cluster.1.delete", "results.1.start"]);
    finish(&mut ledger);
    assert_eq!(ledger.conclusion(), Some("completed"));
    assert_eq!(ledger.state.verdict().unwrap().verdict, Verdict::Pass);
    let loaded = ledger.state.checks().filter(|check| ledger.state.results_of(*check).is_some());
    assert_eq!(loaded.count(), 6, "the measurements of all rounds are loaded");
}

#[test]
fn a_round_that_does_not_pass_is_the_last_and_decides_the_verdict() {
    for reached in [Verdict::Fail, Verdict::Inconclusive] {
        let mut ledger = ready(soak(3600));
        check(&mut ledger, 0, Verdict::Pass);
        check(&mut ledger, 1, Verdict::Pass);
        check(&mut ledger, 2, reached);
        let skipped = CheckIndex(3);
        assert!(ledger.state.skipped(skipped), "a check needs the check of its own round");
        finish(&mut ledger);
        assert_eq!(ledger.conclusion(), Some("completed"));
        assert_eq!(ledger.state.verdict().unwrap().verdict, reached);
        assert_eq!(ledger.state.soak.unwrap().ended.unwrap().1, SoakEnd::NotPassed);
        assert_eq!(ledger.state.worst_check(), Some(CheckIndex(2)));
        let summarized: Vec<_> = ledger.state.summarized_checks().collect();
        assert_eq!(summarized, [CheckIndex(2), CheckIndex(3)]);
        assert_eq!(ledger.state.rounds_passed(skipped), Some(1));
    }
}

#[test]
fn a_soak_cut_short_by_its_lease_is_not_completed() {
    let mut workflow = soak(3600);
    workflow.limits.lease = Span::from_secs(600);
    let mut ledger = ready(workflow);
    for index in 0..20 {
        if ledger.state.soak.is_some_and(|progress| progress.ended.is_some()) {
            break;
        }
        check(&mut ledger, index, Verdict::Pass);
    }
    assert_eq!(ledger.state.soak.unwrap().ended.unwrap().1, SoakEnd::Lease);
    assert!(ledger.state.leases.values().all(|lease| ledger.now < lease.expires_at));
    finish(&mut ledger);
    assert_eq!(ledger.conclusion(), Some("failed"));
    let Some((Conclusion::Failed { failure, .. }, _)) = &ledger.state.settled else { panic!() };
    assert_eq!(failure.code, "SOAK_SHORT");
    assert!(failure.message.contains("of 1h"), "{}", failure.message);
}

#[test]
fn a_soak_cut_short_by_its_budget_is_not_completed() {
    let money = |text: &str| text.parse::<Money>().unwrap();
    // Two nodes cost 2 EUR per minute: the budget covers 19.5 minutes, less than the lease.
    let budget = Some(money("39"));
    let cost = ClusterCost { node_hour: money("60"), budget, kept_hour: None, currency: "EUR".into() };
    let mut ledger = ready(Workflow { cost: Some(cost), ..soak(3600) });
    for index in 0..20 {
        if ledger.state.soak.is_some_and(|progress| progress.ended.is_some()) {
            break;
        }
        check(&mut ledger, index, Verdict::Pass);
    }
    let progress = ledger.state.soak.unwrap();
    assert_eq!(progress.ended.unwrap().1, SoakEnd::Budget);
    let needed = Span(progress.longest.0 + ledger.state.workflow.limits.grace.0);
    assert!(progress.rounds > 1 && progress.lasted(ledger.now).0 + needed.0 > Span::from_secs(1170).0);
    finish(&mut ledger);
    assert_eq!(ledger.conclusion(), Some("failed"));
    let Some((Conclusion::Failed { failure, .. }, _)) = &ledger.state.settled else { panic!() };
    assert_eq!(failure.code, "SOAK_SHORT", "the run ends after a round, before its budget stops it");
    assert!(failure.message.contains("raise cost.budget"), "{}", failure.message);
    assert!(ledger.state.usage(ledger.now).spent.unwrap() <= money("39"));
}

#[test]
fn a_soak_has_a_maximum_number_of_checks() {
    let mut ledger = ready(soak(100_000));
    let most = Soak::MAX_CHECKS / 2;
    // The earlier rounds have no records: the maximum depends on the number of rounds only.
    ledger.state.soak.as_mut().unwrap().rounds = most - 1;
    for last in [2 * most - 4, 2 * most - 2] {
        assert_eq!(ledger.state.soak.unwrap().ended, None);
        check(&mut ledger, last, Verdict::Pass);
        check(&mut ledger, last + 1, Verdict::Pass);
    }
    let progress = ledger.state.soak.unwrap();
    assert_eq!((progress.rounds, progress.ended.unwrap().1), (most, SoakEnd::MaxChecks));
    let Some(Conclusion::Failed { check, failure, .. }) = settled(&mut ledger) else { panic!() };
    assert_eq!((check.0, failure.code.as_str()), (Soak::MAX_CHECKS - 1, "SOAK_SHORT"));
    assert!(failure.message.contains("at most 5000 checks"), "{}", failure.message);
}

#[test]
fn a_preempted_job_repeats_only_its_check_of_its_round() {
    let mut ledger = ready(soak(300));
    check(&mut ledger, 0, Verdict::Pass);
    check(&mut ledger, 1, Verdict::Pass);
    check(&mut ledger, 2, Verdict::Pass);
    let preempted = Attempt::first_of(CheckIndex(3));
    ledger.feed_at(preempted, Fact::JobAccepted(handle()));
    ledger.feed_at(preempted, Fact::JobFailed(failure(Class::Infrastructure)));
    assert_eq!(ledger.owes(), ["job.c4a2.start"]);
    let judged = ledger.state.checks().filter(|check| ledger.state.verdict_of(*check).is_some());
    assert_eq!(judged.count(), 3, "earlier rounds keep their verdicts");
}

#[test]
fn a_restart_in_any_round_continues_with_the_same_step() {
    let mut ledger = ready(soak(300));
    for index in 0..6 {
        check(&mut ledger, index, Verdict::Pass);
        assert_eq!(fold(&ledger.records).unwrap(), ledger.state);
    }
}

#[test]
fn a_cancel_stops_the_job_and_keeps_the_verdicts_of_earlier_rounds() {
    let mut ledger = ready(soak(3600));
    check(&mut ledger, 0, Verdict::Pass);
    check(&mut ledger, 1, Verdict::Pass);
    ledger.feed_at(Attempt::first_of(CheckIndex(2)), Fact::JobAccepted(handle()));
    let cancel = CancelRequested { by: "somebody".into(), reason: "test".into() };
    ledger.deliver(1, Fact::CancelRequested(cancel));
    assert!(ledger.owes().contains(&"job.c3a1.cancel".to_owned()), "{:?}", ledger.owes());
    assert_eq!(last_loads(&ledger.state), [], "the run is not closed");
    finish(&mut ledger);
    assert_eq!(ledger.conclusion(), Some("cancelled"));
    // No measurement of the judged rounds is lost.
    let loads: Vec<_> = last_loads(&ledger.state).into_iter().map(|load| load.id.to_string()).collect();
    assert_eq!(loads.len(), 2, "{loads:?}");
    assert!(loads[0].ends_with("results.1.start") && loads[1].ends_with("results.c2a1.start"), "{loads:?}");
    assert_eq!(ledger.state.rounds_passed(CheckIndex(0)), Some(1));
}

#[test]
fn the_judge_gets_the_earlier_rounds_of_its_check_without_the_warm_up() {
    let mut ledger = ready(soak(100_000));
    for index in 0..20 {
        check(&mut ledger, index, Verdict::Pass);
    }
    let attempt = Attempt::first_of(CheckIndex(20));
    for fact in [Fact::JobAccepted(handle()), job_done(), logs()] {
        ledger.feed_at(attempt, fact);
    }
    let owed = lifecycle::owed(&ledger.state, ledger.now);
    let Body::RunJudge { check, soak: Some(soak), .. } = &owed[0].command.body else { panic!() };
    assert_eq!(check.as_deref(), Some("a@11"));
    assert_eq!(soak.round, 11);
    let rounds: Vec<_> = soak.earlier.iter().map(|earlier| earlier.round).collect();
    assert_eq!(rounds, [3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn a_check_name_with_a_number_selects_a_round() {
    let mut ledger = ready(soak(300));
    check(&mut ledger, 0, Verdict::Pass);
    check(&mut ledger, 1, Verdict::Pass);
    let names: Vec<_> =
        ledger.state.checks().map(|check| ledger.state.workflow.check_name(check).into_owned()).collect();
    assert_eq!(names, ["a", "b", "a@2", "b@2"]);
    let named = |name: &str| ledger.state.check_named(name).map(CheckIndex::index);
    assert_eq!(
        ["a@1", "b@2", "a", "a@3", "a@0", "c", "a@x"].map(named),
        [Some(0), Some(3), Some(2), None, None, None, None]
    );
}
