//! Envelopes keep their content.

use cloudevents::{AttributesReader, Event};
use events::{Content, Message, UnreadableEvent, event_schemas};
use model::*;
use proptest::prelude::*;
use serde_json::json;

fn run() -> RunId {
    "quickstart-1".parse().unwrap()
}

fn accepted(handle: &str) -> Fact {
    Fact::JobAccepted(Handle { handle: handle.to_owned() })
}

#[test]
fn a_fact_round_trips_in_structured_mode() {
    let message = Message::fact("agent", run(), Attempt::new(2), accepted("4711"))
        .stamped(Timestamp::from_millis(1_800_000_000_118), Some("00-4bf9-00f0-01".into()));
    let text = serde_json::to_string(&message.to_event()).unwrap();
    let event: Event = serde_json::from_str(&text).unwrap();
    assert_eq!(event.subject(), Some("runs/quickstart-1"));
    assert_eq!(event.ty(), "dev.burnin.job.accepted.v1");
    assert_eq!(Message::from_event(&event).unwrap(), message);
}

#[test]
fn the_id_of_a_command_is_derived_from_its_content() {
    let id = CommandId { run: run(), stage: Stage::Image, attempt: Attempt::new(1), verb: Verb::Cancel };
    let command = Command { id, body: Body::ImageCancel { handle: None } };
    let message = Message::command("conductor", command.clone());
    assert_eq!(message.key.id, "quickstart-1.image.1.cancel");
    assert_eq!(
        Message::from_event(&message.to_event()).unwrap().content,
        Content::Command(Box::new(command))
    );
}

#[test]
fn the_id_of_a_fact_depends_only_on_its_content() {
    let id = |attempt, handle| Message::fact("agent", run(), Attempt::new(attempt), accepted(handle)).key.id;
    assert_eq!(id(1, "a"), id(1, "a"));
    assert_ne!(id(1, "a"), id(2, "a"));
    assert_ne!(id(1, "a"), id(1, "b"));
}

#[test]
fn foreign_events_are_rejected_with_a_reason() {
    let event = |change: serde_json::Value| -> Event {
        let mut event =
            serde_json::to_value(Message::fact("a", run(), Attempt::new(1), accepted("h")).to_event())
                .unwrap();
        event.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    };
    let read = |change| Message::from_event(&event(change)).unwrap_err().to_string();
    assert!(read(json!({"type": "dev.burnin.moon.landed.v1"})).contains("dev.burnin.moon.landed.v1"));
    assert!(read(json!({"subject": "runs/../../etc"})).contains("subject"));
    assert!(read(json!({"attempt": 0})).contains("attempt"));
    assert!(read(json!({"data": {"handle": 3}})).contains("payload of `dev.burnin.job.accepted.v1`"));
    assert!(matches!(Message::from_event(&event(json!({"id": ""}))), Err(UnreadableEvent::Attribute { .. })));
}

#[test]
fn unknown_fields_are_ignored() {
    let mut event =
        serde_json::to_value(Message::fact("a", run(), Attempt::new(1), accepted("h")).to_event()).unwrap();
    event["data"]["added_later"] = json!(true);
    let event: Event = serde_json::from_value(event).unwrap();
    assert_eq!(Message::from_event(&event).unwrap().content, Content::Fact(accepted("h")));
}

#[test]
fn every_type_has_a_schema() {
    let schemas = event_schemas();
    // The three other types are the offer, the request for a run, and the answer.
    assert_eq!(schemas.len(), Fact::TYPES.len() + Body::TYPES.len() + 3);
    assert!(
        schemas
            .iter()
            .all(|(event_type, schema)| schema["title"] == *event_type && schema["type"] == "object")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_round_trips(handle in any::<String>(), attempt in 1..u32::MAX) {
        let message = Message::fact("agent", run(), Attempt::new(attempt), accepted(&handle));
        let text = serde_json::to_string(&message.to_event()).unwrap();
        let event: Event = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(Message::from_event(&event).unwrap(), message);
    }
}
