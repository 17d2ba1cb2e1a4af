//! Ledgers of all formats remain readable: each format has a ledger here, which is never removed.
#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use std::{fs, path::Path};

use lifecycle::{LeaseState, RunState, fold, owed};
use model::{Conclusion, Record, Verdict};

fn replay(name: &str) -> RunState {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/ledger").join(name);
    let records: Vec<Record> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let state = fold(&records).unwrap();
    assert_eq!(owed(&state, state.recorded_at), [], "a closed run has no owed commands");
    assert!(state.leases.values().all(|lease| lease.state == LeaseState::Returned));
    state
}

#[test]
fn a_ledger_of_format_1_replays_to_a_pass() {
    let state = replay("v1-pass.json");
    assert_eq!((state.seq, state.verdict().unwrap().verdict), (12, Verdict::Pass));
    assert_eq!(state.settled.unwrap().0, Conclusion::Completed);
}

#[test]
fn a_ledger_of_format_1_replays_a_cancel_while_the_job_ran() {
    let state = replay("v1-cancelled.json");
    assert_eq!(state.settled.as_ref().unwrap().0, Conclusion::Cancelled { by: "signal".into() });
    assert!(state.cluster().is_some() && state.verdict().is_none());
}

#[test]
fn absent_optional_fields_are_not_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/ledger/v1-pass.json");
    let written: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let first: Record = serde_json::from_value(written[0].clone()).unwrap();
    let model::RecordEntry::Accepted { fact, .. } = &first.entry else { panic!("a fact") };
    let model::Fact::RunRequested(requested) = &**fact else { panic!("run.requested") };
    assert!(requested.origin.is_none() && requested.workflow.notify.is_empty());
    let data = &serde_json::to_value(&first).unwrap()["entry"]["accepted"]["fact"]["data"];
    assert!(data.get("origin").is_none() && data["workflow"].get("notify").is_none(), "{data}");
}
