//! Notices over real HTTP, to receivers that accept, refuse, hang, disconnect and redirect.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::{
    receiver::{Receiver, ReceiverResponse},
    *,
};
use channels::sign;
use model::Span;
use notifier::{
    Reply, Sender,
    conformance::{TestReceiver, suite},
    fake::FakeSender,
    notice::{CheckRun, CommitStatus, FORMAT, Notice, OutgoingMessage},
    secrets::Secrets,
    senders::HttpSender,
};
use serde_json::json;
use service::{Clock, ManualClock};

const KEY: &str = "a key for tests only";
const TOKEN: &str = "ghs_s3cr3t";

/// A receiver, and a sender whose channels `pager` and `ops` and whose GitHub API have the receiver's address.
async fn pair(clock: &Arc<ManualClock>) -> (Receiver, Arc<HttpSender>) {
    let receiver = Receiver::default();
    let url = receiver.serve().await;
    let sender = sender(&url, clock);
    (receiver, sender)
}

fn sender(url: &str, clock: &Arc<ManualClock>) -> Arc<HttpSender> {
    let variables = [
        ("BURNIN_CHANNEL_PAGER_URL", format!("{url}/hook/s3cr3t-path?token=s3cr3t")),
        ("BURNIN_CHANNEL_PAGER_KEY", KEY.to_owned()),
        ("BURNIN_CHANNEL_OPS_URL", format!("{url}/services/T/B/s3cr3t")),
        ("BURNIN_CHANNEL_GITHUB_TOKEN", TOKEN.to_owned()),
    ];
    let secrets = Secrets::new(variables.map(|(name, value)| (name.to_owned(), value)), None);
    let github = format!("{url}/api").parse().unwrap();
    Arc::new(HttpSender::new(secrets, github, clock.clone()))
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(at(0.0)))
}

fn notice(number: usize, letter: OutgoingMessage) -> Notice {
    Notice {
        format: FORMAT,
        id: format!("{number:032x}"),
        run: "w-1".parse().unwrap(),
        made_at: at(0.0),
        letter,
    }
}

fn channel(kind: &str, name: &str, content: String) -> OutgoingMessage {
    OutgoingMessage::Channel { kind: kind.to_owned(), name: name.to_owned(), content }
}

fn posted(number: usize) -> Notice {
    let body = json!({"number": number}).to_string();
    notice(number, channel("webhook", "pager", body))
}

fn message(number: usize) -> Notice {
    notice(number, channel("slack", "ops", "it *failed*".to_owned()))
}

fn checked(number: usize) -> Notice {
    let check = CheckRun {
        push: push(),
        name: "burnin/nightly".to_owned(),
        conclusion: "failure".to_owned(),
        title: "the verdict is fail".to_owned(),
        summary: "s".repeat(70_000),
        text: None,
        started_at: at(0.0),
        completed_at: at(1.0),
        details_url: None,
    };
    notice(number, OutgoingMessage::Check(Box::new(check)))
}

fn status(state: &str) -> Notice {
    let status = CommitStatus {
        push: push(),
        state: state.to_owned(),
        context: "burnin/nightly".to_owned(),
        description: "the verdict is fail".to_owned(),
        target_url: Some("https://burnin.example/runs/w-1".to_owned()),
    };
    notice(1, OutgoingMessage::Status(status))
}

#[tokio::test]
async fn every_sender_conforms() {
    let (receiver, sender) = pair(&clock()).await;
    suite(&*sender, &receiver, posted).await;
    let (receiver, sender) = pair(&clock()).await;
    suite(&*sender, &receiver, message).await;
    let (receiver, sender) = pair(&clock()).await;
    suite(&*sender, &receiver, checked).await;
    assert_eq!(
        receiver.taken().len(),
        3,
        "an existing check run is not created again, with or without a response"
    );

    struct FakeReceiver(FakeSender);
    impl TestReceiver for FakeReceiver {
        fn plan(&self, planned: notifier::conformance::PlannedReply) {
            use notifier::conformance::PlannedReply::*;
            match planned {
                Accepts => self.0.plan_reply(true, Reply::Delivered),
                AcceptsWithoutResponse => self.0.plan_reply(true, Reply::transient("it breaks")),
                Busy(seconds) => {
                    let after = Some(Span::from_secs(seconds));
                    self.0.plan_reply(false, Reply::Transient { why: "busy".to_owned(), after });
                }
                Refuses => self.0.plan_reply(false, Reply::permanent("status 410 Gone")),
            }
        }
        fn arrived(&self) -> Vec<String> {
            self.0.received_notices().into_iter().map(|notice| notice.id).collect()
        }
    }
    for kind in [posted, message, checked] {
        let paper = FakeReceiver(FakeSender::default());
        suite(&paper.0, &paper, kind).await;
    }
}

#[tokio::test]
async fn webhooks_carry_a_signature_and_an_idempotency_key() {
    let clock = clock();
    let (receiver, sender) = pair(&clock).await;
    for _ in 0..2 {
        assert_eq!(sender.deliver(&posted(7)).await, Reply::Delivered);
        clock.advance(Span::from_secs(100));
    }
    let requests = receiver.received();
    let [first, second] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(first.path, "/hook/s3cr3t-path?token=s3cr3t");
    assert_eq!(first.header("content-type"), "application/json");
    let id = format!("{:032x}", 7);
    for one in [first, second] {
        assert_eq!((one.header("idempotency-key"), one.header("x-burnin-delivery")), (&*id, &*id));
        assert_eq!(one.body, json!({"number": 7}).to_string());
        // A receiver verifies the signature over the received bytes.
        let timestamp = one.header("x-burnin-timestamp");
        assert_eq!(one.header("x-burnin-signature"), sign(KEY, timestamp, &one.body));
        assert_ne!(one.header("x-burnin-signature"), sign("another key", timestamp, &one.body));
    }
    let seconds = at(0.0).as_millis() / 1000;
    assert_eq!(first.header("x-burnin-timestamp"), seconds.to_string());
    assert_eq!(second.header("x-burnin-timestamp"), (seconds + 100).to_string());
    assert_ne!(first.header("x-burnin-signature"), second.header("x-burnin-signature"));
}

#[tokio::test]
async fn slack_receives_only_the_message() {
    let (receiver, sender) = pair(&clock()).await;
    assert_eq!(sender.deliver(&message(1)).await, Reply::Delivered);
    let request = receiver.received().remove(0);
    assert_eq!(
        (request.path.as_str(), request.json()),
        ("/services/T/B/s3cr3t", json!({"text": "it *failed*"}))
    );
    assert_eq!(request.header("x-burnin-signature"), "");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (receiver, sender) = pair(&clock()).await;
    let (addresses, _) = pair(&clock()).await;
    let there = format!("{}/stolen", addresses.serve().await);
    for status in [301, 302, 303, 307, 308] {
        receiver.responds(status, &[("location", &there)]);
        let reply = sender.deliver(&posted(1)).await;
        assert!(
            matches!(&reply, Reply::Permanent { why } if why.contains("redirects are not followed")),
            "{reply:?}"
        );
    }
    assert!(addresses.received().is_empty());
}

#[tokio::test]
async fn a_hanging_receiver_times_out_and_is_retried() {
    let clock = clock();
    let (receiver, sender) = pair(&clock).await;
    receiver.answers(ReceiverResponse::Hangs);
    let started = std::time::Instant::now();
    let reply = sender.deliver(&posted(1)).await;
    assert!(
        matches!(&reply, Reply::Transient { why, .. } if why.contains("timeout waiting for the response")),
        "{reply:?}"
    );
    assert!(started.elapsed() >= Duration::from_secs(9), "the attempt lasted until its timeout");
    assert_eq!(sender.deliver(&posted(1)).await, Reply::Delivered);
    assert_eq!(receiver.arrived(), [posted(1).id, posted(1).id], "the notice arrived twice with the same id");
}

#[tokio::test]
async fn a_receiver_gets_each_notice_once_after_restarts_and_lost_responses() {
    let clock = clock();
    let (receiver, sender) = pair(&clock).await;
    let mut bed = NotifierBed::over(Arc::new(ledger::MemoryStore::default()), sender, clock.clone());
    let channels =
        json!([{"github": {"check": true}}, {"slack": {"webhook": "ops"}}, {"webhook": {"target": "pager"}}]);
    let failed = SimulatedRun::new("w-1", FAIL, 1.0).notifying(channels.clone()).pushed();
    // A response is lost after the request took effect.
    for _ in 0..4 {
        receiver.answers(ReceiverResponse::Breaks);
    }
    bed.ends(&failed).await;
    bed.restart();
    bed.ends(&failed).await;
    for _ in 0..4 {
        clock.advance(Span::from_secs(61));
        bed.periodic_task().await;
    }
    let mut arrived = receiver.arrived();
    arrived.sort();
    arrived.dedup();
    // The first lookup of the check run failed, so the check run was created once; a status is identified by
    // its state.
    assert_eq!(arrived.len(), 4, "{arrived:?}");
    assert_eq!(bed.names("notices/open/").await, [""; 0]);
    let checks = receiver.taken().iter().filter(|(_, what)| what["head_sha"].is_string()).count();
    assert_eq!(checks, 1);
    let before = receiver.received().len();
    bed.restart();
    bed.ends(&failed).await;
    bed.periodic_task().await;
    assert_eq!(receiver.received().len(), before, "no notice is sent again");
}

#[tokio::test]
async fn github_requests_match_its_documentation() {
    let clock = clock();
    let (receiver, sender) = pair(&clock).await;
    for state in ["pending", "success", "failure", "error"] {
        assert_eq!(sender.deliver(&status(state)).await, Reply::Delivered);
    }
    assert_eq!(sender.deliver(&checked(2)).await, Reply::Delivered);
    let taken = receiver.taken();
    let expected = json!({"state": "pending", "context": "burnin/nightly", "description": "the verdict is fail",
                          "target_url": "https://burnin.example/runs/w-1", "sha": COMMIT});
    assert_eq!(taken[0].1, expected);
    let check = &taken[4].1;
    assert_eq!((&check["head_sha"], &check["conclusion"]), (&json!(COMMIT), &json!("failure")));
    assert_eq!(check["output"]["summary"].as_str().unwrap().len(), 65_535);
    assert!(check["completed_at"].as_str().unwrap().ends_with(":00Z"), "{check}");
    assert_eq!(receiver.received()[0].path, format!("/repos/acme/images/statuses/{COMMIT}"));

    // GitHub also reports a rate limit as 403, with its end in a header.
    let reset = (clock.now().as_millis() / 1000 + 90).to_string();
    receiver.responds(403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)]);
    let reply = sender.deliver(&status("success")).await;
    assert!(
        matches!(&reply, Reply::Transient { after: Some(after), .. } if *after == Span::from_secs(90)),
        "{reply:?}"
    );
    receiver.responds(403, &[("retry-after", "30")]);
    let reply = sender.deliver(&status("success")).await;
    assert!(
        matches!(&reply, Reply::Transient { after: Some(after), .. } if *after == Span::from_secs(30)),
        "{reply:?}"
    );
    receiver.responds(403, &[("x-ratelimit-remaining", "12")]);
    assert!(matches!(sender.deliver(&status("success")).await, Reply::Permanent { .. }));
    // After a failed lookup no check run is created.
    receiver.responds(502, &[]);
    assert!(matches!(sender.deliver(&checked(3)).await, Reply::Transient { .. }));
    assert_eq!(receiver.taken().len(), 5);
    // Fields of a push cannot change the address.
    for repository in ["acme/images/../../user", "acme", "../x", "acme/..", "acme/im%2fages"] {
        let OutgoingMessage::Status(mut bad) = status("success").letter else { panic!("a status") };
        bad.push.repository = repository.to_owned();
        let reply = sender.deliver(&notice(1, OutgoingMessage::Status(bad))).await;
        assert!(matches!(reply, Reply::Permanent { .. }), "{repository}: {reply:?}");
    }
}

/// Collects all log lines.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_secret_is_in_a_log_an_error_or_the_outbox() {
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);

    let clock = clock();
    let receiver = Receiver::default();
    let url = receiver.serve().await;
    // The failures are a closed port, a wrong token, an unknown channel, and every kind of rejection.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed_url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let mut texts = Vec::new();
    for (url, statuses) in [(&closed_url, vec![200; 1]), (&url, vec![301, 401, 404, 410, 500, 503])] {
        let sender = sender(url, &clock);
        for status in statuses {
            for notice in [posted(1), message(2), checked(3), self::status("failure")] {
                receiver.forgets();
                receiver.responds(status, &[("location", "http://127.0.0.1:1/s3cr3t")]);
                texts.push(format!("{:?}", sender.deliver(&notice).await));
            }
        }
        let channels = json!([{"github": {"check": true}}, {"slack": {"webhook": "ops"}},
                               {"slack": {"webhook": "unknown"}}, {"webhook": {"target": "pager"}}]);
        let bed = NotifierBed::over(Arc::new(ledger::MemoryStore::default()), sender, clock.clone());
        receiver.forgets();
        for status in [410, 410, 500] {
            receiver.responds(status, &[]);
        }
        bed.ends(&SimulatedRun::new("w-1", FAIL, 1.0).notifying(channels).pushed()).await;
        for name in bed.names("").await {
            let body = bed.store.read(&name).await.unwrap().unwrap();
            texts.push(format!("{name}: {}", String::from_utf8_lossy(&body)));
        }
    }
    let far = "http://hooks.example/s3cr3t".to_owned();
    let variables = [("BURNIN_CHANNEL_OPS_URL".to_owned(), far)];
    let nowhere = "https://127.0.0.1:1".parse().unwrap();
    let sender = HttpSender::new(Secrets::new(variables, None), nowhere, clock);
    let insecure = sender.deliver(&message(1)).await;
    assert!(
        matches!(&insecure, Reply::Transient { why, .. } if why.contains("expected https://")),
        "{insecure:?}"
    );
    texts.push(format!("{insecure:?}"));
    texts.push(String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned());
    let all = texts.join("\n");
    assert!(
        all.contains("notice dropped: status")
            && all.contains("ERROR")
            && all.contains("a notice cannot be sent: the url of `unknown` is not set"),
        "{all}"
    );
    for secret in ["s3cr3t", TOKEN, KEY] {
        let place = all.find(secret).map(|at| &all[at.saturating_sub(200)..(at + 40).min(all.len())]);
        assert_eq!(place, None, "{secret}");
    }
}

#[test]
fn notices_that_an_earlier_version_stored_are_read() {
    let stored = |letter: serde_json::Value| json!({"format": 1, "id": "0", "run": "w-1", "made_at": "2026-11-20T12:00:00Z", "letter": letter});
    for (letter, kind, name, content) in [
        (json!({"slack": {"webhook": "ops", "text": "it failed"}}), "slack", "ops", "it failed"),
        (json!({"webhook": {"target": "pager", "body": "{}"}}), "webhook", "pager", "{}"),
    ] {
        let read: Notice = serde_json::from_value(stored(letter)).unwrap();
        assert_eq!(read.letter, channel(kind, name, content.to_owned()));
        assert_eq!(read.channel(), format!("{kind}-{name}"));
        // The stored form of this version is read as well.
        let again = serde_json::from_value(serde_json::to_value(&read).unwrap());
        assert_eq!(again.ok(), Some(read));
    }
}
