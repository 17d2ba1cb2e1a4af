//! Every acknowledged event is recorded, parked, or has no effect.

use cloudevents::{AttributesReader, Event};
use events::{Content, Message};
use lifecycle::{LeaseState, RunState};
use model::{Fact, RecordEntry};

use super::{CheckedRun, RunFiles, Violation};
use crate::{ExternalEvent, process::SimService};

const VANISHED: &str = "I7 no event is lost";
const EARLY: &str = "I8 an event is recorded before it is acknowledged";

pub fn check(evidence: &RunFiles, found: &mut Vec<Violation>) {
    for (index, event) in evidence.indexed_history() {
        match event {
            ExternalEvent::Acked { by: by @ SimService::Conductor(_), event } => {
                if let Some(why) = missing(evidence, index, event) {
                    let ever = missing(evidence, usize::MAX, event).is_some();
                    let invariant = if ever { VANISHED } else { EARLY };
                    let what = format!("{by} acknowledged {} {}: {why}", event.ty(), event.id());
                    found.push(Violation::new(invariant, what));
                }
            }
            ExternalEvent::Parked { event, .. } => {
                let id: String = event.id().chars().take(20).collect();
                let kept =
                    |name: &String| name.starts_with("parked/") && name.contains(&id.replace('#', "_"));
                if !evidence.objects.keys().any(kept) {
                    found.push(Violation::new(
                        VANISHED,
                        format!("{} was acknowledged as a parked event, but is not stored", event.id()),
                    ));
                }
            }
            _ => {}
        }
    }
}

/// Reason why a fact is missing in the ledger at a position of the history; `None` if it is recorded.
fn missing(evidence: &RunFiles, index: usize, event: &Event) -> Option<String> {
    let Ok(message) = Message::from_event(event) else { return Some("it is unreadable".to_owned()) };
    let Content::Fact(fact) = &message.content else { return Some("it is not a fact".to_owned()) };
    let known = evidence.runs.get(&message.run);
    let Some((run, state)) = known.and_then(|run| Some((run, run.state_at(index)?))) else {
        return Some("its run has no ledger".to_owned());
    };
    let recorded = run.records[..run.known_at(index)].iter().any(
        |(_, record)| matches!(&record.entry, RecordEntry::Accepted { event, .. } if *event == message.key),
    );
    if recorded || may_stay_unrecorded(run, state, &message, fact, index) {
        return None;
    }
    Some(format!("it is not in the ledger of {}", message.run))
}

/// Whether the fact may stay unrecorded, evaluated without the state machine: every other fact must be recorded.
fn may_stay_unrecorded(
    run: &CheckedRun,
    state: &RunState,
    message: &Message,
    fact: &Fact,
    index: usize,
) -> bool {
    let attempt = message.attempt;
    let earlier = |is: fn(&Fact) -> bool| {
        run.facts().any(|(at, record, known)| {
            let same = matches!(&record.entry, RecordEntry::Accepted { attempt: a, .. } if *a == attempt);
            at < index && same && known.stage() == fact.stage() && is(known)
        })
    };
    match fact {
        Fact::RunRequested(_) | Fact::RunClosed(_) | Fact::RunUsed(_) => true,
        Fact::CancelRequested(_) => state.settled.is_some(),
        Fact::ClusterDeleted(_) => {
            let lease = state.leases.get(&attempt);
            !state.provisions_cluster() || lease.is_none_or(|lease| lease.state == LeaseState::Returned)
        }
        Fact::ClusterAccepted(_) | Fact::ClusterReady(_) if state.provisions_cluster() => {
            let held = state.leases.get(&attempt).is_some_and(|lease| lease.state == LeaseState::Held);
            let stage = fact.stage().is_some_and(|stage| state.attempt(stage) != attempt);
            let closed = state.closed.is_some();
            held && (stage || closed || !fact.is_terminal() || earlier(Fact::is_terminal))
        }
        _ => {
            let Some(stage) = fact.stage() else { return true };
            !state.requires(stage)
                || state.closed.is_some()
                || state.attempt(stage) != attempt
                || earlier(Fact::is_terminal)
                || !fact.is_terminal() && earlier(|_| true)
        }
    }
}
