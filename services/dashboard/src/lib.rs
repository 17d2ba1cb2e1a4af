//! `burnin-dashboard`: read-only pages, deployed separately from the gateway.

#![cfg(feature = "gcp")]

use std::{process::ExitCode, sync::Arc};

use gcp::{ServiceParts, StorageLocation};
use ledger::Ledger;
use pages::{Dashboard, NoPlans};
use run_index::{RefreshIntervals, RunIndex};
use service::{AttributesReader, Disposition, Event, Handler, async_trait, ids, serve::Routes};

struct Config {
    ledger: StorageLocation,
    artefacts: StorageLocation,
    warehouse: String,
}

/// Event handler: the dashboard subscribes to no topic.
struct NoSubscription;

#[async_trait]
impl Handler for NoSubscription {
    async fn handle(&self, event: &Event) -> Disposition {
        // Return a retryable error instead of parking the event, so that the sender is notified of the refusal.
        Disposition::Retry(format!("the dashboard handles no events, found `{}`", event.ty()))
    }
}

pub fn main() -> ExitCode {
    gcp::run_with_routes(
        "dashboard",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (ledger, artefacts) = (env.required("BURNIN_LEDGER"), env.required("BURNIN_ARTEFACTS"));
            let warehouse = env.or("BURNIN_WAREHOUSE", String::new());
            Some(Config { ledger: ledger?, artefacts: artefacts?, warehouse: warehouse? })
        },
        |config, context| {
            let store = context.store(&config.artefacts)?;
            let mut records = context.store(&config.ledger)?;
            if config.ledger != config.artefacts {
                records = Arc::new(ledger::Split::new("open/", Arc::clone(&store), records));
            }
            let ledger = Ledger::new(records, Arc::new(ids::unique));
            let clock = Arc::clone(&context.clock);
            let run_index =
                RunIndex::new(ledger, Arc::clone(&store), Arc::clone(&clock), RefreshIntervals::CLOUD)
                    .reading_only();
            let dashboard = Dashboard {
                run_index: Arc::new(run_index),
                store: Arc::clone(&store),
                plans: Arc::new(NoPlans),
                clock,
                output: None,
                warehouse: config.warehouse,
                beside_gateway: false,
            };
            let routes = Routes { guarded: dashboard.routes(), ..Routes::default() };
            let handler = Arc::new(NoSubscription);
            Ok((
                ServiceParts {
                    handled_events: Vec::new(),
                    handler,
                    dead_letter_store: store,
                    periodic_tasks: Vec::new(),
                },
                routes,
            ))
        },
    )
}
