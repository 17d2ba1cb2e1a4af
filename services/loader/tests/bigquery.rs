//! The conformance suites, on BigQuery's stand-in.

use std::{sync::Arc, time::Duration};

use bigquery_standin::{BigQuery as StandIn, Fault, On, engine::Engine};
use gcp::storage::CloudStorage;
use loader::{Load, LoadTarget, WarehouseError, conformance};
use storage_standin::{Options as Storage, StandIn as Bucket};
use warehouse::bigquery::{BigQuery, BigQueryOptions};

/// Both stand-ins and a loader.
async fn bed() -> (Bucket, StandIn, BigQuery) {
    let bucket = Bucket::start(Storage::default()).await.unwrap();
    let bigquery = StandIn::serve(bucket.url()).await.unwrap();
    for table in warehouse::TABLES {
        bigquery.table("p", "burnin", table.name, &table.bigquery()).unwrap();
    }
    let store = Arc::new(CloudStorage::new("bucket", Some(bucket.url().parse().unwrap())));
    let endpoint = Some(bigquery.endpoint.clone());
    let warehouse = BigQuery::new("p", "burnin", endpoint, store, hasty());
    (bucket, bigquery, warehouse)
}

fn hasty() -> BigQueryOptions {
    let (company, every, look) = (Duration::ZERO, Duration::ZERO, Duration::from_millis(5));
    BigQueryOptions { company, every, look, ..BigQueryOptions::default() }
}

#[tokio::test]
async fn the_bigquery_warehouse_conforms() {
    let (_bucket, _bigquery, warehouse) = bed().await;
    conformance::warehouse(&warehouse).await;
}

#[tokio::test]
async fn errors_are_classified_as_transient_or_permanent() {
    let (_bucket, bigquery, warehouse) = bed().await;
    let warehouse: &dyn LoadTarget = &warehouse;
    assert_eq!(warehouse.table(), "p.burnin (tables measurements, verdicts and runs)");
    let load = Load {
        verdicts: vec![loader::VerdictRow { run: "a".into(), ..Default::default() }],
        ..Load::default()
    };
    bigquery.fault(On::Table, Fault::Refused(403));
    assert!(matches!(warehouse.load("a.1", &load).await, Err(WarehouseError::Unavailable(_))));
    let mut twice = load.clone();
    twice.verdicts.extend(load.verdicts.clone());
    assert!(matches!(warehouse.load("a.1", &twice).await, Err(WarehouseError::Refused(_))));
    assert_eq!(warehouse.load("a.1", &load).await.unwrap(), 0);
}

#[tokio::test]
#[ignore = "needs an engine: run .ci/bigquery.sh"]
async fn the_bigquery_warehouse_conforms_on_a_googlesql_engine() {
    let engine = Engine::from_env("loader").unwrap();
    engine.dataset("burnin").await.unwrap();
    for table in warehouse::TABLES {
        engine.table("burnin", table.name, &table.bigquery()).await.unwrap();
    }
    let store = engine.bucket("loader").unwrap();
    let warehouse = BigQuery::new("loader", "burnin", Some(engine.endpoint.clone()), store, hasty());
    conformance::warehouse(&warehouse).await;
}
