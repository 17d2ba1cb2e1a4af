//! `burnin-judge`: judges logs.

use std::{process::ExitCode, sync::Arc};

use gcp::StorageLocation;
use judge::Judge;
use ledger::Artefacts;
use warehouse::{
    Sqlite, Warehouse,
    bigquery::{BigQuery, BigQueryOptions},
};

struct Config {
    artefacts: StorageLocation,
    warehouse: warehouse::WarehouseLocation,
}

fn main() -> ExitCode {
    gcp::run(
        "judge",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, warehouse) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_WAREHOUSE"));
            Some(Config { artefacts: artefacts?, warehouse: warehouse? })
        },
        |config, context| {
            let store = context.store(&config.artefacts)?;
            let history: Arc<dyn Warehouse> = match &config.warehouse {
                warehouse::WarehouseLocation::File(path) => Arc::new(Sqlite::open(path)?),
                warehouse::WarehouseLocation::BigQuery { project, dataset } => {
                    let endpoint =
                        context.bigquery_emulator.as_ref().map(|emulator| emulator.url().to_owned());
                    // The judge only reads the warehouse, and reads do not use the bucket.
                    let store = Arc::clone(&store);
                    Arc::new(BigQuery::new(project, dataset, endpoint, store, BigQueryOptions::default()))
                }
            };
            let judge = Judge::new(Artefacts::new(Arc::clone(&store)), history);
            Ok(context.worker(judge, &Judge::HANDLED_EVENTS, store))
        },
    )
}
