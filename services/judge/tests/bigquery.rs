//! The conformance suite, on BigQuery's stand-in.

use std::{sync::Arc, time::Duration};

use bigquery_standin::{BigQuery as StandIn, Fault, On, engine::Engine};
use gcp::storage::CloudStorage;
use judge::conformance::{history, runs};
use storage_standin::{Options as Storage, StandIn as Bucket};
use warehouse::bigquery::{BigQuery, BigQueryOptions};

fn hasty() -> BigQueryOptions {
    let (company, every, look) = (Duration::ZERO, Duration::ZERO, Duration::from_millis(5));
    BigQueryOptions { company, every, look, ..BigQueryOptions::default() }
}

async fn filled(past: &BigQuery) {
    for (number, run) in runs().iter().enumerate() {
        past.load(&format!("load-{number}"), run).await.unwrap();
    }
}

#[tokio::test]
async fn the_bigquery_history_conforms() {
    let bucket = Bucket::start(Storage::default()).await.unwrap();
    let bigquery = StandIn::serve(bucket.url()).await.unwrap();
    for table in warehouse::TABLES {
        bigquery.table("p", "burnin", table.name, &table.bigquery()).unwrap();
    }
    let store = Arc::new(CloudStorage::new("bucket", Some(bucket.url().parse().unwrap())));
    let endpoint = Some(bigquery.endpoint.clone());
    let past = BigQuery::new("p", "burnin", endpoint, store, hasty());
    filled(&past).await;
    history(&past).await;
    // The same when answers come in pages, late or not at all.
    bigquery.pages_of(3);
    for fault in [Fault::Slow, Fault::Cut, Fault::LandsAndTears] {
        bigquery.fault(On::Query, fault);
        history(&past).await;
    }
}

#[tokio::test]
#[ignore = "needs an engine: run .ci/bigquery.sh"]
async fn the_bigquery_history_conforms_on_a_googlesql_engine() {
    let engine = Engine::from_env("judge").unwrap();
    engine.dataset("burnin").await.unwrap();
    for table in warehouse::TABLES {
        engine.table("burnin", table.name, &table.bigquery()).await.unwrap();
    }
    let store = engine.bucket("judge").unwrap();
    let past = BigQuery::new("judge", "burnin", Some(engine.endpoint.clone()), store, hasty());
    filled(&past).await;
    history(&past).await;
}
