//! Each failure of a request or load job, alone.

use std::time::Duration;

use bigquery_standin::{Fault, FaultTarget};
use futures::future::join_all;
use warehouse::{Error, MeasurementRow, Warehouse, bigquery::BigQueryOptions};

use super::{BigQueryBed, MEASUREMENTS, METRICS, VERDICTS, load, load_of_metrics, short_waits};

#[tokio::test]
async fn a_lost_response_creates_no_second_job() {
    for fault in [
        Fault::Refused(503),
        Fault::Refused(429),
        Fault::Cut,
        Fault::LandsAndAnswers(503),
        Fault::LandsAndTears,
        Fault::Late(Duration::from_millis(200)),
    ] {
        let bed = BigQueryBed::new().await;
        for on in [FaultTarget::Insert, FaultTarget::Get, FaultTarget::Table] {
            bed.bigquery.fault(on, fault.clone());
        }
        assert_eq!(bed.warehouse(short_waits()).load("a.1", &load("a", 3)).await, Ok(3), "{fault:?}");
        assert_eq!(bed.count(MEASUREMENTS)["a"], 3, "{fault:?}");
        assert_eq!(bed.bigquery.jobs().len(), 2, "{fault:?}: {:?}", bed.bigquery.jobs().keys());
    }
}

#[tokio::test]
async fn a_failed_job_is_retried_under_another_id() {
    let bed = BigQueryBed::new().await;
    for reason in ["backendError", "rateLimitExceeded"] {
        bed.bigquery.fault(FaultTarget::Job, Fault::Fails(reason));
    }
    assert_eq!(bed.warehouse(short_waits()).load("a.1", &load("a", 3)).await, Ok(3));
    let jobs = bed.jobs("measurements");
    let ends: Vec<_> = jobs.iter().map(|(_, end)| end.as_str()).collect();
    assert_eq!(ends, ["backendError", "rateLimitExceeded", ""], "{jobs:?}");
    for (attempt, (id, _)) in jobs.iter().enumerate() {
        assert!(id.starts_with("burnin_measurements_1_") && id.ends_with(&format!("_{attempt}")), "{id}");
    }
    assert_eq!(bed.count(MEASUREMENTS)["a"], 3);
    assert_eq!(bed.count(VERDICTS)["a"], 1);
}

#[tokio::test]
async fn a_successor_waits_before_retrying_a_failed_job() {
    let bed = BigQueryBed::new().await;
    bed.bigquery.quota(0);
    let options =
        BigQueryOptions { again: Duration::from_secs(60), timeout: Duration::from_secs(2), ..short_waits() };
    for _ in 0..3 {
        let result = bed.warehouse(options.clone()).load("a.1", &load("a", 3)).await;
        assert!(matches!(&result, Err(Error::Transient(why)) if why.contains("quotaExceeded")), "{result:?}");
    }
    assert_eq!(bed.jobs("measurements").len(), 1, "no job is created during the pause after a failed job");
    bed.bigquery.clear_faults();
    assert_eq!(bed.warehouse(short_waits()).load("a.1", &load("a", 3)).await, Ok(3));
}

#[tokio::test]
async fn only_loads_with_invalid_rows_are_rejected() {
    let bed = BigQueryBed::new().await;
    bed.bigquery.reject_rows_with("the rejected text");
    let warehouse =
        bed.warehouse(BigQueryOptions { wait_for_others: Duration::from_millis(300), ..short_waits() });
    let mut loads: Vec<_> =
        (0..9).map(|number| (format!("run-{number}.1"), load(&format!("run-{number}"), 2))).collect();
    loads[4].1.rows[1].log = "the rejected text".to_owned();
    loads[7].1.verdicts[0].reasons = "the rejected text".to_owned();
    let ends = join_all(loads.iter().map(|(id, load)| warehouse.load(id, load))).await;
    for (number, end) in ends.iter().enumerate() {
        match number {
            4 | 7 => assert!(
                matches!(end, Err(Error::Permanent(why)) if why.contains("an unknown reason")),
                "{number}: {end:?}"
            ),
            _ => assert_eq!(*end, Ok(2), "{number}"),
        }
    }
    let (measured, judged) = (bed.count(MEASUREMENTS), bed.count(VERDICTS));
    assert!(
        !measured.contains_key("run-4") && !judged.contains_key("run-4") && !judged.contains_key("run-7")
    );
    assert_eq!((judged.len(), judged.values().all(|rows| *rows == 1)), (7, true));
    assert!(judged.keys().all(|run| measured[run] == 2), "{measured:?}");
    // Another loader returns the same error for a rejected load, without a new load job.
    let (jobs, other) = (bed.bigquery.jobs().len(), bed.warehouse(short_waits()));
    assert!(matches!(other.load(&loads[4].0, &loads[4].1).await, Err(Error::Permanent(_))));
    assert_eq!(bed.bigquery.jobs().len(), jobs);
}

#[tokio::test]
async fn invalid_rows_are_rejected_before_batching() {
    let bed = BigQueryBed::new().await;
    let warehouse = bed.warehouse(short_waits());
    let of = |change: &dyn Fn(&mut MeasurementRow)| {
        let mut load = load("a", 2);
        change(&mut load.rows[1]);
        load
    };
    for (what, bad) in [
        (
            "size_bytes: 18446744073709551615 is not a signed 64-bit integer",
            of(&|row| row.size_bytes = u64::MAX),
        ),
        ("busbw: a value is required", of(&|row| row.busbw = f64::NAN)),
        ("busbw: a value is required", of(&|row| row.busbw = f64::INFINITY)),
        ("duplicate row", of(&|row| row.row_number = 0)),
        ("requested_at", of(&|row| row.requested_at = Some(model::Timestamp::from_millis(i64::MAX)))),
        (
            "requested_at",
            of(&|row| row.requested_at = Some(model::Timestamp::from_millis(300_000_000_000_000))),
        ),
    ] {
        let refused = warehouse.load("a.1", &bad).await;
        assert!(matches!(&refused, Err(Error::Permanent(why)) if why.contains(what)), "{what}: {refused:?}");
    }
    for id in ["", "a/b", "a*", "../a", "a b", "é"] {
        assert!(matches!(warehouse.load(id, &load("a", 1)).await, Err(Error::Permanent(_))), "{id}");
    }
    assert!(bed.bigquery.jobs().is_empty());
    assert_eq!(warehouse.load("a.1", &load("a", 2)).await, Ok(2), "a rejected load is not recorded");
}

#[tokio::test]
async fn a_missing_column_is_reported_without_rejecting_loads() {
    let bed = BigQueryBed::new().await;
    let mut schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../schemas/bigquery/verdicts.json")).unwrap();
    schema.as_array_mut().unwrap().retain(|column| column["name"] != "baseline");
    bed.bigquery.table("val-prod", "older", "verdicts", &schema).unwrap();
    let endpoint = Some(bed.bigquery.endpoint.clone());
    for (dataset, expected) in [
        ("older", "table val-prod.older.verdicts has no column baseline for STRING"),
        ("nowhere", "404: Not found: Table val-prod:nowhere.verdicts"),
    ] {
        let store = std::sync::Arc::new(ledger::MemoryStore::default());
        let warehouse =
            warehouse::bigquery::BigQuery::new("val-prod", dataset, endpoint.clone(), store, short_waits());
        let end = warehouse.load("a.1", &load("a", 1)).await;
        assert!(matches!(&end, Err(Error::Transient(why)) if why.contains(expected)), "{end:?}");
    }
    assert!(bed.bigquery.jobs().is_empty());
}

#[tokio::test]
async fn a_batch_of_an_older_rules_version_is_continued() {
    let bed = BigQueryBed::new().await;
    let batch = r#"{"rules":1,"number":1,"made_at":0,"loads":[]}"#;
    bed.bucket.put(super::BUCKET, "warehouse/val-prod.burnin/batches/0000000001.json", batch);
    assert_eq!(bed.warehouse(short_waits()).load("a.1", &load("a", 1)).await, Ok(1));
}

#[tokio::test]
async fn a_batch_of_a_newer_rules_version_is_not_processed() {
    let bed = BigQueryBed::new().await;
    let batch = r#"{"rules":5,"number":1,"made_at":0,"loads":[]}"#;
    bed.bucket.put(super::BUCKET, "warehouse/val-prod.burnin/batches/0000000001.json", batch);
    let result = bed.warehouse(short_waits()).load("a.1", &load("a", 1)).await;
    assert!(matches!(&result, Err(Error::Transient(why)) if why.contains("a newer loader")), "{result:?}");
    assert!(bed.bigquery.jobs().is_empty());
}

#[tokio::test]
async fn metrics_are_loaded_once_and_before_the_verdict() {
    let bed = BigQueryBed::new().await;
    // The first job of the table `metrics` fails, and all its calls are repeated by another loader.
    bed.bigquery.fault(FaultTarget::Job, Fault::Fails("backendError"));
    for _ in 0..2 {
        assert_eq!(bed.warehouse(short_waits()).load("a.c2a1", &load_of_metrics("a", 5)).await, Ok(5));
    }
    assert_eq!((bed.count(METRICS)["a"], bed.count(VERDICTS)["a"]), (5, 1));
    let ends: Vec<_> = bed.jobs("metrics").into_iter().map(|(_, end)| end).collect();
    assert_eq!(ends, ["backendError", ""], "the failed job wrote no row");
    assert_eq!(bed.jobs("verdicts").len(), 1);
}

#[tokio::test]
async fn metrics_that_bigquery_would_store_twice_are_rejected_beforehand() {
    let bed = BigQueryBed::new().await;
    let mut twice = load_of_metrics("a", 2);
    twice.metrics[1].metric_number = 0;
    let refused = bed.warehouse(short_waits()).load("a.c2a1", &twice).await;
    assert!(matches!(&refused, Err(Error::Permanent(why)) if why.contains("metrics")), "{refused:?}");
    assert!(bed.bigquery.jobs().is_empty());
}
