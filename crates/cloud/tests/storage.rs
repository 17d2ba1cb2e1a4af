//! The store on Cloud Storage, against the stand-in.

use std::{sync::Arc, time::Duration};

use cloud::storage::{CloudStorage, Patience};
use ledger::conformance;
use storage_standin::{Options, StandIn};

const BUCKET: &str = "bucket";

/// Much less patient than towards Google: what stalls here stalls for good.
fn patience() -> Patience {
    Patience {
        attempt: Duration::from_millis(400),
        total: Duration::from_secs(4),
        look: Duration::from_millis(400),
        stream: Duration::from_secs(4),
    }
}

async fn standin(pause: Duration) -> StandIn {
    StandIn::start(Options { pause, ..Options::default() }).await.unwrap()
}

fn store(standin: &StandIn) -> Arc<CloudStorage> {
    Arc::new(CloudStorage::with_patience(BUCKET, Some(standin.url().parse().unwrap()), patience()))
}

#[tokio::test]
async fn it_does_what_every_store_does() {
    for pause in [Duration::ZERO, Duration::from_secs(1)] {
        conformance::store(store(&standin(pause).await)).await;
        conformance::ledger(store(&standin(pause).await)).await;
    }
}
