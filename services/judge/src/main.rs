//! `burnin-judge`: logs to a verdict.

use std::{process::ExitCode, sync::Arc};

use cloud::{Local, Place};
use judge::Judge;
use ledger::Artefacts;
use warehouse::Sqlite;

struct Config {
    artefacts: Place,
    warehouse: Local,
}

fn main() -> ExitCode {
    cloud::run(
        "judge",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, warehouse) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_WAREHOUSE"));
            Some(Config { artefacts: artefacts?, warehouse: warehouse? })
        },
        |config, wiring| {
            let store = wiring.store(&config.artefacts)?;
            let warehouse = Arc::new(Sqlite::open(&config.warehouse.0)?);
            let judge = Judge::new(Artefacts::new(Arc::clone(&store)), warehouse);
            Ok(wiring.worker(judge, &Judge::TAKES, store))
        },
    )
}
