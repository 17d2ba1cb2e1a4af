//! Contract tests of a service: a command and the resulting facts, as files for both sides.
//!
//! `tests/data/contract/{service}/{case}.command.json` is a CloudEvent in structured mode;
//! `tests/data/contract/{service}/{case}.facts.json` is the expected result: the answer to the bus, and every
//! published fact, without time and trace. It includes ids, which follow from the content.
//!
//! `UPDATE_FIXTURES=1 cargo test contract::` rewrites the results; read the difference before committing it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use model::{Span, Timestamp};
use serde_json::{Value, json};
use service::{Bus, BusError, Clock, Disposition, Event, Handler, ManualClock, Worker, WorkerHandler};

pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// Poll interval of a service under test.
pub const POLL_INTERVAL: Span = Span::from_secs(1);

/// A service with a recording bus and a manual clock.
pub struct TestedService {
    name: &'static str,
    handler: Arc<dyn Handler>,
    bus: Arc<RecordingBus>,
    clock: Arc<ManualClock>,
}

#[derive(Default)]
struct RecordingBus(Mutex<Vec<Value>>);

#[service::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        let mut event = serde_json::to_value(&event).unwrap();
        let attributes = event.as_object_mut().unwrap();
        assert!(attributes.remove("time").is_some(), "every fact has its time of publication");
        attributes.remove("traceparent");
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

impl TestedService {
    /// The service with the handler `worker`, which receives the service's clock.
    pub fn new<W: Worker>(worker: impl FnOnce(Arc<dyn Clock>) -> W) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let worker = worker(clock.clone());
        let (name, bus) = (worker.name(), Arc::<RecordingBus>::default());
        let handler = Arc::new(WorkerHandler::new(worker, bus.clone(), clock.clone()));
        Self { name, handler, bus, clock }
    }

    pub fn command(&self, case: &str) -> Value {
        command(self.name, case)
    }

    /// Delivers the command of a case and advances time until no operation is polled. Returns the answer and the
    /// published facts.
    pub async fn deliver(&self, case: &str) -> Value {
        let event: Event = serde_json::from_value(self.command(case)).unwrap();
        let answer = match self.handler.handle(&event).await {
            Disposition::Done => json!("done"),
            Disposition::Park(why) => json!({"park": why}),
            Disposition::Retry(why) => json!({"retry": why}),
        };
        for _ in 0..10 {
            // Only pollers wait for the clock.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.clock.advance(POLL_INTERVAL);
        }
        let facts = std::mem::take(&mut *self.bus.0.lock().unwrap());
        json!({"answer": answer, "facts": facts})
    }

    /// Checks that the case matches its fixture.
    pub async fn honours(&self, case: &str) {
        let found = self.deliver(case).await;
        let path = folder(self.name).join(format!("{case}.facts.json"));
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::write(&path, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
        }
        let expected = facts(self.name, case);
        assert_eq!(
            serde_json::to_string_pretty(&found).unwrap(),
            serde_json::to_string_pretty(&expected).unwrap(),
            "{}",
            path.display()
        );
    }

    /// Checks that the case matches its fixture, and that a second delivery is answered with the last fact again, under the
    /// same id.
    pub async fn honours_twice(&self, case: &str) {
        self.honours(case).await;
        let first = facts(self.name, case);
        let again = self.deliver(case).await;
        assert_eq!(again["answer"], "done");
        let (first, again) = (first["facts"].as_array().unwrap(), again["facts"].as_array().unwrap());
        assert!(!again.is_empty(), "a repeated command publishes a fact again");
        assert!(
            again.iter().all(|fact| first.contains(fact)),
            "a repeated command publishes no new fact: {again:#?}"
        );
        assert_eq!(again.last(), first.last(), "a repeated command publishes the last fact again");
    }

    pub async fn foreign_events_are_parked(&self) {
        for case in ["other-service", "unreadable"] {
            self.honours(case).await;
            let parked = self.deliver(case).await;
            assert!(parked["answer"]["park"].is_string(), "{case}: {parked}");
            assert_eq!(parked["facts"], json!([]), "{case}");
        }
    }
}

/// Folder of a service's fixtures.
fn folder(service: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/contract").join(service)
}

pub fn command(service: &str, case: &str) -> Value {
    read(&folder(service).join(format!("{case}.command.json")))
}

/// The expected facts, from the fixture of a case.
pub fn facts(service: &str, case: &str) -> Value {
    read(&folder(service).join(format!("{case}.facts.json")))
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A log of a real run of nccl-tests.
pub fn log() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/nccl/ours/226-own-one-gpu.log");
    fs::read(path).unwrap()
}
