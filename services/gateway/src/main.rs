//! `burnin-gateway`: API, webhooks, schedules and polling.

use std::{process::ExitCode, str::FromStr, sync::Arc};

use gateway::{Catalogue, Gateway, GatewaySetup, HANDLED_EVENTS, HttpRefs, Rates, WebhookSecrets};
use gcp::{ServiceParts, StorageLocation};
use ledger::{Ledger, Split};
use run_index::{RefreshIntervals, RunIndex};
use service::{Handler, ids};

struct Config {
    ledger: StorageLocation,
    artefacts: StorageLocation,
    workflows: StorageLocation,
    warehouse: String,
    /// Source of clusters, with the same value as for the provisioner; empty: a folder of this host.
    clusters: String,
    rates: Rates,
    secrets: WebhookSecrets,
    token: Option<String>,
    serves: Serves,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    Everything,
    /// Serves only webhooks, for a public address.
    Hooks,
}

impl FromStr for Serves {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "everything" => Ok(Self::Everything),
            "hooks" => Ok(Self::Hooks),
            _ => Err("expected everything or hooks"),
        }
    }
}

fn main() -> ExitCode {
    gcp::run_with_routes(
        "gateway",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (ledger, artefacts) = (env.required("BURNIN_LEDGER"), env.required("BURNIN_ARTEFACTS"));
            let (workflows, rates) = (env.required("BURNIN_WORKFLOWS"), env.or("BURNIN_RATES", Rates::USUAL));
            let secrets = env.or("BURNIN_GITHUB_SECRETS", WebhookSecrets::default());
            let warehouse = env.or("BURNIN_WAREHOUSE", String::new());
            let clusters = env.or("BURNIN_CLUSTERS", String::new());
            let token = env.optional("BURNIN_GIT_TOKEN");
            let serves = env.or("BURNIN_SERVES", Serves::Everything);
            Some(Config {
                ledger: ledger?,
                artefacts: artefacts?,
                workflows: workflows?,
                warehouse: warehouse?,
                clusters: clusters?,
                rates: rates?,
                secrets: secrets?,
                token: token?,
                serves: serves?,
            })
        },
        |config, context| {
            let store = context.store(&config.artefacts)?;
            let mut records = context.store(&config.ledger)?;
            if config.ledger != config.artefacts {
                records = Arc::new(Split::new("open/", Arc::clone(&store), records));
            }
            let ledger = Ledger::new(records, Arc::new(ids::unique));
            let catalogue = match &config.workflows {
                StorageLocation::Folder(folder) => Catalogue::folder(folder),
                bucket @ StorageLocation::Bucket(_) => {
                    Catalogue::bucket(context.store(bucket)?, "workflows/")
                }
            };
            let catalogue =
                if config.clusters.starts_with("cloud-build:") { catalogue.deployed() } else { catalogue };
            let clock = Arc::clone(&context.clock);
            let run_index = RunIndex::new(
                ledger.clone(),
                Arc::clone(&store),
                Arc::clone(&clock),
                RefreshIntervals::CLOUD,
            );
            let gateway = Gateway::new(GatewaySetup {
                ledger,
                store: Arc::clone(&store),
                run_index: Arc::new(run_index),
                catalogue,
                bus: Arc::clone(&context.bus),
                clock,
                rates: config.rates,
                secrets: config.secrets,
                refs: Arc::new(HttpRefs::new(config.token)?),
                warehouse: config.warehouse,
            });
            let routes = match config.serves {
                Serves::Everything => gateway.routes(),
                Serves::Hooks => gateway.hooks_alone(),
            };
            let periodic_tasks = gateway.periodic_tasks();
            let handler: Arc<dyn Handler> = gateway;
            Ok((
                ServiceParts {
                    handled_events: HANDLED_EVENTS.to_vec(),
                    handler,
                    dead_letter_store: store,
                    periodic_tasks,
                },
                routes,
            ))
        },
    )
}
