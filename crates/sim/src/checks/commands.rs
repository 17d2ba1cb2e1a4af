//! Commands are sent only while the ledger requires them, and no stored byte contains a provider's secret.

use std::collections::BTreeMap;

use cloudevents::AttributesReader;
use events::{Content, Message};
use model::{Command, CommandId, RunId, Timestamp};

use super::{RunFiles, Violation};
use crate::{ExternalEvent, cloud::SECRET, process::SimService};

/// Commands by id, each with the number of records when it became pending.
type PendingCommands = BTreeMap<CommandId, Vec<(usize, Command)>>;

const OWED: &str = "only owed commands are sent";
const NO_SECRET: &str = "I9 no secret is stored";

pub fn check(evidence: &RunFiles, found: &mut Vec<Violation>) {
    let mut owed: BTreeMap<&RunId, PendingCommands> = BTreeMap::new();
    for (index, event) in evidence.indexed_history() {
        let ExternalEvent::Published { by: by @ SimService::Conductor(_), event } = event else {
            continue;
        };
        let Ok(Message { run, content: Content::Command(command), .. }) = Message::from_event(event) else {
            continue;
        };
        let Some((id, known)) = evidence.runs.get_key_value(&run) else {
            found.push(Violation::new(OWED, format!("{by} sent {} for a run without a ledger", event.id())));
            continue;
        };
        let commands = owed.entry(id).or_insert_with(|| pending(&known.states));
        let records = known.known_at(index);
        let is_owed = commands.get(&command.id).is_some_and(|commands| {
            commands.iter().any(|(since, pending)| *since <= records && *pending == *command)
        });
        if !is_owed {
            found.push(Violation::new(OWED, format!("{by} sent {}, which {run} does not owe", command.id)));
        }
    }
    for (name, body) in &evidence.objects {
        if body.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
            found.push(Violation::new(NO_SECRET, name.clone()));
        }
    }
}

/// All commands that are pending in any state of the run, each with the number of records when it became pending.
fn pending(states: &[lifecycle::RunState]) -> PendingCommands {
    let mut commands = PendingCommands::new();
    for (records, state) in (1..).zip(states) {
        let ever = [i64::MIN / 4, i64::MAX / 4].map(Timestamp::from_millis);
        let owed = ever.into_iter().flat_map(|now| lifecycle::owed(state, now));
        for command in owed
            .map(|obligation| obligation.command)
            .chain(lifecycle::current_poll(state))
            .chain(lifecycle::last_loads(state))
        {
            let known = commands.entry(command.id.clone()).or_default();
            if !known.iter().any(|(_, pending)| *pending == command) {
                known.push((records, command));
            }
        }
    }
    commands
}
