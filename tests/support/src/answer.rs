//! The fact that a worker publishes for one command, and committed logs as the input of the command.

use std::{
    io::Cursor,
    sync::{Arc, Mutex},
};

use ledger::Artefacts;
use model::{Command, CommandId, Logs, Timestamp};
use serde_json::Value;
use service::{Bus, BusError, Event, ManualClock, Publisher, Worker};

#[derive(Default)]
struct RecordingBus(Mutex<Vec<Event>>);

#[service::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

/// The first event that the worker publishes for this command, at the start of the epoch.
pub async fn answer(worker: &impl Worker, command: &Command) -> Value {
    let published = Arc::<RecordingBus>::default();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let publisher = Publisher::new(worker.name(), published.clone(), clock);
    worker.perform(command, &publisher).await.unwrap();
    let published = published.0.lock().unwrap();
    serde_json::to_value(&published[0]).unwrap()
}

/// Commits logs, each with its object name and content, as the stage `id` does.
pub async fn committed(artefacts: &Artefacts, id: &CommandId, logs: Vec<(String, Vec<u8>)>) -> Logs {
    let mut objects = Vec::new();
    for (name, body) in logs {
        objects.push(artefacts.put(id, &name, Box::new(Cursor::new(body))).await.unwrap());
    }
    let count = objects.len() as u32;
    let committed = artefacts.commit(id, objects).await.unwrap();
    Logs { manifest: committed.name, sha256: committed.digest.sha256, objects: count, size_bytes: 0 }
}
