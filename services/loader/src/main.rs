//! `burnin-loader`: measurements into the warehouse.

use std::{process::ExitCode, sync::Arc};

use cloud::{Local, Place};
use ledger::Artefacts;
use loader::Loader;
use warehouse::Sqlite;

struct Config {
    artefacts: Place,
    warehouse: Local,
}

fn main() -> ExitCode {
    cloud::run(
        "loader",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, warehouse) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_WAREHOUSE"));
            Some(Config { artefacts: artefacts?, warehouse: warehouse? })
        },
        |config, wiring| {
            let store = wiring.store(&config.artefacts)?;
            let warehouse = Arc::new(Sqlite::open(&config.warehouse.0)?);
            let loader = Loader::new(Artefacts::new(Arc::clone(&store)), warehouse);
            Ok(wiring.worker(loader, &Loader::TAKES, store))
        },
    )
}
