//! `burnin-conductor`: the only writer of the ledger. `POST /chores/tick` wakes every open run; `POST /agent-facts` receives the facts of
//! agents.

use std::{process::ExitCode, sync::Arc};

use conductor::{AGENT_FACTS, AgentFacts, Conductor, WakeSettings, handled_events};
use gcp::{ServiceParts, StorageLocation};
use ledger::{Ledger, Split};
use model::Span;
use service::{
    Handler, async_trait, ids,
    serve::{PeriodicTask, Routes},
};

struct Config {
    ledger: StorageLocation,
    hints: Option<StorageLocation>,
    resend: Span,
}

struct Tick(Arc<Conductor>);

#[async_trait]
impl PeriodicTask for Tick {
    fn name(&self) -> &'static str {
        "tick"
    }

    async fn run(&self) -> Result<(), String> {
        self.0.tick().await.map_err(|error| service::worker::chain(&error))
    }
}

fn main() -> ExitCode {
    gcp::run_with_routes(
        "conductor",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (ledger, hints) = (env.required("BURNIN_LEDGER"), env.optional("BURNIN_HINTS"));
            let resend = env.or("BURNIN_RESEND", Span::from_secs(30));
            Some(Config { ledger: ledger?, hints: hints?, resend: resend? })
        },
        |config, context| {
            let mut store = context.store(&config.ledger)?;
            if let Some(hints) = &config.hints {
                store = Arc::new(Split::new("open/", context.store(hints)?, store));
            }
            let ledger = Ledger::new(Arc::clone(&store), Arc::new(ids::unique));
            let settings = WakeSettings { resend: config.resend, refresh: Span::default() };
            let (bus, clock) = (Arc::clone(&context.bus), Arc::clone(&context.clock));
            let conductor = Arc::new(Conductor::new(ledger, bus, clock, settings, None));
            let tick: Arc<dyn PeriodicTask> = Arc::new(Tick(Arc::clone(&conductor)));
            let handler: Arc<dyn Handler> = conductor;
            let of_agents: Arc<dyn Handler> = Arc::new(AgentFacts(Arc::clone(&handler)));
            let routes = Routes { events: vec![(AGENT_FACTS, of_agents)], ..Routes::default() };
            Ok((
                ServiceParts {
                    handled_events: handled_events(),
                    handler,
                    dead_letter_store: store,
                    periodic_tasks: vec![tick],
                },
                routes,
            ))
        },
    )
}
