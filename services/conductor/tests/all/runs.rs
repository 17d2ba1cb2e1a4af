//! Runs driven by facts: records, commands, and restarts.

use std::sync::atomic::Ordering;

use crate::support::*;
use conductor::AgentFacts;
use model::*;
use service::{AttributesReader, Clock, Disposition, Event, Handler};
use test_support::good_run;

#[tokio::test]
async fn a_successful_run_writes_twelve_records_and_sends_each_command_once() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    deliver_all(&conductor, [requested()]).await;
    assert_eq!(bed.hints().await, [run()], "the tick finds the run after its first record");
    deliver_all(&conductor, answers()).await;

    let records = bed.records().await;
    assert_eq!(records.len(), 12);
    assert_sound(&records);
    assert_eq!(bed.bus.commands(), COMMANDS);
    let closings = bed.bus.closings();
    let closed = RunClosed { conclusion: Conclusion::Completed, verdict: Some(Verdict::Pass) };
    assert_eq!(closings.into_iter().map(|(_, closed)| closed).collect::<Vec<_>>(), [closed]);
    let [used] = &bed.bus.used()[..] else { panic!("the run's usage is published once") };
    assert_eq!((used.workflow.as_str(), used.nodes), ("quickstart", 2));
    assert!(used.requested_at <= used.closed_at, "{used:?}");
    assert_eq!(bed.hints().await, [], "no command is owed");
}

#[tokio::test]
async fn repeated_facts_change_nothing() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    for event in [requested()].into_iter().chain(answers()) {
        deliver_all(&conductor, [event.clone(), event.clone(), event]).await;
    }
    assert_eq!(bed.records().await.len(), 12);
    assert_eq!(bed.bus.commands(), COMMANDS);
    let ids: Vec<String> = bed.bus.closings().into_iter().map(|(id, _)| id).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "a repeated publication is the same event: {ids:?}");
    assert_eq!(bed.hints().await, []);
}

#[tokio::test]
async fn a_fact_about_an_unknown_run_is_parked() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    for event in answers() {
        let parked = conductor.handle(&event).await;
        assert!(matches!(&parked, Disposition::Park(why) if why.contains("quickstart-1")), "{parked:?}");
    }
    assert_eq!(bed.store.list("").await.unwrap(), [""; 0], "a parked fact creates no object");
    assert_eq!(bed.bus.commands(), [""; 0]);
}

#[tokio::test]
async fn agents_may_publish_only_their_own_facts() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    let of_agents = AgentFacts(conductor.clone());
    assert!(
        matches!(of_agents.handle(&requested()).await, Disposition::Park(_)),
        "an agent may not request a run"
    );
    deliver_all(&conductor, [requested()]).await;
    for event in answers() {
        let before = bed.records().await.len();
        let through = of_agents.handle(&event).await;
        if event.source().to_string().ends_with("agent") {
            assert_eq!(through, Disposition::Done, "{}", event.ty());
        } else {
            let why = format!("an agent may not publish {}", event.ty());
            assert_eq!(through, Disposition::Park(why));
            assert_eq!(bed.records().await.len(), before);
            deliver_all(&conductor, [event]).await;
        }
    }
    assert_eq!(bed.records().await.len(), 12);
}

#[tokio::test]
async fn events_other_than_facts_are_parked() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    deliver_all(&conductor, [requested()]).await;
    let id = CommandId { run: run(), stage: Stage::Image, attempt: Attempt::new(1), verb: Verb::Cancel };
    let command = Command { id, body: Body::ImageCancel { handle: None } };
    let command = events::Message::command("conductor", command).to_event();
    let changed = |attribute: &str, value: &str| -> Event {
        let mut event = serde_json::to_value(&answers()[0]).unwrap();
        event[attribute] = value.into();
        serde_json::from_value(event).unwrap()
    };
    let newer = changed("type", "dev.burnin.image.painted.v1");
    let no_run = changed("subject", "runs/../..");
    for event in [command, newer, no_run] {
        let parked = conductor.handle(&event).await;
        assert!(matches!(parked, Disposition::Park(_)), "{event:?}: {parked:?}");
    }
    assert_eq!(bed.records().await.len(), 1);
}

#[tokio::test]
async fn a_tick_resends_owed_commands_when_due() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    deliver_all(&conductor, [requested()]).await;
    assert_eq!(bed.bus.commands(), ["image.1.start"]);

    bed.clock.advance(Span::from_millis(4_999));
    conductor.tick().await.unwrap();
    assert_eq!(bed.bus.commands().len(), 1, "no command is resent one millisecond early");
    bed.clock.advance(Span::from_millis(1));
    deliver_all(&conductor, [requested()]).await;
    assert_eq!(bed.bus.commands().len(), 1, "a fact sends only new commands");
    conductor.tick().await.unwrap();
    assert_eq!(bed.bus.commands(), ["image.1.start"; 2]);
    conductor.tick().await.unwrap();
    assert_eq!(bed.bus.commands().len(), 2, "the command waits for the next interval");
    assert_eq!(bed.records().await.len(), 1, "sending is not recorded");
}

#[tokio::test]
async fn a_command_refused_by_the_bus_is_sent_with_the_next_delivery() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    *bed.bus.refuses.lock().unwrap() = Some("dev.burnin.image.build.v1");
    assert!(matches!(conductor.handle(&requested()).await, Disposition::Retry(_)));
    assert_eq!(bed.records().await.len(), 1, "recorded facts are kept");
    *bed.bus.refuses.lock().unwrap() = None;
    deliver_all(&conductor, [requested()]).await;
    assert_eq!(bed.bus.commands(), ["image.1.start"]);
    assert_eq!(bed.records().await.len(), 1);
}

#[tokio::test]
async fn after_a_restart_owed_commands_are_resent_and_running_work_is_polled() {
    let expected: [(&str, &[&str]); 6] = [
        ("dev.burnin.image.accepted.v1", &["image.1.observe"]),
        ("dev.burnin.image.built.v1", &["cluster.1.start"]),
        ("dev.burnin.cluster.accepted.v1", &["cluster.1.observe"]),
        ("dev.burnin.job.accepted.v1", &["job.1.observe"]),
        ("dev.burnin.logs.collected.v1", &["cluster.1.delete", "verdict.1.start"]),
        ("dev.burnin.results.loaded.v1", &["cluster.1.delete"]),
    ];
    for (moment, owed) in expected {
        let bed = Conductors::new();
        deliver_all(&bed.conductor(), until(moment)).await;
        bed.bus.forget();

        let restarted = bed.conductor();
        restarted.tick().await.unwrap();
        assert_eq!(bed.bus.commands(), owed, "after {moment}");
        restarted.tick().await.unwrap();
        assert_eq!(bed.bus.commands(), owed, "after {moment}: a second tick sends no command");
        // The run continues to its end.
        deliver_all(&restarted, answers()).await;
        assert_sound(&bed.records().await);
        assert_eq!(bed.records().await.len(), 12);
    }
}

#[tokio::test]
async fn another_conductor_continues_after_a_crash_at_any_write() {
    let events: Vec<Event> = [requested()].into_iter().chain(answers()).collect();
    // The run writes twelve records and one hint.
    for writes in 0..=13 {
        let store = FaultyStore::new(StoreFaults::FailsAfter(writes.into()));
        let bed = Conductors::over(store.clone());
        let dying = bed.conductor();
        let mut answered = 0;
        for event in &events {
            if dying.handle(event).await != Disposition::Done {
                break;
            }
            answered += 1;
        }
        assert_eq!(
            answered == events.len(),
            writes == 13,
            "{answered} facts were handled with {writes} of 13 writes"
        );

        // An unacknowledged event is delivered to another process.
        let bed = Conductors { store: store.inner.clone(), ..bed };
        deliver_all(&bed.conductor(), events[answered..].to_vec()).await;
        assert_sound(&bed.records().await);
        assert_eq!(bed.records().await.len(), 12, "the ledger is incomplete after a crash at write {writes}");
        let mut commands = bed.bus.commands();
        commands.retain(|command| !command.ends_with("observe"));
        commands.sort_unstable();
        commands.dedup();
        assert_eq!(commands.len(), COMMANDS.len(), "every command was sent: {commands:?}");
        assert_eq!(bed.bus.closings().len(), 1);
        assert_eq!(bed.hints().await, []);
    }
}

#[tokio::test]
async fn a_recorded_but_unpublished_end_is_published_after_a_restart() {
    let bed = Conductors::new();
    let killed = bed.conductor();
    *bed.bus.refuses.lock().unwrap() = Some("dev.burnin.run.closed.v1");
    let mut events: Vec<Event> = [requested()].into_iter().chain(answers()).collect();
    let last = events.pop().unwrap();
    deliver_all(&killed, events).await;
    assert!(matches!(killed.handle(&last).await, Disposition::Retry(_)));
    drop(killed);
    assert!(bed.state().await.closed.is_some());
    assert_eq!(bed.hints().await, [run()], "the hint survives the crash");

    *bed.bus.refuses.lock().unwrap() = None;
    let restarted = bed.conductor();
    restarted.tick().await.unwrap();
    assert_eq!(bed.bus.closings().len(), 1);
    assert_eq!(bed.hints().await, []);
    restarted.tick().await.unwrap();
    assert_eq!(bed.bus.closings().len(), 1);
    assert_eq!(bed.records().await.len(), 12);
}

/// In a single process a published load is lost with the process until its worker has handled it.
#[tokio::test]
async fn the_hint_of_a_closed_run_remains_until_its_last_loads_are_handled() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    let cancel = Fact::CancelRequested(CancelRequested { by: "alice".into(), reason: String::new() });
    deliver_all(&conductor, until("dev.burnin.verdict.reached.v1")).await;
    bed.bus.forget();
    bed.bus.keeps_in_memory.store(true, Ordering::Relaxed);
    deliver_all(&conductor, [event("cli", cancel), event("provisioner", deleted(bed.clock.now()))]).await;
    let loads = || bed.bus.commands().iter().filter(|command| *command == "results.1.start").count();
    assert_eq!(
        (loads(), bed.bus.closings().len()),
        (1, 1),
        "the conductor closes the run before its results are loaded"
    );
    assert_eq!(bed.hints().await, [run()]);
    assert!(conductor.is_loading(&run()));
    conductor.tick().await.unwrap();
    assert_eq!((loads(), bed.bus.closings().len()), (1, 1), "the load is in progress");

    // The process is killed; the next one publishes the load again.
    let restarted = bed.conductor();
    restarted.tick().await.unwrap();
    assert_eq!((loads(), bed.bus.closings().len(), bed.hints().await), (2, 2, vec![run()]));
    bed.bus.keeps_in_memory.store(false, Ordering::Relaxed);
    restarted.tick().await.unwrap();
    assert_eq!((loads(), bed.hints().await), (2, vec![]));
    assert_eq!(restarted.remembered(), 0);
}

#[tokio::test]
async fn a_hint_without_a_run_is_harmless() {
    let bed = Conductors::new();
    bed.ledger().mark_open(&run()).await.unwrap();
    let conductor = bed.conductor();
    conductor.tick().await.unwrap();
    assert_eq!(bed.bus.commands(), [""; 0]);
    deliver_all(&conductor, [requested()].into_iter().chain(answers())).await;
    assert_eq!(bed.records().await.len(), 12);
    assert_eq!(bed.hints().await, []);
}

#[tokio::test]
async fn one_unreadable_run_does_not_block_the_others() {
    let bed = Conductors::new();
    deliver_all(&bed.conductor(), [requested()]).await;
    bed.bus.forget();
    let damaged: RunId = "damaged".parse().unwrap();
    bed.store.create("ledger/damaged/0000000001.json", "not a record".into()).await.unwrap();
    bed.ledger().mark_open(&damaged).await.unwrap();

    let error = bed.conductor().tick().await.unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    assert_eq!(bed.bus.commands(), ["image.1.start"]);
    assert_eq!(bed.hints().await, [damaged, run()], "an operator has to inspect it, so its hint is kept");
}

#[tokio::test]
async fn a_cluster_that_reappears_after_closing_is_released_again() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    deliver_all(&conductor, [requested()].into_iter().chain(answers())).await;
    bed.bus.forget();

    let ready = answers().remove(3);
    deliver_all(&conductor, [as_new_message(&ready)]).await;
    assert_eq!(bed.bus.commands(), ["cluster.1.delete"]);
    assert_eq!(bed.hints().await, [run()], "the command is owed until confirmed, across restarts");

    bed.clock.advance(Span::from_secs(1));
    deliver_all(&conductor, [event("provisioner", deleted(bed.clock.now()))]).await;
    assert_eq!(bed.hints().await, []);
    let state = bed.state().await;
    assert!(state.leases_returned());
    assert_eq!(state.settled.unwrap().0, Conclusion::Completed, "the result is unchanged");
}

#[tokio::test]
async fn a_cluster_that_reappears_during_hint_removal_keeps_its_hint() {
    let store = FaultyStore::new(StoreFaults::Nothing);
    let bed = Conductors::over(store.clone());
    let (closing, rival) = (bed.conductor(), bed.conductor());
    let mut events = [requested()].into_iter().chain(answers()).collect::<Vec<_>>();
    // The fact that the provider accepted the cluster arrives last.
    let accepted = events.remove(3);
    let deleted = events.pop().unwrap();
    deliver_all(&closing, events).await;
    let gate = store.hold_removal();
    let closed = tokio::spawn(async move { deliver_all(&closing, [deleted]).await });
    gate.arrived.notified().await;
    deliver_all(&rival, [as_new_message(&accepted)]).await;
    gate.go.notify_one();
    closed.await.unwrap();
    assert!(!bed.state().await.leases_returned());
    assert_eq!(bed.hints().await, [run()], "while a cluster costs money, the tick finds its run");
}

#[tokio::test]
async fn a_failed_stage_closes_the_run_with_its_reason() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    let failure = Failure::new(Class::Workload, "FAILURE", "step 0 ended with exit code 1");
    deliver_all(&conductor, [requested(), event("builder", Fact::ImageFailed(failure.clone()))]).await;
    assert_eq!(bed.bus.commands(), ["image.1.start"]);
    let conclusion = Conclusion::Failed { stage: Stage::Image, check: Default::default(), failure };
    assert_eq!(bed.bus.closings()[0].1, RunClosed { conclusion, verdict: None });
    assert_eq!(bed.bus.used()[0].nodes, 0, "the run never requested a cluster");
    assert_eq!(bed.hints().await, []);
}

#[tokio::test]
async fn closed_runs_are_not_kept_in_memory() {
    let bed = Conductors::new();
    let (first, second) = (bed.conductor(), bed.conductor());
    deliver_all(&first, [requested()]).await;
    let mut begin = answers();
    let end = begin.split_off(4);
    deliver_all(&second, begin).await;
    deliver_all(&first, end).await;
    assert_eq!(bed.hints().await, []);
    assert_eq!(first.remembered(), 0, "this conductor closed the run");
    second.tick().await.unwrap();
    assert_eq!(second.remembered(), 0, "the other conductor closed the run");

    let empty = Conductors::new().conductor();
    for event in answers() {
        assert!(matches!(empty.handle(&event).await, Disposition::Park(_)));
    }
    assert_eq!(empty.remembered(), 0, "facts about unrequested runs leave no state");
}

#[tokio::test]
async fn a_repeated_fact_does_not_republish_the_end() {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    deliver_all(&conductor, [requested()].into_iter().chain(answers())).await;
    assert_eq!(bed.bus.closings().len(), 1);
    deliver_all(&conductor, answers()).await;
    deliver_all(&bed.conductor(), answers()).await;
    assert_eq!(bed.bus.closings().len(), 1);

    let bed = Conductors::new();
    let conductor = bed.conductor();
    *bed.bus.refuses.lock().unwrap() = Some("dev.burnin.run.closed.v1");
    let (last, before) =
        answers().split_last().map(|(last, before)| (last.clone(), before.to_vec())).unwrap();
    deliver_all(&conductor, [requested()].into_iter().chain(before)).await;
    assert!(matches!(conductor.handle(&last).await, Disposition::Retry(_)));
    *bed.bus.refuses.lock().unwrap() = None;
    deliver_all(&conductor, [last]).await;
    conductor.tick().await.unwrap();
    assert_eq!(bed.bus.closings().len(), 1, "the tick publishes an end that could not be published before");
    assert_eq!(bed.hints().await, []);
}

/// Results of the nodes n0 and n1 of an existing cluster, after a run with this verdict and these suspects.
async fn node_results(reached: Verdict, suspects: &[(&str, &str)]) -> Vec<NodeResult> {
    let bed = Conductors::new();
    let conductor = bed.conductor();
    let existing = ClusterSpec::Existing { name: "hall".into(), system: System::processes(2) };
    let workflow = Workflow { cluster: Some(existing), ..workflow() };
    deliver_all(&conductor, [event("cli", good_run::requested(workflow))]).await;
    let suspect = |(node, evidence): &(&str, &str)| VerdictSuspect {
        node: (*node).to_owned(),
        evidence: vec![(*evidence).to_owned()],
    };
    for fact in good_run::successful_facts() {
        let fact = match fact {
            Fact::VerdictReached(it) => Fact::VerdictReached(VerdictReached {
                verdict: reached,
                suspects: suspects.iter().map(suspect).collect(),
                ..it
            }),
            Fact::ClusterDeleted(_) => continue,
            fact => fact,
        };
        deliver_all(&conductor, [event("worker", fact)]).await;
    }
    let [used] = &bed.bus.used()[..] else { panic!("the run's usage is published once") };
    assert_eq!(used.cluster.as_deref(), Some("hall"));
    used.node_results.clone()
}

#[tokio::test]
async fn the_results_of_nodes_name_the_suspects_of_the_verdict_and_the_nodes_that_passed() {
    let result =
        |node: &str, result, detail: &str| NodeResult { node: node.into(), result, detail: detail.into() };
    // A program printed the name with a domain. Two reasons name the same node.
    let suspects = [("n1.lab.example", "gpu 3: XID_79"), ("n1", "gemm")];
    assert_eq!(
        node_results(Verdict::Fail, &suspects).await,
        [result("n1", NodeResultKind::Suspected, "gpu 3: XID_79; gemm")]
    );
    let passed = ["n0", "n1"]
        .map(|node| result(node, NodeResultKind::Passed, &format!("passed: {}", workflow().name)));
    assert_eq!(node_results(Verdict::Pass, &[]).await, passed);
    assert_eq!(
        node_results(Verdict::Inconclusive, &[]).await,
        [],
        "an inconclusive run is no evidence about its nodes"
    );
}
