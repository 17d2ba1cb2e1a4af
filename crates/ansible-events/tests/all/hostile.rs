//! Hostile streams of events.

use ansible_events::{EventReader, read};
use proptest::prelude::*;

fn result(event: &str, host: &str, body: &str) -> String {
    format!(r#"{{"_event":"v2_runner_on_{event}","hosts":{{"{host}":{body}}},"task":{{"name":"t"}}}}"#) + "\n"
}
fn stats(host: &str, counts: &str) -> String {
    format!(r#"{{"_event":"v2_playbook_on_stats","stats":{{"{host}":{counts}}}}}"#) + "\n"
}

#[test]
fn handled_failures_are_not_reported() {
    let log = result("failed", "a", r#"{"msg":"first"}"#) + &result("ok", "a", "{}");
    assert_eq!(read(log.as_bytes()).unwrap().failure, None);
    let ignored = log.clone() + &stats("a", r#"{"ok":1,"failures":0,"ignored":1}"#);
    assert!(read(ignored.as_bytes()).unwrap().is_success());
    // An `always` section also runs after a final failure.
    let always = log + &stats("a", r#"{"ok":1,"failures":1}"#);
    assert_eq!(read(always.as_bytes()).unwrap().failure.unwrap().message, "first");
}

#[test]
fn the_first_failure_is_reported() {
    let log = result("failed", "b", r#"{"msg":"one"}"#) + &result("failed", "a", r#"{"msg":"two"}"#);
    let failure = read(log.as_bytes()).unwrap().failure.unwrap();
    assert_eq!((failure.host.as_str(), failure.message.as_str()), ("b", "one"));
}

#[test]
fn an_empty_stream_is_not_successful() {
    for log in
        ["", "\n", "ERROR! the role was not found\n", "{\"_event\":\"v2_playbook_on_stats\",\"stats\":{}}\n"]
    {
        let findings = read(log.as_bytes()).unwrap();
        assert!(!findings.is_success() && !findings.problems().is_empty(), "{log:?}");
    }
}

#[test]
fn names_are_sanitized_for_display() {
    let host = format!("{}\\u001b[2J\\n", "h".repeat(300));
    let log = result("unreachable", &host, r#"{"msg":"no\u0007 route"}"#);
    let lost = &read(log.as_bytes()).unwrap().unreachable[0];
    assert!(lost.host.chars().count() <= 121 && !lost.host.contains('\u{1b}'), "{}", lost.host);
    assert_eq!(lost.reason, "no route");
}

#[test]
fn an_endless_line_uses_bounded_memory() {
    let mut reader = EventReader::default();
    let piece = vec![b'{'; 1 << 20];
    for _ in 0..64 {
        reader.take(&piece);
    }
    reader.take(b"\n");
    reader.take(stats("a", r#"{"ok":1}"#).as_bytes());
    let findings = reader.findings();
    assert_eq!((findings.foreign_lines, findings.ended), (1, true));
}

#[test]
fn the_number_of_hosts_has_a_maximum() {
    let mut reader = EventReader::default();
    for number in 0..10_050 {
        reader.take(result("ok", &format!("h{number}"), "{}").as_bytes());
    }
    let findings = reader.findings();
    assert_eq!((findings.hosts.len(), findings.left_out), (10_000, 50));
    assert!(!findings.is_success());
}

proptest! {
    #[test]
    fn any_bytes_are_accepted(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let findings = read(&bytes[..]).unwrap();
        prop_assert!(!findings.is_success());
    }

    /// Events with parts of any shape in any order: no panic, and no more counts than results.
    #[test]
    fn any_events_are_accepted(
        events in proptest::collection::vec(
            ("(play_start|stats|ok|failed|unreachable|skipped|start)", "[a-c]", "(\\{\\}|null|3|\\[1\\]|\\{\"msg\":\\[\\{\\}\\]\\}|\\{\"changed\":true\\}|\\{\"rc\":-1,\"stderr\":7\\})"),
            0..40,
        ),
        cut in 0_usize..64,
    ) {
        let mut log = String::new();
        let mut results = 0;
        for (event, host, body) in &events {
            match event.as_str() {
                "play_start" => log += "{\"_event\":\"v2_playbook_on_play_start\",\"play\":{\"name\":\"p\"}}\n",
                "stats" => log += &stats(host, "{\"ok\":0}"),
                event => {
                    log += &result(event, host, body);
                    results += 1;
                }
            }
        }
        let whole = read(log.as_bytes()).unwrap();
        let counted: u64 = whole.hosts.values().map(|host| host.ok + host.failures + host.unreachable + host.skipped + host.ignored).sum();
        prop_assert!(counted <= results);
        let mut reader = EventReader::default();
        let cut = cut.min(log.len());
        reader.take(&log.as_bytes()[..cut]);
        let _ = reader.findings();
        reader.take(&log.as_bytes()[cut..]);
        prop_assert_eq!(reader.findings(), whole);
    }
}
