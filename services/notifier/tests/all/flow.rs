//! Tests all steps from a fact to a delivered notice, with a fake sender and a manual clock.

use std::sync::Arc;

use crate::support::*;
use model::{EventKey, Origin, Span};
use notifier::{Reply, fake::FakeSender, notice::OutgoingMessage};
use serde_json::{Value, json};
use service::{Clock, Disposition, Handler};

fn to_all() -> Value {
    json!([{"github": {"check": true}}, {"slack": {"webhook": "ops"}}, {"webhook": {"target": "pager"}}])
}

fn pager() -> Value {
    json!([{"webhook": {"target": "pager"}}])
}

fn bed() -> (NotifierBed, Arc<FakeSender>) {
    let sender = Arc::new(FakeSender::default());
    (NotifierBed::new(sender.clone()), sender)
}

fn channels(sender: &FakeSender) -> Vec<String> {
    sender.received_notices().iter().map(|notice| format!("{} {}", notice.run, notice.channel())).collect()
}

#[tokio::test]
async fn repeated_facts_cause_one_notice_per_channel() {
    let (mut bed, sender) = bed();
    let failed = SimulatedRun::new("w-1", FAIL, 1.0).notifying(to_all()).pushed();
    for _ in 0..3 {
        bed.ends(&failed).await;
        bed.periodic_task().await;
        bed.restart();
    }
    let expected = ["w-1 github-check", "w-1 github-status", "w-1 slack-ops", "w-1 webhook-pager"];
    let mut arrived = channels(&sender);
    arrived.sort();
    assert_eq!(arrived, expected);
    // The second failure is not news for a channel, but it is news for its commit.
    bed.ends(&SimulatedRun::new("w-2", FAIL, 2.0).notifying(to_all()).pushed()).await;
    bed.ends(&SimulatedRun::new("w-3", PASS, 3.0).notifying(to_all())).await;
    let mut arrived = channels(&sender).split_off(4);
    arrived.sort();
    assert_eq!(arrived, ["w-2 github-check", "w-2 github-status", "w-3 slack-ops", "w-3 webhook-pager"]);
    assert_eq!(bed.names("notices/open/").await, [""; 0]);
    let mark = bed.json("notices/w-2/ended.json").await;
    assert_eq!(mark["channels"], json!(["github-status", "github-check"]));
    let end = bed.json("notices/w-1/webhook-pager/end.json").await;
    assert_eq!((&end["how"], &end["tries"]), (&json!("delivered"), &json!(1)));
}

#[tokio::test]
async fn a_run_without_notify_settings_stores_nothing() {
    let (bed, sender) = bed();
    bed.ends(&SimulatedRun::new("w-1", FAIL, 1.0).pushed()).await;
    bed.periodic_task().await;
    assert!(sender.received_notices().is_empty());
    assert_eq!(bed.names("notices/").await, ["notices/since.json"]);
}

#[tokio::test]
async fn failed_deliveries_are_retried_with_growing_delays() {
    let (mut bed, sender) = bed();
    for _ in 0..3 {
        sender.plan_reply(false, Reply::transient("status 500"));
    }
    sender
        .plan_reply(false, Reply::Transient { why: "status 429".into(), after: Some(Span::from_secs(900)) });
    bed.ends(&SimulatedRun::new("w-1", FAIL, 1.0).notifying(pager())).await;
    let mut waited = Vec::new();
    for number in 1..=4 {
        let attempt = format!("notices/w-1/webhook-pager/said-{number}.json");
        let attempt = bed.json(&attempt).await;
        let until: model::Timestamp = serde_json::from_value(attempt["not_before"].clone()).unwrap();
        let wait = until.since(bed.clock.now());
        waited.push(wait.0.as_secs());
        // One millisecond before the attempt is due the notifier sends no notice, even after a restart.
        bed.clock.advance(Span::from_millis(wait.0.as_millis() as u64 - 1));
        bed.restart();
        bed.periodic_task().await;
        assert_eq!(bed.names("notices/w-1/webhook-pager/try").await.len(), number);
        assert!(sender.received_notices().is_empty());
        bed.clock.advance(Span::from_millis(1));
        bed.periodic_task().await;
    }
    assert_eq!(waited, [2, 4, 8, 900], "a longer delay requested by the receiver has priority");
    assert_eq!(sender.received_notices().len(), 1);
    assert_eq!(bed.names("notices/open/").await, [""; 0]);
}

#[tokio::test]
async fn a_rejected_notice_is_not_repeated_and_is_logged() {
    let (mut bed, sender) = bed();
    sender.plan_reply(false, Reply::permanent("status 410 Gone"));
    bed.ends(&SimulatedRun::new("w-1", FAIL, 1.0).notifying(pager())).await;
    for hours in 2..40 {
        bed.now_is(f64::from(hours));
        bed.restart();
        bed.periodic_task().await;
    }
    assert!(sender.received_notices().is_empty());
    let end = bed.json("notices/w-1/webhook-pager/end.json").await;
    assert_eq!((&end["how"], &end["why"]), (&json!("refused"), &json!("status 410 Gone")));
    assert_eq!(
        bed.names("notices/w-1/webhook-pager/").await.len(),
        2,
        "the outbox has one attempt and its end"
    );
}

#[tokio::test]
async fn a_notice_is_given_up_after_a_day() {
    let (bed, sender) = bed();
    for _ in 0..1000 {
        sender.plan_reply(false, Reply::transient("the receiver is unreachable"));
    }
    bed.ends(&SimulatedRun::new("w-1", FAIL, 1.0).notifying(pager())).await;
    for quarter in 0..110 {
        bed.now_is(1.0 + f64::from(quarter) * 0.25 + 0.01);
        bed.periodic_task().await;
    }
    let end = bed.json("notices/w-1/webhook-pager/end.json").await;
    assert_eq!((&end["how"], &end["why"]), (&json!("given_up"), &json!("the receiver is unreachable")));
    let tries = end["tries"].as_u64().unwrap();
    assert!((50..150).contains(&tries), "{tries}");
    assert_eq!(bed.names("notices/open/").await, [""; 0]);
}

#[tokio::test]
async fn after_a_crash_the_next_process_delivers_under_the_same_id() {
    let (mut bed, sender) = bed();
    let failed = SimulatedRun::new("w-1", FAIL, 1.0).notifying(pager());
    // A process decided the notice, started an attempt and ended: the attempt exists without a result.
    sender.plan_reply(false, Reply::transient("died"));
    bed.ends(&failed).await;
    bed.store.remove("notices/w-1/webhook-pager/said-1.json").await.unwrap();
    bed.restart();
    for _ in 0..3 {
        bed.periodic_task().await;
        assert_eq!(bed.notifier.handle(&closed(&failed)).await, Disposition::Done);
    }
    assert!(
        sender.received_notices().is_empty(),
        "the process that started the attempt may still be sending"
    );
    bed.clock.advance(notifier::outbox::UNDER_WAY);
    bed.periodic_task().await;
    assert_eq!(sender.counted().into_values().collect::<Vec<_>>(), [1]);
    // The process ended between the response and its record, so the notice is sent again with the same id.
    bed.store.remove("notices/w-1/webhook-pager/end.json").await.unwrap();
    bed.store.create("notices/open/w-1.webhook-pager", Default::default()).await.unwrap();
    bed.clock.advance(notifier::outbox::UNDER_WAY);
    bed.restart();
    bed.periodic_task().await;
    assert_eq!(sender.counted().into_values().collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn concurrent_notifiers_deliver_once() {
    let (mut bed, sender) = bed();
    let failed = SimulatedRun::new("w-1", FAIL, 1.0).notifying(to_all()).pushed();
    bed.record(&failed).await;
    bed.now_is(1.0);
    let one = bed.notifier.clone();
    bed.restart();
    let event = closed(&failed);
    let dispositions = tokio::join!(one.handle(&event), bed.notifier.handle(&event), one.handle(&event));
    assert_eq!(dispositions, (Disposition::Done, Disposition::Done, Disposition::Done));
    bed.periodic_task().await;
    assert_eq!(sender.counted().into_values().collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[tokio::test]
async fn missed_endings_are_found_in_the_ledger() {
    let (mut bed, sender) = bed();
    // A run that ended before the first search causes no notice, and its recovery causes none.
    bed.record(&SimulatedRun::new("w-0", FAIL, -1.0).notifying(pager())).await;
    bed.periodic_task().await;
    assert!(sender.received_notices().is_empty());
    bed.record(&SimulatedRun::new("w-1", PASS, 1.0).notifying(pager())).await;
    bed.record(&SimulatedRun::new("w-2", FAIL, 2.0).notifying(pager())).await;
    bed.now_is(3.0);
    bed.restart();
    for _ in 0..2 {
        bed.periodic_task().await;
    }
    assert_eq!(channels(&sender), ["w-2 webhook-pager"]);
    // A commit's status is set even without an event of the run.
    let begun = SimulatedRun::new("w-3", RunEnd::Open, 4.0).notifying(to_all()).pushed();
    bed.record(&begun).await;
    bed.periodic_task().await;
    bed.periodic_task().await;
    assert_eq!(channels(&sender)[1..], ["w-3 github-begun"]);
}

fn news(sender: &FakeSender) -> Vec<String> {
    let news = |letter: &OutgoingMessage| match letter {
        OutgoingMessage::Channel { content: body, .. } => {
            serde_json::from_str::<Value>(body).unwrap()["news"].as_str().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    };
    sender
        .received_notices()
        .iter()
        .map(|notice| format!("{} {}", notice.run, news(&notice.letter)))
        .collect()
}

#[tokio::test]
async fn a_failure_is_reported_after_unreported_failures() {
    let (bed, sender) = bed();
    bed.record(&SimulatedRun::new("w-0", FAIL, -1.0).notifying(pager())).await;
    bed.periodic_task().await;
    bed.ends(&SimulatedRun::new("w-1", FAIL, 1.0).notifying(pager())).await;
    bed.ends(&SimulatedRun::new("w-2", FAIL, 2.0).notifying(pager())).await;
    assert_eq!(news(&sender), ["w-1 failed"]);
    let OutgoingMessage::Channel { content: body, .. } = &sender.received_notices()[0].letter else {
        panic!("a webhook")
    };
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap()["first_run"],
        "w-0",
        "the notice states the start of the failure"
    );
    // A later channel receives the current state.
    let both = json!([{"webhook": {"target": "pager"}}, {"webhook": {"target": "second"}}]);
    bed.ends(&SimulatedRun::new("w-3", FAIL, 3.0).notifying(both.clone())).await;
    assert_eq!(channels(&sender)[1..], ["w-3 webhook-second"]);
    let mark = bed.json("notices/w-3/ended.json").await;
    assert_eq!(mark["listened"], json!(["webhook-pager", "webhook-second"]));
    bed.ends(&SimulatedRun::new("w-4", PASS, 4.0).notifying(both)).await;
    assert_eq!(channels(&sender)[2..], ["w-4 webhook-pager", "w-4 webhook-second"]);
}

#[tokio::test]
async fn the_next_failure_causes_a_notice_if_the_first_notice_was_refused() {
    let (bed, sender) = bed();
    sender.plan_reply(false, Reply::permanent("status 404"));
    bed.ends(&SimulatedRun::new("w-1", FAIL, 1.0).notifying(pager())).await;
    bed.ends(&SimulatedRun::new("w-2", FAIL, 2.0).notifying(pager())).await;
    bed.ends(&SimulatedRun::new("w-3", FAIL, 3.0).notifying(pager())).await;
    assert_eq!(news(&sender), ["w-2 failed"]);
    // A notice with remaining attempts is treated as received.
    sender.plan_reply(false, Reply::transient("status 500"));
    bed.ends(&SimulatedRun::new("w-4", PASS, 4.0).notifying(pager())).await;
    bed.ends(&SimulatedRun::new("w-5", PASS, 5.0).notifying(pager())).await;
    assert_eq!(news(&sender), ["w-2 failed"]);
    bed.now_is(6.0);
    bed.periodic_task().await;
    assert_eq!(news(&sender), ["w-2 failed", "w-4 recovered"]);
}

#[tokio::test]
async fn late_runs_are_decided_in_the_order_of_their_ends() {
    let (bed, sender) = bed();
    bed.periodic_task().await;
    bed.record(&SimulatedRun::new("w-1", FAIL, 1.0).notifying(pager())).await;
    bed.record(&SimulatedRun::new("w-2", FAIL, 2.0).notifying(pager())).await;
    bed.ends(&SimulatedRun::new("w-3", PASS, 3.0).notifying(pager())).await;
    bed.periodic_task().await;
    assert_eq!(
        news(&sender),
        ["w-3 recovered", "w-1 failed"],
        "each notice arrives once in any order of deliveries"
    );
}

#[tokio::test]
async fn marks_that_older_versions_stored_are_read() {
    let (bed, sender) = bed();
    let paper = |run: &str, how, hour| SimulatedRun::new(run, how, hour).notifying(pager());
    for (run, hour, channels) in [("w-1", 1.0, json!(["webhook-pager"])), ("w-2", 2.0, json!([]))] {
        bed.record(&paper(run, FAIL, hour)).await;
        let mark = json!({"at": bed.clock.now(), "channels": channels}).to_string();
        bed.store.create(&format!("notices/{run}/ended.json"), mark.into()).await.unwrap();
    }
    bed.ends(&paper("w-3", FAIL, 3.0)).await;
    assert_eq!(news(&sender), [""; 0], "the first failure's notice was sent");
    bed.ends(&paper("w-4", PASS, 4.0)).await;
    assert_eq!(news(&sender), ["w-4 recovered"]);
}

fn states(sender: &FakeSender) -> Vec<String> {
    let state = |letter: &OutgoingMessage| match letter {
        OutgoingMessage::Status(status) => status.state.clone(),
        other => panic!("{other:?}"),
    };
    sender.received_notices().iter().map(|notice| state(&notice.letter)).collect()
}

#[tokio::test]
async fn a_commit_waits_until_its_run_has_ended() {
    let github = json!([{"github": {}}]);
    for (how, ended) in [
        (PASS, "success"),
        (FAIL, "failure"),
        (UNSURE, "error"),
        (RunEnd::Broken, "error"),
        (RunEnd::Cancelled, "error"),
    ] {
        let (bed, sender) = bed();
        let open = SimulatedRun::new("w-1", RunEnd::Open, 1.0).notifying(github.clone()).pushed();
        // The event arrives before the record exists, so the event is retried later.
        let disposition = bed.notifier.handle(&requested(&open)).await;
        assert_eq!(disposition, Disposition::Retry("w-1 is not recorded yet".to_owned()));
        bed.record(&open).await;
        for _ in 0..2 {
            assert_eq!(bed.notifier.handle(&requested(&open)).await, Disposition::Done);
        }
        bed.ends(&SimulatedRun { how, ..open.clone() }).await;
        assert_eq!(bed.notifier.handle(&requested(&open)).await, Disposition::Done);
        assert_eq!(states(&sender), ["pending", ended]);
        let OutgoingMessage::Status(status) = &sender.received_notices()[1].letter else {
            panic!("a status")
        };
        assert_eq!((status.context.as_str(), status.push.clone()), ("burnin/nightly", push()));
        assert_eq!(status.target_url.as_deref(), Some("https://burnin.example/runs/w-1"));
    }
}

#[tokio::test]
async fn a_pending_status_never_follows_the_final_one() {
    let github = json!([{"github": {}}]);
    let (mut bed, sender) = bed();
    let open = SimulatedRun::new("w-1", RunEnd::Open, 1.0).notifying(github.clone()).pushed();
    bed.record(&open).await;
    sender.plan_reply(false, Reply::transient("status 502"));
    assert_eq!(bed.notifier.handle(&requested(&open)).await, Disposition::Done);
    bed.ends(&SimulatedRun { how: PASS, ..open.clone() }).await;
    bed.now_is(9.0);
    bed.periodic_task().await;
    assert_eq!(states(&sender), ["success"], "an undelivered pending status is given up");
    let end = bed.json("notices/w-1/github-begun/end.json").await;
    assert_eq!(end["how"], "superseded");

    // Another process is about to send the pending status, so the final status waits.
    let open = SimulatedRun { run: "w-2".to_owned(), ended: 10.0, began: 9.5, ..open };
    bed.record(&open).await;
    sender.plan_reply(false, Reply::transient("died"));
    assert_eq!(bed.notifier.handle(&requested(&open)).await, Disposition::Done);
    bed.store.remove("notices/w-2/github-begun/said-1.json").await.unwrap();
    bed.restart();
    let over = SimulatedRun { how: PASS, ended: 9.0, ..open };
    bed.ends(&over).await;
    assert_eq!(states(&sender), ["success"], "not yet");
    bed.clock.advance(notifier::outbox::UNDER_WAY);
    bed.periodic_task().await;
    assert_eq!(states(&sender), ["success", "success"]);
    assert_eq!(bed.names("notices/open/").await, [""; 0]);
}

#[tokio::test]
async fn the_end_of_a_run_is_published_as_a_reply_to_its_request_message() {
    let (bed, sender) = bed();
    let request = EventKey { source: "//acme/ci".to_owned(), id: "42".to_owned() };
    let paper =
        SimulatedRun { origin: Some(Origin::Message(request)), ..SimulatedRun::new("w-1", UNSURE, 1.0) };
    bed.ends(&paper).await;
    bed.ends(&paper).await;
    let published = bed.bus.0.lock().unwrap().clone();
    assert_eq!(published.len(), 1);
    let answer: Value = events::payload(&published[0]).unwrap();
    assert_eq!(
        answer,
        json!({"request": {"source": "//acme/ci", "id": "42"}, "run": "w-1", "problem": null,
               "ended": {"conclusion": {"how": "completed"}, "verdict": "inconclusive"}})
    );
    assert!(sender.received_notices().is_empty());
}

#[tokio::test]
async fn other_facts_are_ignored_and_other_events_parked() {
    let (bed, _) = bed();
    let run = "w-1".parse().unwrap();
    let handle = model::Fact::JobAccepted(model::Handle { handle: "1".into() });
    let event = events::Message::fact("agent", run, model::Attempt::FIRST, handle).to_event();
    assert_eq!(bed.notifier.handle(&event).await, Disposition::Done);
    let unknown = SimulatedRun::new("w-9", PASS, 1.0);
    assert!(matches!(bed.notifier.handle(&closed(&unknown)).await, Disposition::Park(_)));
}
