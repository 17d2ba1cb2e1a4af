//! Stored measurements equal the parsed logs, and changed or foreign ones are refused.

use std::{fs, io::Cursor, path::Path, sync::Arc};

use ledger::{ArtefactError, Artefacts, Digest, MemoryStore, Store};
use measurements::{Measurements, ParsedLog, SCHEMA, read, write};
use model::{Attempt, CommandId, Logs, MeasurementsFile, RunId, Verdict, VerdictReached};
use serde_json::Value;

/// Every sample, and the log of a run that never started.
fn samples() -> Vec<(String, Vec<u8>)> {
    let mut samples = vec![("empty.log".to_owned(), Vec::new())];
    for folder in ["h200", "ours"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl").join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().replace(',', "-");
            samples.push((name, fs::read(path).unwrap()));
        }
    }
    samples.sort();
    samples
}

struct SampleRun {
    store: Arc<MemoryStore>,
    artefacts: Artefacts,
    run: RunId,
    logs: Logs,
}

impl SampleRun {
    /// The committed logs of a run.
    async fn with(run: &str, samples: &[(String, Vec<u8>)]) -> Self {
        let store = Arc::new(MemoryStore::default());
        let artefacts = Artefacts::new(store.clone());
        let id: CommandId = format!("{run}.logs.1.start").parse().unwrap();
        let mut objects = Vec::new();
        for (name, body) in samples {
            let body = Box::new(Cursor::new(body.clone()));
            objects.push(artefacts.put(&id, &format!("1/{name}"), body).await.unwrap());
        }
        let committed = artefacts.commit(&id, objects).await.unwrap();
        let logs =
            Logs { manifest: committed.name, sha256: committed.digest.sha256, objects: 0, size_bytes: 0 };
        Self { store, artefacts, run: run.parse().unwrap(), logs }
    }

    async fn read(&self, file: Option<MeasurementsFile>) -> Result<Vec<ParsedLog>, ArtefactError> {
        let reached = VerdictReached {
            verdict: Verdict::Pass,
            reasons: Vec::new(),
            criteria: String::new(),
            baseline: None,
            fingerprint: Default::default(),
            log_sha256: None,
            suspects: Vec::new(),
            object: String::new(),
            measurements: file.map(Box::new),
        };
        read(&self.artefacts, &self.run, (&self.logs, Attempt::FIRST), Some(&reached)).await
    }

    fn judging(&self) -> CommandId {
        format!("{}.verdict.1.start", self.run).parse().unwrap()
    }

    /// The judge's stored object.
    async fn written(&self) -> MeasurementsFile {
        let parsed = self.read(None).await.unwrap();
        let document = Measurements::of(&self.run, &self.logs, Attempt::FIRST, parsed);
        write(&self.artefacts, &self.judging(), &document).await.unwrap().unwrap()
    }

    /// Replaces the object, and records the digest of the new content.
    async fn replaced(&self, file: &MeasurementsFile, body: Vec<u8>) -> MeasurementsFile {
        self.store.remove(&file.object).await.unwrap();
        let sha256 = Digest::of(&body).sha256;
        self.store.create(&file.object, body.into()).await.unwrap();
        MeasurementsFile { object: file.object.clone(), sha256 }
    }
}

fn refusal(read: Result<Vec<ParsedLog>, ArtefactError>) -> String {
    match read {
        Err(error @ ArtefactError::Damaged { .. }) => error.to_string(),
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[tokio::test]
async fn stored_measurements_equal_the_parsed_logs_of_every_sample() {
    let samples = samples();
    assert!(samples.len() > 40, "{} samples", samples.len());
    let sample = SampleRun::with("samples-1", &samples).await;
    let parsed = sample.read(None).await.unwrap();
    let file = sample.written().await;
    assert_eq!(file.object, "artefacts/samples-1/verdict/1/measurements.json");
    let stored = sample.read(Some(file.clone())).await.unwrap();
    assert_eq!(stored, parsed);
    assert!(parsed.iter().map(|log| log.reading.tables.len()).sum::<usize>() > 20);
    assert_eq!(sample.written().await, file, "a repeated write after a crash stores the same object");

    // Without the logs the stored measurements are still readable.
    for (name, _) in &samples {
        sample.store.remove(&format!("artefacts/samples-1/logs/1/1/{name}")).await.unwrap();
    }
    assert_eq!(sample.read(Some(file)).await.unwrap(), parsed);
    assert!(
        refusal(sample.read(None).await).contains("is missing"),
        "if the object is absent, the logs are read"
    );
}

#[tokio::test]
async fn changed_and_missing_measurements_are_refused() {
    let sample = SampleRun::with("changed-1", &samples()).await;
    let file = sample.written().await;
    let body = sample.store.read(&file.object).await.unwrap().unwrap().to_vec();
    for at in [0, body.len() / 2, body.len() - 1] {
        let mut changed = body.clone();
        changed[at] ^= 1;
        sample.replaced(&file, changed).await;
        let refused = refusal(sample.read(Some(file.clone())).await);
        assert!(refused.contains(&file.object) && refused.contains(&file.sha256), "{refused}");
    }
    sample.store.remove(&file.object).await.unwrap();
    let refused = refusal(sample.read(Some(file.clone())).await);
    assert!(refused.contains(&file.object) && refused.contains("is missing"), "{refused}");
}

#[tokio::test]
async fn measurements_of_another_run_or_schema_are_refused_by_field() {
    let sample = SampleRun::with("foreign-1", &samples()).await;
    let file = sample.written().await;
    let body = sample.store.read(&file.object).await.unwrap().unwrap();
    let document: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(document["schema"], SCHEMA);
    let foreign = [
        ("schema", Value::from("burnin/measurements/v2")),
        ("run", "other-1".into()),
        ("job_attempt", 2.into()),
        ("manifest", "artefacts/other-1/logs/1/manifest.json".into()),
        ("manifest_sha256", "00".into()),
    ];
    for (field, value) in foreign {
        let mut changed = document.clone();
        changed[field] = value;
        let file = sample.replaced(&file, serde_json::to_vec(&changed).unwrap()).await;
        let refused = refusal(sample.read(Some(file.clone())).await);
        assert!(refused.contains(&file.object) && refused.contains(&format!(": {field} is `")), "{refused}");
    }
    let mut changed = document.clone();
    changed["logs"][0]["reading"]["ended"] = "well".into();
    let file = sample.replaced(&file, serde_json::to_vec(&changed).unwrap()).await;
    let refused = refusal(sample.read(Some(file)).await);
    assert!(refused.contains("unknown variant `well`") && refused.contains("line 1 column"), "{refused}");
}

#[tokio::test]
async fn write_names_no_object_if_another_version_stored_different_measurements() {
    let sample = SampleRun::with("versions-1", &samples()).await;
    sample.written().await;
    let document = Measurements::of(&sample.run, &sample.logs, Attempt::FIRST, Vec::new());
    let named = write(&sample.artefacts, &sample.judging(), &document).await.unwrap();
    assert_eq!(named, None, "the readers parse the logs");
}

/// 640 nodes with 192 values each: more than the limit of an uncompressed document.
#[tokio::test]
async fn measurements_of_a_large_cluster_are_compressed() {
    let samples: Vec<_> = (0..640).map(|node| (format!("node-{node:04}.log"), node_log(node))).collect();
    let sample = SampleRun::with("fleet-1", &samples).await;
    let format = measure::format("key-value").unwrap();
    let read_log = move |body: &mut dyn std::io::Read| measure::read_as(format, body);
    let logs = sample.artefacts.logs(&sample.logs, Attempt::FIRST, read_log).await.unwrap();
    let parsed: Vec<_> = logs
        .into_iter()
        .map(|(object, reading)| ParsedLog { log: object.name, sha256: object.sha256, reading })
        .collect();
    assert_eq!(parsed.iter().map(|log| log.reading.metrics.len()).sum::<usize>(), 640 * 192);
    let document = Measurements::of(&sample.run, &sample.logs, Attempt::FIRST, parsed.clone());
    let file = write(&sample.artefacts, &sample.judging(), &document).await.unwrap().unwrap();
    assert_eq!(file.object, "artefacts/fleet-1/verdict/1/measurements.json.gz");
    let stored = sample.store.open(&file.object).await.unwrap().unwrap();
    let mut body = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut { stored }, &mut body).await.unwrap();
    assert!(body.len() < 2 << 20, "{} bytes", body.len());
    assert_eq!(write(&sample.artefacts, &sample.judging(), &document).await.unwrap().unwrap(), file);
    assert_eq!(sample.read(Some(file.clone())).await.unwrap(), parsed);
    // A damaged object is refused, even if its digest is that of the damaged content.
    body.truncate(body.len() / 2);
    let cut = sample.replaced(&file, body).await;
    assert!(refusal(sample.read(Some(cut)).await).contains("measurements.json.gz"));
}

fn node_log(node: u32) -> Vec<u8> {
    let mut log = String::new();
    for (gpu, metric) in (0..8).flat_map(|gpu| (0..24).map(move |metric| (gpu, metric))) {
        let value = 100 + (node * 7 + gpu * 3 + metric) % 50;
        log += &format!("gpu{gpu}_copy{metric}_gb_s={value}.5\n");
    }
    (log + "PROBE_PASS\n").into_bytes()
}
