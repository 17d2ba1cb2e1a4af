//! `burnin-provisioner`: clusters, brought up and given back. `POST /chores/sweep` is the second door.

use std::{process::ExitCode, sync::Arc};

use cloud::{Local, Place};
use host::Program;
use kit::serve::Chore;
use provisioner::{
    Provisioner, Sweeper,
    processes::{ProcessClusters, gpus},
};
use terms::Span;

struct Config {
    artefacts: Place,
    clusters: Local,
    grace: Span,
    look: Span,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(played) = host::role(&arguments) {
        return cloud::ended("provisioner", played);
    }
    cloud::run(
        "provisioner",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, clusters) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_CLUSTERS"));
            let grace = env.or("BURNIN_SWEEP_GRACE", Span::from_secs(120));
            let look = env.or("BURNIN_LOOK", Span::from_secs(10));
            Some(Config { artefacts: artefacts?, clusters: clusters?, grace: grace?, look: look? })
        },
        |config, wiring| {
            let store = wiring.store(&config.artefacts)?;
            let clusters = host::Clusters::new(config.clusters.0, Program::this()?);
            let clusters = Arc::new(ProcessClusters::new(clusters, Arc::clone(&wiring.clock), gpus()));
            let sweeper: Arc<dyn Chore> = Arc::new(Sweeper::new(clusters.clone(), config.grace));
            let worker = Provisioner::new(clusters, config.look);
            let mut parts = wiring.worker(worker, &Provisioner::TAKES, store);
            parts.chores.push(sweeper);
            Ok(parts)
        },
    )
}
