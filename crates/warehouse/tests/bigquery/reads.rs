//! Rows, history and past values, read back from BigQuery.

use bigquery_standin::{Fault, FaultTarget};
use model::{Timestamp, Verdict};
use warehouse::{Error, MeasurementRow, PastQuery, VerdictRow, Warehouse};

use super::{BigQueryBed, load, short_waits};

#[tokio::test]
async fn every_cell_is_read_back_unchanged() {
    let bed = BigQueryBed::new().await;
    let warehouse = bed.warehouse(short_waits());
    let mut given = load("a", 2);
    given.rows[0] = MeasurementRow {
        workflow: "'; DROP TABLE runs; -- `\" \\ \n é 🦀 @run".into(),
        collective: Some(String::new()),
        ranks: Some(u32::MAX),
        size_bytes: i64::MAX.unsigned_abs(),
        time_us: f64::MIN_POSITIVE,
        algbw: -0.1 - 0.2,
        busbw: 1e300,
        wrong: None,
        requested_at: Some(Timestamp::from_millis(-1)),
        verdict: Some(Verdict::Inconclusive),
        fingerprint: Some(r#"{"nccl":"2.28.9"}"#.into()),
        ..given.rows[0].clone()
    };
    given.verdicts[0] = VerdictRow {
        requested_at: Some(Timestamp::from_millis(1_763_600_000_123)),
        reasons: "TRUNCATED,UNCHECKED".to_owned(),
        verdict: None,
        ..given.verdicts[0].clone()
    };
    warehouse.load("a.1", &given).await.unwrap();
    assert_eq!(warehouse.rows("a").await.unwrap(), given.rows);
    assert_eq!(warehouse.verdicts("a").await.unwrap(), given.verdicts);
    assert_eq!(warehouse.rows("' OR '1' = '1").await.unwrap(), []);
}

#[tokio::test]
async fn query_results_are_complete_after_slow_lost_or_paged_responses() {
    let bed = BigQueryBed::new().await;
    let warehouse = bed.warehouse(short_waits());
    let given = load("a", 30);
    warehouse.load("a.1", &given).await.unwrap();
    bed.bigquery.pages_of(7);
    for fault in
        [Fault::Slow, Fault::Refused(503), Fault::LandsAndTears, Fault::Cut, Fault::LandsAndAnswers(503)]
    {
        bed.bigquery.fault(FaultTarget::Query, fault.clone());
        bed.bigquery.fault(FaultTarget::Get, if fault == Fault::Slow { Fault::Cut } else { fault.clone() });
        assert_eq!(warehouse.rows("a").await.unwrap(), given.rows, "{fault:?}");
    }
}

#[tokio::test]
async fn rejections_are_reported() {
    let bed = BigQueryBed::new().await;
    let warehouse = bed.warehouse(short_waits());
    bed.bigquery.fault(FaultTarget::Query, Fault::Refused(403));
    let wanted = PastQuery {
        workflow: "w".to_owned(),
        identity: "i".to_owned(),
        before: Timestamp::from_millis(0),
        oldest: 1,
        newest: 1,
        measured: Default::default(),
    };
    let error = warehouse.past(&wanted).await.unwrap_err();
    assert_eq!(error, Error::Transient("BigQuery answered 403: injected fault".to_owned()));
    assert_eq!(warehouse.past(&wanted).await.unwrap(), []);
    assert_eq!(
        warehouse.table(),
        "val-prod.burnin (tables measurements, metrics, findings, node_results, verdicts and runs)"
    );
}
