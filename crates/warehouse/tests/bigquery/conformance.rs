//! The conformance suite, on BigQuery's stand-in and on an engine.

use bigquery_standin::{Fault, FaultTarget, engine::Engine};
use warehouse::{Error, Load, VerdictRow, Warehouse, bigquery::BigQuery, conformance};

use crate::{BigQueryBed, short_waits};

#[tokio::test]
async fn the_bigquery_warehouse_conforms() {
    let bed = BigQueryBed::new().await;
    conformance::loads(&*bed.warehouse(short_waits())).await;
    let bed = BigQueryBed::new().await;
    let warehouse = bed.warehouse(short_waits());
    conformance::history(&*warehouse).await;
    // Repeat the suite with paged, late and lost responses.
    bed.bigquery.pages_of(3);
    for fault in [Fault::Slow, Fault::Cut, Fault::LandsAndTears] {
        bed.bigquery.fault(FaultTarget::Query, fault);
        conformance::history(&*warehouse).await;
    }
}

#[tokio::test]
async fn errors_are_classified_as_transient_or_permanent() {
    let bed = BigQueryBed::new().await;
    let warehouse = bed.warehouse(short_waits());
    assert_eq!(
        warehouse.table(),
        "val-prod.burnin (tables measurements, metrics, findings, node_results, verdicts and runs)"
    );
    let load =
        Load { verdicts: vec![VerdictRow { run: "a".into(), ..VerdictRow::default() }], ..Load::default() };
    bed.bigquery.fault(FaultTarget::Table, Fault::Refused(403));
    assert!(matches!(warehouse.load("a.1", &load).await, Err(Error::Transient(_))));
    let mut twice = load.clone();
    twice.verdicts.extend(load.verdicts.clone());
    assert!(matches!(warehouse.load("a.1", &twice).await, Err(Error::Permanent(_))));
    assert_eq!(warehouse.load("a.1", &load).await.unwrap(), 0);
}

#[tokio::test]
#[ignore = "needs an engine: run .ci/bigquery.sh"]
async fn the_bigquery_warehouse_conforms_on_a_googlesql_engine() {
    for project in ["loads", "history"] {
        let engine = Engine::from_env(project).unwrap();
        engine.dataset("burnin").await.unwrap();
        for table in warehouse::TABLES {
            engine.table("burnin", table.name, &table.bigquery()).await.unwrap();
        }
        let store = engine.bucket(project).unwrap();
        let warehouse = BigQuery::new(project, "burnin", Some(engine.endpoint.clone()), store, short_waits());
        match project {
            "loads" => conformance::loads(&warehouse).await,
            _ => conformance::history(&warehouse).await,
        }
    }
}
