//! Measures the time to list runs from records in a folder. Run by hand: `cargo test --release -p run-index costs:: -- --ignored --nocapture`.

use std::{sync::Arc, time::Instant};

use crate::support::{ask, cancel, ledger, run};
use ledger::{FolderStore, MemoryStore, Store};
use run_index::{RefreshIntervals, RunFilter, RunIndex};
use service::SystemClock;

const RUNS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints times"]
async fn lists_of_ten_thousand_closed_runs_are_timed() {
    let folder = tempfile::tempdir().unwrap();
    // The ledgers are created in memory, and then written as files without syncing each file to the disk.
    let made: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let records = ledger(Arc::clone(&made));
    let mut files = 0;
    for number in 0..RUNS {
        let run = ask(&records, number).await;
        cancel(&records, &run, number as i64).await;
        for name in made.list(&format!("ledger/{run}/")).await.unwrap() {
            let path = folder.path().join(&name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, made.read(&name).await.unwrap().unwrap()).unwrap();
            files += 1;
        }
    }
    let store: Arc<dyn Store> = Arc::new(FolderStore::open(folder.path()).unwrap());
    let run_index = || {
        RunIndex::new(
            ledger(Arc::clone(&store)),
            Arc::clone(&store),
            Arc::new(SystemClock),
            RefreshIntervals::LOCAL,
        )
    };
    let wanted = RunFilter::default();
    for what in ["first fold of all runs", "cold start", "second cold start"] {
        let run_index = run_index();
        let started = Instant::now();
        assert_eq!(run_index.page(&wanted).await.unwrap().runs[0].run, run(RUNS - 2));
        println!("{what}, {RUNS} runs with {files} records: {:?}", started.elapsed());
        let mut warm: Vec<_> = Vec::new();
        for _ in 0..30 {
            tokio::time::sleep(RefreshIntervals::LOCAL.max_age.0).await;
            let started = Instant::now();
            run_index.page(&wanted).await.unwrap();
            warm.push(started.elapsed());
        }
        warm.sort();
        println!("  a first page from memory after a refresh: median {:?}, slowest {:?}", warm[15], warm[29]);
    }
}
