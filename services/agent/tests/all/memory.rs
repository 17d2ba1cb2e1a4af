//! Memory of the collection of a large file into a folder: at most 64 MiB. To run it with another size, in GiB:
//! `COLLECT_GIB=6 cargo test --release -p agent --test memory -- --nocapture`.
//!
//! A separate test binary, so that the peak memory is this test's.

use std::{fs, io::Write, path::Path, sync::Arc, time::Instant};

use agent::{CollectLimits, Collector};
use cluster_local::LocalJobs;
use ledger::{Artefacts, FolderStore, MemoryStore};
use model::{Attempt, Cluster, CommandId, Fact, JobRef, Stage, Verb};
use redact::Rules;

fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_log_is_collected_in_constant_memory() {
    let root = tempfile::tempdir().unwrap();
    let id = CommandId {
        run: "a-run".parse().unwrap(),
        stage: Stage::Logs,
        attempt: Attempt::FIRST,
        verb: Verb::Start,
    };
    let job = CommandId { stage: Stage::Job, ..id.clone() }.resource_name();
    let folder = supervisor::JobFolder::at(root.path()).output_folder(&job);
    fs::create_dir_all(&folder).unwrap();
    let gib: u64 = std::env::var("COLLECT_GIB").map_or(0, |gib| gib.parse().unwrap());
    let size = if gib == 0 { 32 << 20 } else { gib << 30 };
    write(&folder.join("flood.log"), size);
    for number in 0..1000 {
        fs::write(folder.join(format!("{number}.log")), format!("small {number}\n")).unwrap();
    }
    let rules = Rules::new((0..30).map(|number| format!("known-secret-value/{number}+")));
    let limits =
        CollectLimits { file_bytes: if gib == 0 { 24 << 20 } else { 5 << 30 }, ..CollectLimits::default() };
    let collector = Collector {
        scheduler: Arc::new(LocalJobs::new(Arc::new(MemoryStore::default()))),
        artefacts: Artefacts::new(Arc::new(FolderStore::open(root.path().join("bucket")).unwrap())),
        rules: Arc::new(rules.unwrap()),
        limits,
    };
    let cluster = Cluster {
        name: "c".into(),
        nodes: vec![],
        access: model::ClusterAccess::processes(&root.path().display().to_string()),
    };
    let jobs = [JobRef { attempt: Attempt::FIRST, handle: None }];
    let started = Instant::now();
    let Fact::LogsCollected(logs) = collector.collect(&id, &cluster, &jobs).await.unwrap() else {
        panic!("collected nothing")
    };
    println!(
        "{} MB in {:?}, at most {} MiB of memory",
        logs.size_bytes / 1_000_000,
        started.elapsed(),
        peak_mib()
    );
    assert_eq!(logs.objects, 1001);
    assert!(logs.size_bytes.abs_diff(limits.file_bytes) < 1 << 20, "{}", logs.size_bytes);
    assert!(peak_mib() <= 64, "{} MiB", peak_mib());
}

fn write(path: &Path, size: u64) {
    let line = "node-3:4711:4833 [5] NCCL INFO Channel 07/0 : 5[5] -> 6[6] via P2P/CUMEM/read comm 0x55d0c1f2e3a0 x_token=abc\n";
    let block = line.repeat(9000);
    let mut file = fs::File::create(path).unwrap();
    for _ in 0..size / block.len() as u64 {
        file.write_all(block.as_bytes()).unwrap();
    }
}
