//! `burnin-loader`: loads measurements into the warehouse.

use std::{process::ExitCode, sync::Arc};

use gcp::{ServiceContext, StartupError, StorageLocation};
use ledger::{Artefacts, Store};
use loader::Loader;
use model::Span;
use warehouse::{
    Sqlite, Warehouse,
    bigquery::{BigQuery, BigQueryOptions},
};

struct Config {
    artefacts: StorageLocation,
    warehouse: warehouse::WarehouseLocation,
    every: Span,
}

fn main() -> ExitCode {
    gcp::run(
        "loader",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, warehouse) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_WAREHOUSE"));
            let every = env.or("BURNIN_BATCH_EVERY", Span(BigQueryOptions::default().every));
            Some(Config { artefacts: artefacts?, warehouse: warehouse?, every: every? })
        },
        |config, context| {
            let store = context.store(&config.artefacts)?;
            let warehouse = warehouse(&config, context, &store)?;
            let loader = Loader::new(Artefacts::new(Arc::clone(&store)), warehouse);
            Ok(context.worker(loader, &Loader::HANDLED_EVENTS, store))
        },
    )
}

fn warehouse(
    config: &Config,
    context: &ServiceContext,
    store: &Arc<dyn Store>,
) -> Result<Arc<dyn Warehouse>, StartupError> {
    match &config.warehouse {
        warehouse::WarehouseLocation::File(path) => Ok(Arc::new(Sqlite::open(path)?)),
        warehouse::WarehouseLocation::BigQuery { project, dataset } => {
            let StorageLocation::Bucket(_) = config.artefacts else {
                return Err("BURNIN_ARTEFACTS: BigQuery loads from a bucket; set gs://NAME".into());
            };
            let endpoint = context.bigquery_emulator.as_ref().map(|emulator| emulator.url().to_owned());
            let options = BigQueryOptions { every: config.every.0, ..BigQueryOptions::default() };
            Ok(Arc::new(BigQuery::new(project, dataset, endpoint, Arc::clone(store), options)))
        }
    }
}
