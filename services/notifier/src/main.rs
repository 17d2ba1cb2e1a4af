//! `burnin-notifier`: sends notices about runs to channels, and statuses to commits.

use std::{process::ExitCode, sync::Arc};

use gcp::{AbsolutePath, ServiceParts, StorageLocation};
use ledger::{Ledger, Split};
use notifier::{
    HANDLED_EVENTS, Notifier, NotifierSetup, RunLink,
    secrets::Secrets,
    senders::{GithubApi, HttpSender},
};
use service::{Handler, ids};

struct Config {
    ledger: StorageLocation,
    artefacts: StorageLocation,
    channels: Option<AbsolutePath>,
    github: GithubApi,
    link: Option<RunLink>,
}

fn main() -> ExitCode {
    gcp::run(
        "notifier",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (ledger, artefacts) = (env.required("BURNIN_LEDGER"), env.required("BURNIN_ARTEFACTS"));
            let (channels, link) = (env.optional("BURNIN_CHANNELS"), env.optional("BURNIN_LINK"));
            let github = env.or("BURNIN_GITHUB_API", GithubApi::default());
            Some(Config {
                ledger: ledger?,
                artefacts: artefacts?,
                channels: channels?,
                github: github?,
                link: link?,
            })
        },
        |config, context| {
            let store = context.store(&config.artefacts)?;
            let mut records = context.store(&config.ledger)?;
            if config.ledger != config.artefacts {
                records = Arc::new(Split::new("open/", Arc::clone(&store), records));
            }
            let secrets = Secrets::of_process(config.channels.map(|AbsolutePath(folder)| folder));
            let sender = HttpSender::new(secrets, config.github, Arc::clone(&context.clock));
            let notifier = Notifier::new(NotifierSetup {
                ledger: Ledger::new(records, Arc::new(ids::unique)),
                store: Arc::clone(&store),
                sender: Arc::new(sender),
                bus: Arc::clone(&context.bus),
                clock: Arc::clone(&context.clock),
                link: config.link,
            });
            let periodic_tasks = notifier.periodic_tasks();
            let handler: Arc<dyn Handler> = notifier;
            Ok(ServiceParts {
                handled_events: HANDLED_EVENTS.to_vec(),
                handler,
                dead_letter_store: store,
                periodic_tasks,
            })
        },
    )
}
