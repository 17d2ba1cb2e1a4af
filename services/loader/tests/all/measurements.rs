//! The measurements that the judge stored load the same rows as the logs.

use std::{fs, path::Path, sync::Arc};

use ledger::{Artefacts, MemoryStore, Store};
use loader::Loader;
use measurements::{Measurements, ParsedLog};
use model::{
    Attempt, Body, Command, CommandId, Logs, MeasurementsFile, RunId, Timestamp, Verdict, VerdictReached,
};
use test_support::{answer, committed};
use warehouse::{MeasurementRow, Sqlite, Warehouse, memory::Memory};

const RUN: &str = "samples-1";

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
            objects.push((name, fs::read(path).unwrap()));
        }
    }
    let logs = committed(&artefacts, &id, objects).await;
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

/// The loaded rows, and the fact that the loader publishes.
async fn loaded(
    store: &Arc<MemoryStore>,
    logs: &Logs,
    file: Option<MeasurementsFile>,
) -> (Vec<MeasurementRow>, serde_json::Value) {
    let warehouse = Arc::<Memory>::default();
    let answer = load_into(warehouse.clone(), store, logs, (None, file)).await;
    (warehouse.rows(RUN).await.unwrap(), answer)
}

/// The fact that a loader with this warehouse publishes. `(check, measurements)`: the name of the check, and its stored measurements.
async fn load_into(
    warehouse: Arc<dyn Warehouse>,
    store: &Arc<MemoryStore>,
    logs: &Logs,
    (check, file): (Option<&str>, Option<MeasurementsFile>),
) -> serde_json::Value {
    let loader = Loader::new(Artefacts::new(store.clone()), warehouse);
    let verdict = VerdictReached {
        verdict: Verdict::Pass,
        reasons: Vec::new(),
        criteria: "any@1".to_owned(),
        baseline: None,
        fingerprint: Default::default(),
        log_sha256: None,
        suspects: Vec::new(),
        object: String::new(),
        measurements: file.map(Box::new),
    };
    let body = Body::ResultsLoad {
        workflow: "samples".to_owned(),
        check: check.map(str::to_owned),
        requested_at: Some(Timestamp::from_millis(0)),
        logs: logs.clone(),
        job_attempt: Attempt::FIRST,
        verdict: Some(verdict),
    };
    let command = Command { id: format!("{RUN}.results.1.start").parse().unwrap(), body };
    answer(&loader, &command).await
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

/// The tables of nccl-tests are also metrics, so that the views of metrics show collectives.
#[tokio::test]
async fn tables_of_real_logs_are_metrics_too() {
    let (store, logs) = samples().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let sqlite = Arc::new(Sqlite::open(&path).unwrap());
    let answer = load_into(sqlite.clone(), &store, &logs, (Some("collectives"), None)).await;
    let rows = sqlite.rows(RUN).await.unwrap();
    assert_eq!(answer["data"]["rows"], rows.len(), "a metric that repeats a measurement is not counted");
    let metrics = sqlite.metrics(RUN).await.unwrap();
    let of = |name: &str| metrics.iter().filter(|row| *row.metric == *name).collect::<Vec<_>>();
    let bandwidths = of("nccl_tests.bus_bandwidth");
    assert_eq!(bandwidths.len(), rows.len());
    for row in &rows {
        let same = bandwidths.iter().filter(|metric| {
            let labels: serde_json::Value = serde_json::from_str(&metric.labels).unwrap();
            *metric.log == *row.log
                && metric.value == Some(row.busbw)
                && labels["size"].as_str().and_then(|size| size.parse().ok()) == Some(row.size_bytes)
                && labels["placement"] == row.placement.as_str()
                && labels["collective"].as_str() == row.collective.as_deref()
                && labels["ranks"].as_str() == row.ranks.map(|ranks| ranks.to_string()).as_deref()
        });
        assert_eq!(same.take(1).count(), 1, "{row:?}");
    }
    let metric = bandwidths.iter().find(|metric| metric.log.ends_with("healthy-1.log")).unwrap();
    assert_eq!((&*metric.unit, &*metric.better, &*metric.scope), ("GB/s", "higher", "node"));
    assert!(metric.node.is_some(), "all ranks are on one node");
    // Times of each process at the largest size, from a log with `-I 1 -J`.
    let slow = |row: &&&warehouse::MetricRow| row.log.ends_with("matrix-rank2-slow-z3.json");
    let times = of("nccl_tests.process_time");
    let times: Vec<_> = times.iter().filter(slow).filter(|row| row.labels.contains("out_of_place")).collect();
    assert_eq!(times.iter().map(|row| row.rank).collect::<Vec<_>>(), [Some(0), Some(1), Some(2), Some(3)]);
    assert!(times.iter().all(|row| (&*row.unit, &*row.better, &*row.scope) == ("us", "lower", "rank")));
    assert!(times.iter().all(|row| row.node.is_some() && row.gpu.is_some()), "{times:?}");
    // The views for latest values, trend and nodes contain the metric.
    let file = rusqlite::Connection::open(&path).unwrap();
    for view in ["metrics_latest", "metrics_trend", "metrics_by_node"] {
        let query = format!("SELECT count(*) FROM {view} WHERE metric = 'nccl_tests.bus_bandwidth'");
        let count: i64 = file.query_row(&query, [], |row| row.get(0)).unwrap();
        assert!(count > 10, "{view}: {count}");
    }
}

/// Real output of programs other than nccl-tests.
const METRICS: [&str; 5] = [
    "nvbandwidth/0.9-h100.json",
    "gpu-burn/faulty.txt",
    "dcgm-diag/4.2.3-gb10-level2-partial-skip.json",
    "perftest/26.1-bidirectional-duration.txt",
    "hpl/25.9-nvidia.txt",
];

#[tokio::test]
async fn metrics_of_real_logs_are_loaded_once() {
    let (store, logs) = samples().await;
    let (artefacts, run): (_, RunId) = (Artefacts::new(store.clone()), RUN.parse().unwrap());
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/measure/tests/samples");
    let parsed: Vec<_> = METRICS
        .iter()
        .map(|name| {
            let reading = measure::read(&*fs::read(samples.join(name)).unwrap()).unwrap();
            assert!(!reading.metrics.is_empty(), "{name}");
            ParsedLog { log: format!("1/{name}"), sha256: "0".repeat(64), reading }
        })
        .collect();
    let expected: u64 = parsed.iter().map(|log| log.reading.metrics.len() as u64).sum();
    let document = Measurements::of(&run, &logs, Attempt::FIRST, parsed.clone());
    let judging = format!("{RUN}.verdict.1.start").parse().unwrap();
    let file = measurements::write(&artefacts, &judging, &document).await.unwrap().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let sqlite = Arc::new(Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap());
    let memory = Arc::<Memory>::default();
    for _ in 0..2 {
        for warehouse in [sqlite.clone() as Arc<dyn Warehouse>, memory.clone()] {
            let loaded = (Some("memory"), Some(file.clone()));
            let answer = load_into(warehouse, &store, &logs, loaded).await;
            assert_eq!(answer["type"], "dev.burnin.results.loaded.v1", "{answer}");
            assert_eq!(answer["data"]["rows"], expected, "{answer}");
        }
    }
    let rows = sqlite.metrics(RUN).await.unwrap();
    let mut kept = memory.metrics(RUN).await.unwrap();
    kept.sort_by(|a, b| (&a.log, a.metric_number).cmp(&(&b.log, b.metric_number)));
    assert_eq!(rows, kept);
    assert_eq!(rows.len() as u64, expected);
    for log in &parsed {
        let rows: Vec<_> = rows.iter().filter(|row| *row.log == *log.log).collect();
        let values: Vec<_> = log.reading.metrics.iter().map(|metric| (metric.line, metric.value)).collect();
        assert_eq!(rows.iter().map(|row| (row.line, row.value)).collect::<Vec<_>>(), values);
        for (row, metric) in rows.iter().zip(&log.reading.metrics) {
            assert_eq!((&row.metric, &row.unit, row.gpu), (&metric.name, &metric.unit, metric.subject.gpu));
            let spelled = serde_json::json!([metric.better, metric.scope, metric.labels]);
            let labels: serde_json::Value = serde_json::from_str(&row.labels).unwrap();
            assert_eq!(serde_json::json!([&*row.better, &*row.scope, labels]), spelled);
            assert_eq!(row.value.is_none(), row.unmeasurable.is_some());
            assert_eq!((row.check_name.as_deref(), row.verdict), (Some("memory"), Some(Verdict::Pass)));
        }
    }
    assert!(rows.iter().any(|row| row.unmeasurable.is_some()) && rows.iter().any(|row| row.gpu.is_some()));
}
