//! `burnin-builder`: images.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use builder::{Builder, local::LocalBuilds};
use cloud::Place;
use host::Program;
use terms::Span;

struct Config {
    artefacts: Place,
    builds: PathBuf,
    secrets: Option<PathBuf>,
    look: Span,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(played) = host::role(&arguments) {
        return cloud::ended("builder", played);
    }
    cloud::run(
        "builder",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, builds) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_BUILDS"));
            let (secrets, look) =
                (env.optional("BURNIN_SECRETS"), env.or("BURNIN_LOOK", Span::from_secs(10)));
            Some(Config { artefacts: artefacts?, builds: builds?, secrets: secrets?, look: look? })
        },
        |config, wiring| {
            let store = wiring.store(&config.artefacts)?;
            let builds = host::Builds::new(config.builds, Program::this()?);
            let builds = LocalBuilds::new(builds, Arc::clone(&store), config.secrets);
            Ok(wiring.worker(Builder::new(Arc::new(builds), config.look), &Builder::TAKES, store))
        },
    )
}
