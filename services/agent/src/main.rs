//! `burnin-agent`: runs benchmarks on a cluster and collects their logs.

use std::{process::ExitCode, sync::Arc};

use agent::Agent;
use clusters::Schedulers;
use gcp::StorageLocation;
use ledger::Artefacts;
use model::Span;

struct Config {
    artefacts: StorageLocation,
    look: Span,
}

fn main() -> ExitCode {
    gcp::run(
        "agent",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, look) =
                (env.required("BURNIN_ARTEFACTS"), env.or("BURNIN_LOOK", Span::from_secs(10)));
            Some(Config { artefacts: artefacts?, look: look? })
        },
        |config, context| {
            let store = context.store(&config.artefacts)?;
            let scheduler = Arc::new(Schedulers::new(&store));
            let agent = Agent::new(scheduler, Artefacts::new(Arc::clone(&store)), config.look);
            Ok(context.worker(agent, &Agent::TAKES, store))
        },
    )
}
