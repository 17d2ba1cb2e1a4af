//! Tests the kind `logs` on folders with the layout that programs write.

use std::{fs, path::Path, sync::Arc};

use cluster_api::{
    ClusterKind, ClusterStatus, JobSpec, JobStatus, Scheduler, Settings, scheduler_conformance,
};
use cluster_logs::{LogJobs, LogSettings, LogsKind};
use ledger::MemoryStore;
use model::{Cluster, Span};
use serde_json::json;
use tempfile::TempDir;

fn settings(folder: &Path, nodes: u32) -> LogSettings {
    serde_json::from_value(json!({"folder": folder, "nodes": nodes})).unwrap()
}

async fn probe(settings: &LogSettings) -> Result<Cluster, String> {
    match LogsKind.probe("theirs", &settings.system()).await.unwrap() {
        ClusterStatus::Ready(cluster) => Ok(cluster),
        ClusterStatus::Broken(why) => Err(why),
        other => panic!("{other:?}"),
    }
}

fn job(name: &str, cluster: &Cluster) -> JobSpec {
    JobSpec {
        name: name.into(),
        cluster: cluster.clone(),
        image: None,
        program: scheduler_conformance::program(),
        limit: Span::from_secs(60),
        environment: Default::default(),
        evidence: false,
        labels: [("burnin-run".to_owned(), "r-1".to_owned())].into(),
    }
}

/// Logs of the A4 chart: `complete.json` as its launcher writes it.
fn chart_logs(exit_status: i32, nodes: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nccl-test-results.txt"), "a table\n").unwrap();
    let pods: Vec<_> =
        (0..nodes).map(|index| json!({"index": index, "node": format!("gke-{index}")})).collect();
    let marker = json!({
        "schema": "testbed/complete/v1", "run": "r-1", "exit_status": exit_status, "stage": "done", "ended": 1_700_000_000,
        "pods": pods,
        "files": {"nccl-test-results.txt": {
            "bytes": 8, "sha256": "b50f2706cc3249c0c9fb8e977fae6cb7f77d09f6e1fafc98c4f5321f7527472f"}},
    });
    fs::write(folder.path().join("complete.json"), marker.to_string()).unwrap();
    folder
}

#[tokio::test]
async fn the_scheduler_conforms() {
    let folder = chart_logs(0, 1);
    let cluster = probe(&settings(folder.path(), 1)).await.unwrap();
    let jobs = LogJobs::new(Arc::new(MemoryStore::default()));
    scheduler_conformance::scheduler(&jobs, &cluster, |name| job(name, &cluster)).await;
    scheduler_conformance::folder(&jobs, &cluster, "one", folder.path()).await;
}

#[tokio::test]
async fn the_end_and_the_nodes_are_read_from_complete_json() {
    let folder = chart_logs(82, 2);
    let cluster = probe(&settings(folder.path(), 2)).await.unwrap();
    let names: Vec<_> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["gke-0", "gke-1"]);
    let jobs = LogJobs::new(Arc::new(MemoryStore::default()));
    jobs.submit(&job("one", &cluster)).await.unwrap();
    let JobStatus::Ended(end) = jobs.poll(&cluster, "one").await.unwrap() else { panic!("not ended") };
    assert_eq!((end.state.as_str(), end.exit_code), ("FAILED", Some(82)));
    assert_eq!(end.ended_at.unwrap().to_string(), "2023-11-14T22:13:20.000Z");
    let why = format!("{:?}", jobs.part(&cluster, &["gke-0"]).unwrap_err());
    assert!(why.contains("remove `locate`"), "{why}");
}

#[tokio::test]
async fn only_the_named_file_is_collected() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    for file in ["deep/slurm-1.out", "slurm-2.out"] {
        fs::write(folder.path().join(file), "x").unwrap();
    }
    let logs = LogSettings { file: Some("deep/slurm-1.out".into()), ..settings(folder.path(), 2) };
    let cluster = probe(&logs).await.unwrap();
    let jobs = LogJobs::new(Arc::new(MemoryStore::default()));
    jobs.submit(&job("one", &cluster)).await.unwrap();
    let JobStatus::Ended(end) = jobs.poll(&cluster, "one").await.unwrap() else { panic!("not ended") };
    assert_eq!((end.state.as_str(), end.exit_code), ("COMPLETED", None), "no file contains an exit status");
    let outputs = jobs.outputs(&cluster, "one").await.unwrap();
    let names: Vec<_> = outputs.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["deep/slurm-1.out"]);
}

#[tokio::test]
async fn missing_and_incomplete_logs_are_refused_before_the_job() {
    let empty = tempfile::tempdir().unwrap();
    let absent = empty.path().join("absent");
    let shortened = chart_logs(0, 2);
    fs::write(shortened.path().join("nccl-test-results.txt"), "a tab").unwrap();
    let unreadable = chart_logs(0, 2);
    fs::write(unreadable.path().join("complete.json"), "{\"schema\": ").unwrap();
    let missing = chart_logs(0, 2);
    fs::remove_file(missing.path().join("nccl-test-results.txt")).unwrap();
    let outside = LogSettings { file: Some("../x".into()), ..settings(shortened.path(), 2) };
    let unknown = LogSettings { file: Some("slurm.out".into()), ..settings(shortened.path(), 2) };
    let whole = chart_logs(0, 2);
    let cases = [
        (settings(&absent, 2), "absent: the folder is absent or has no files"),
        (settings(empty.path(), 2), ": the folder is absent or has no files"),
        (settings(Path::new("relative"), 2), "folder: expected an absolute path"),
        (settings(shortened.path(), 2), "nccl-test-results.txt: found 5 bytes with SHA-256"),
        (settings(unreadable.path(), 2), "complete.json: EOF while parsing"),
        (settings(missing.path(), 2), "nccl-test-results.txt: No such file"),
        (settings(whole.path(), 3), "complete.json: 2 nodes ran, but `nodes` is 3"),
        (outside, "file: expected a path below `folder`, such as slurm-17.out; found `../x`"),
        (unknown, ": the folder has no file slurm.out"),
    ];
    for (settings, expected) in cases {
        let why = probe(&settings).await.unwrap_err();
        assert!(why.starts_with("theirs: ") && why.contains(expected), "{why}\nexpected {expected}");
    }
}
