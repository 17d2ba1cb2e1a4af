//! The suite, on BigQuery's stand-in.

use std::{sync::Arc, time::Duration};

use bigquery_standin::{BigQuery as StandIn, Fault, On};
use cloud::storage::CloudStorage;
use judge::conformance::{history, runs};
use storage_standin::{Options as Storage, StandIn as Bucket};
use warehouse::bigquery::{BigQuery, Options};

#[tokio::test]
async fn a_past_in_bigquery() {
    let bucket = Bucket::start(Storage::default()).await.unwrap();
    let bigquery = StandIn::serve(bucket.url()).await.unwrap();
    for table in warehouse::TABLES {
        bigquery.table("p", "burnin", table.name, &table.bigquery()).unwrap();
    }
    let store = Arc::new(CloudStorage::new("bucket", Some(bucket.url().parse().unwrap())));
    let options = Options {
        company: Duration::ZERO,
        every: Duration::ZERO,
        look: Duration::from_millis(5),
        ..Options::default()
    };
    let endpoint = Some(bigquery.endpoint.clone());
    let past = BigQuery::new("p", "burnin", endpoint, store, options);
    for (number, run) in runs().iter().enumerate() {
        past.load(&format!("load-{number}"), run).await.unwrap();
    }
    history(&past).await;
    // The same when answers come in pages, late or not at all.
    bigquery.pages_of(3);
    for fault in [Fault::Slow, Fault::Cut, Fault::LandsAndTears] {
        bigquery.fault(On::Query, fault);
        history(&past).await;
    }
}
