//! `burnin-agent`: runs benchmarks on a cluster and collects their logs.

use std::{process::ExitCode, sync::Arc};

use agent::Agent;
use clusters::Schedulers;
use gcp::StorageLocation;
use ledger::Artefacts;
use model::Span;

struct Config {
    artefacts: StorageLocation,
    poll_interval: Span,
}

fn main() -> ExitCode {
    gcp::run(
        "agent",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, poll_interval) =
                (env.required("BURNIN_ARTEFACTS"), env.or("BURNIN_LOOK", Span::from_secs(10)));
            Some(Config { artefacts: artefacts?, poll_interval: poll_interval? })
        },
        |config, context| {
            let store = context.store(&config.artefacts)?;
            let scheduler = Arc::new(Schedulers::new(&store));
            let agent = Agent::new(scheduler, Artefacts::new(Arc::clone(&store)), config.poll_interval);
            Ok(context.worker(agent, &Agent::HANDLED_EVENTS, store))
        },
    )
}
