//! The measurements that the judge stored load the same rows as the logs.

use std::{
    fs,
    io::Cursor,
    path::Path,
    sync::{Arc, Mutex},
};

use ledger::{Artefacts, MemoryStore, Store};
use loader::Loader;
use measurements::Measurements;
use model::{
    Attempt, Body, Command, CommandId, Logs, MeasurementsFile, RunId, Timestamp, Verdict, VerdictReached,
};
use service::{Bus, BusError, Event, ManualClock, Publisher, Worker};
use warehouse::{MeasurementRow, Warehouse, memory::Memory};

const RUN: &str = "samples-1";

/// Keeps the published events.
#[derive(Default)]
struct Published(Mutex<Vec<Event>>);

#[service::async_trait]
impl Bus for Published {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

/// A bucket with every sample as a committed log.
async fn samples() -> (Arc<MemoryStore>, Logs) {
    let store = Arc::new(MemoryStore::default());
    let artefacts = Artefacts::new(store.clone());
    let id: CommandId = format!("{RUN}.logs.1.start").parse().unwrap();
    let mut objects = Vec::new();
    for folder in ["h200", "ours"] {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl").join(folder);
        for entry in fs::read_dir(samples).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("1/{folder}-{}", path.file_name().unwrap().to_str().unwrap());
            let body = Box::new(Cursor::new(fs::read(path).unwrap()));
            objects.push(artefacts.put(&id, &name, body).await.unwrap());
        }
    }
    let committed = artefacts.commit(&id, objects).await.unwrap();
    let logs = Logs { manifest: committed.name, sha256: committed.digest.sha256, objects: 0, size_bytes: 0 };
    (store, logs)
}

/// Stores the measurements as the judge does.
async fn judged(store: &Arc<MemoryStore>, logs: &Logs) -> MeasurementsFile {
    let (artefacts, run): (_, RunId) = (Artefacts::new(store.clone()), RUN.parse().unwrap());
    let parsed = measurements::read(&artefacts, &run, (logs, Attempt::FIRST), None).await.unwrap();
    let document = Measurements::of(&run, logs, Attempt::FIRST, parsed);
    let judging = format!("{RUN}.verdict.1.start").parse().unwrap();
    measurements::write(&artefacts, &judging, &document).await.unwrap().unwrap()
}

/// The loaded rows, and the loader's answer.
async fn loaded(
    store: &Arc<MemoryStore>,
    logs: &Logs,
    file: Option<MeasurementsFile>,
) -> (Vec<MeasurementRow>, serde_json::Value) {
    let warehouse = Arc::<Memory>::default();
    let loader = Loader::new(Artefacts::new(store.clone()), warehouse.clone());
    let verdict = VerdictReached {
        verdict: Verdict::Pass,
        reasons: Vec::new(),
        criteria: "any@1".to_owned(),
        baseline: None,
        fingerprint: Default::default(),
        log_sha256: None,
        object: String::new(),
        measurements: file,
    };
    let body = Body::ResultsLoad {
        workflow: "samples".to_owned(),
        check: None,
        requested_at: Some(Timestamp::from_millis(0)),
        logs: logs.clone(),
        job_attempt: Attempt::FIRST,
        verdict: Some(verdict),
    };
    let command = Command { id: format!("{RUN}.results.1.start").parse().unwrap(), body };
    let published = Arc::<Published>::default();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    loader.perform(&command, &Publisher::new("loader", published.clone(), clock)).await.unwrap();
    let answer = serde_json::to_value(&published.0.lock().unwrap()[0]).unwrap();
    (warehouse.rows(RUN).await.unwrap(), answer)
}

#[tokio::test]
async fn stored_measurements_load_the_same_rows_as_the_logs() {
    let (store, logs) = samples().await;
    let (from_logs, _) = loaded(&store, &logs, None).await;
    assert!(from_logs.len() > 400, "{} rows", from_logs.len());
    let file = judged(&store, &logs).await;
    for name in store.list("artefacts/samples-1/logs/").await.unwrap() {
        store.remove(&name).await.unwrap();
    }
    let (from_measurements, answer) = loaded(&store, &logs, Some(file)).await;
    assert_eq!(from_measurements, from_logs);
    assert_eq!(answer["type"], "dev.burnin.results.loaded.v1");
}

#[tokio::test]
async fn changed_measurements_load_nothing() {
    let (store, logs) = samples().await;
    let file = judged(&store, &logs).await;
    let mut body = store.read(&file.object).await.unwrap().unwrap().to_vec();
    let at = body.len() / 2;
    body[at] ^= 1;
    store.remove(&file.object).await.unwrap();
    store.create(&file.object, body.into()).await.unwrap();
    let (rows, answer) = loaded(&store, &logs, Some(file.clone())).await;
    assert_eq!((rows, answer["type"].as_str()), (Vec::new(), Some("dev.burnin.results.failed.v1")));
    let failure = answer["data"].to_string();
    assert!(failure.contains("LOGS_DAMAGED") && failure.contains(&file.object), "{failure}");
}
