//! Loads that share a job.

use std::time::{Duration, Instant};

use futures::future::join_all;
use ledger::Store;
use warehouse::{Error, Warehouse, bigquery::BigQueryOptions};

use super::{BigQueryBed, MEASUREMENTS, VERDICTS, load, short_waits};

#[tokio::test]
async fn concurrent_loads_share_a_job_for_each_table() {
    let bed = BigQueryBed::new().await;
    let options = BigQueryOptions { wait_for_others: Duration::from_millis(700), ..short_waits() };
    let (one, two) = (bed.warehouse(options.clone()), bed.warehouse(options));
    let loads: Vec<_> =
        (0..24).map(|number| (format!("run-{number}.1"), load(&format!("run-{number}"), 3))).collect();
    let loaded = loads.iter().enumerate().map(|(at, (id, load))| {
        let warehouse = if at % 2 == 0 { &one } else { &two };
        warehouse.load(id, load)
    });
    for loaded in join_all(loaded).await {
        assert_eq!(loaded, Ok(3));
    }
    let counted = bed.count(MEASUREMENTS);
    assert_eq!((counted.len(), counted.values().all(|rows| *rows == 3)), (24, true));
    let jobs = bed.jobs("measurements");
    assert!(jobs.len() <= 3, "24 loads of two loaders share one job per table: {jobs:?}");
    assert_eq!(bed.jobs("verdicts").len(), jobs.len());
}

#[tokio::test]
async fn batches_keep_their_interval_and_a_load_reports_that_it_waits() {
    let bed = BigQueryBed::new().await;
    let options = BigQueryOptions {
        every: Duration::from_secs(3600),
        timeout: Duration::from_secs(2),
        ..short_waits()
    };
    let warehouse = bed.warehouse(options.clone());
    assert_eq!(warehouse.load("a.1", &load("a", 2)).await, Ok(2));
    let begun = Instant::now();
    for warehouse in [&warehouse, &bed.warehouse(options)] {
        let waits = warehouse.load("b.1", &load("b", 2)).await;
        assert!(matches!(&waits, Err(Error::Transient(why)) if why.contains("within 2.0 s")), "{waits:?}");
    }
    assert!(begun.elapsed() >= Duration::from_secs(4));
    assert_eq!(bed.count(VERDICTS).len(), 1);
    // A crash may leave hints of waiting loads: the lifecycle rule of the bucket deletes them.
    let hints = bed.store().list("warehouse/val-prod.burnin/waiting").await.unwrap();
    let folder = hints.first().and_then(|hint| hint.split('/').nth(2)).expect("a hint of the waiting load");
    let rules = include_str!("../../../../infra/storage.tf");
    let line = rules.lines().find(|line| line.contains("for folder in [")).expect("a rule for hints");
    assert!(line.contains(&format!("{folder:?}")), "infra/storage.tf: add {folder:?} to {line}");
    // Another loader whose batch is due includes the waiting loads.
    assert_eq!(bed.warehouse(short_waits()).load("c.1", &load("c", 2)).await, Ok(2));
    assert_eq!(bed.count(VERDICTS).len(), 3);
    assert_eq!(bed.jobs("measurements").len(), 2);
}

#[tokio::test]
async fn no_batch_exceeds_its_maximum_size() {
    let bed = BigQueryBed::new().await;
    let options = BigQueryOptions { wait_for_others: Duration::from_millis(300), most: 4, ..short_waits() };
    let warehouse = bed.warehouse(options);
    let loads: Vec<_> =
        (0..10).map(|number| (format!("run-{number}.1"), load(&format!("run-{number}"), 1))).collect();
    join_all(loads.iter().map(|(id, load)| async { assert_eq!(warehouse.load(id, load).await, Ok(1)) }))
        .await;
    assert_eq!(bed.count(MEASUREMENTS).len(), 10);
    for job in bed.bigquery.jobs().values() {
        assert!(job["configuration"]["load"]["sourceUris"].as_array().unwrap().len() <= 4, "{job}");
    }
}

#[tokio::test]
async fn a_load_is_recognized_by_another_loader() {
    let bed = BigQueryBed::new().await;
    assert_eq!(bed.warehouse(short_waits()).load("a.1", &load("a", 4)).await, Ok(4));
    let other = bed.warehouse(short_waits());
    assert_eq!(
        other.load("a.1", &load("a", 1)).await,
        Ok(4),
        "the first writer of a load decides its content"
    );
    assert_eq!(bed.count(MEASUREMENTS)["a"], 4);
    assert_eq!(bed.bigquery.jobs().len(), 2, "each table has one job");
}

#[tokio::test]
async fn another_loader_continues_the_jobs_of_a_crashed_loader() {
    let bed = BigQueryBed::with_pause(Duration::ZERO).await;
    let warehouse =
        bed.warehouse(BigQueryOptions { wait_for_others: Duration::from_millis(300), ..short_waits() });
    let loads: Vec<_> = ["a", "b", "c"].map(|run| (format!("{run}.1"), load(run, 2))).into();
    join_all(loads.iter().map(|(id, load)| async { assert_eq!(warehouse.load(id, load).await, Ok(2)) }))
        .await;
    let (jobs, store) = (bed.bigquery.jobs().len(), bed.store());
    // A loader crashed after BigQuery finished the job and before the loader recorded the result.
    for unwritten in [&["a"][..], &["b", "c"], &["a", "b", "c"]] {
        for run in unwritten {
            store.remove(&format!("warehouse/val-prod.burnin/loads/{run}.1/end.json")).await.unwrap();
        }
        let another = bed.warehouse(short_waits());
        for (id, load) in &loads {
            assert_eq!(another.load(id, load).await, Ok(2), "{unwritten:?}, {id}");
        }
    }
    assert_eq!(bed.bigquery.jobs().len(), jobs, "no other job was started");
    assert!(bed.count(MEASUREMENTS).values().all(|rows| *rows == 2));
    assert!(bed.count(VERDICTS).values().all(|rows| *rows == 1));
}
