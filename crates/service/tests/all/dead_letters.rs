//! Unreadable events are stored under any id.

use std::{collections::BTreeSet, sync::Arc};

use ledger::{MemoryStore, Store, check_name};
use model::{Span, Timestamp};
use service::{DeadLetters, ManualClock, StoredDeadLetters, dead_letters::MAX_PER_DAY};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn dead_letters() -> (Arc<MemoryStore>, StoredDeadLetters) {
    let store = Arc::new(MemoryStore::default());
    (store.clone(), StoredDeadLetters::new(store, Arc::new(ManualClock::new(START))))
}

#[tokio::test]
async fn a_parked_event_is_stored_under_its_date_with_the_reason() {
    let (store, dead_letters) = dead_letters();
    dead_letters.park("event-1", "no such type", b"{\"type\": \"x\"}").await.unwrap();
    dead_letters.park("event-1", "no such type", b"{\"type\": \"x\"}").await.unwrap();
    let names = store.list("").await.unwrap();
    let [name] = &names[..] else { panic!("the event is stored once, found {names:?}") };
    assert!(name.starts_with("parked/2027-01-15/event-1-"), "{name}");
    let kept = store.read(name).await.unwrap().unwrap();
    assert_eq!(kept, "no such type\n{\"type\": \"x\"}");
}

#[tokio::test]
async fn hostile_ids_result_in_safe_and_distinct_names() {
    let (store, dead_letters) = dead_letters();
    let long = ["x".repeat(5000), "x".repeat(5001)];
    let hostile = [
        "",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a_b",
        "a\\b",
        "a\nb",
        "a\0b",
        "%2e%2e%2f",
        "C:",
        "~",
        "ä",
        "ö",
        "\u{202e}",
        "con",
        "$(id)",
        "manifest.json",
        ".drafts/x",
        &long[0],
        &long[1],
    ];
    for (number, id) in hostile.iter().enumerate() {
        dead_letters.park(id, "why", number.to_string().as_bytes()).await.unwrap();
    }
    let names = store.list("").await.unwrap();
    let mut kept = BTreeSet::new();
    for name in &names {
        check_name(name).unwrap();
        let file = name.strip_prefix("parked/2027-01-15/").unwrap_or_else(|| panic!("{name} is misplaced"));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(file.chars().all(plain) && file.len() < 200, "{name}");
        kept.insert(store.read(name).await.unwrap().unwrap());
    }
    assert_eq!(kept.len(), hostile.len(), "every event is stored: {names:#?}");
}

#[tokio::test]
async fn another_event_with_the_same_id_is_parked_too() {
    let (store, dead_letters) = dead_letters();
    dead_letters.park("1", "why", b"from one source").await.unwrap();
    dead_letters.park("1", "why", b"from another source").await.unwrap();
    assert_eq!(store.list("parked/").await.unwrap().len(), 2, "an id is only unique within its source");
}

#[tokio::test]
async fn parked_events_are_limited_per_day() {
    let store = Arc::new(MemoryStore::default());
    let clock = Arc::new(ManualClock::new(START));
    let dead_letters = StoredDeadLetters::new(store.clone(), clock.clone());
    let park = async |number: usize| {
        dead_letters.park(&number.to_string(), "unknown", number.to_string().as_bytes()).await
    };
    for number in 1..MAX_PER_DAY {
        park(0).await.unwrap_or_else(|why| panic!("a repeated event counts once, not {number} times: {why}"));
        park(number).await.unwrap();
    }
    let refused = park(MAX_PER_DAY).await.unwrap_err();
    assert!(refused.contains("parked/2027-01-15/"), "{refused}");
    assert_eq!(store.list("parked/").await.unwrap().len(), MAX_PER_DAY);
    clock.advance(Span::from_secs(24 * 3600));
    park(MAX_PER_DAY).await.unwrap();
}
