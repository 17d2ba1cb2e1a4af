//! One place to look: systems and their nights, runs while they go on, and what came of them.
//!
//! Pages are made here, whole, from the read side alone; without scripts they show everything. The one script replaces
//! what has changed and sends what a person asks for to the gateway's interface, where that lies at the same origin.
//!
//! | page | what is on it |
//! |---|---|
//! | `/` | systems by nights, what goes on, the newest runs; filters are in the address |
//! | `/runs/{run}` | the run's report, live while it goes on; logs, comparisons, an end to it |
//! | `/runs/{run}/changes` | an event whenever something was recorded of it |
//! | `/runs/{run}/logs/{log}` | the lines of a log, all or those with some text |
//! | `/compare?a=&b=` | two runs beside each other |
//! | `/changes` | an event whenever the first page would look different |

mod assets;
mod compare;
mod frame;
mod logs;
mod nights;
mod overview;
mod run;

use std::sync::Arc;

use axum::{Router, routing::get};
use ledger::Store;
use model::Timestamp;
use run_index::View;
use service::Clock;

/// A workflow that may be asked for.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Its name.
    pub workflow: String,
    /// For people.
    pub description: String,
    /// When it starts by itself next; none when it does not.
    pub next: Option<Timestamp>,
    /// It was not validated for longer than it should be.
    pub stale: bool,
    /// It cannot be started: its file has problems, and there is no earlier version without any.
    pub broken: bool,
    /// Problems of the current file, one line each.
    pub problems: Vec<String>,
}

/// Where the workflows are known.
#[async_trait::async_trait]
pub trait Plans: Send + Sync + 'static {
    /// Every workflow, by name.
    ///
    /// # Errors
    /// Why they cannot be read, for people.
    async fn plans(&self) -> Result<Vec<Plan>, String>;

    /// Other problems to correct, one line each: channels without an address.
    async fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Every problem of a file, to see whether they changed; cheap enough for once a second.
    async fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What the pages are made from.
pub struct Dashboard {
    /// Runs as they are looked at.
    pub view: Arc<View>,
    /// Artefacts: logs.
    pub store: Arc<dyn Store>,
    /// What may be asked for.
    pub plans: Arc<dyn Plans>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where the measurements are, for people.
    pub warehouse: String,
    /// The gateway's interface lies at the same origin: runs can be asked for and ended, logs and reports fetched raw.
    pub beside_gateway: bool,
}

/// No workflow can be asked for here.
pub struct Readonly;

#[async_trait::async_trait]
impl Plans for Readonly {
    async fn plans(&self) -> Result<Vec<Plan>, String> {
        Ok(Vec::new())
    }
}

impl Dashboard {
    /// The pages.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/", get(overview::page))
            .route("/changes", get(overview::changes))
            .route("/runs/{run}", get(run::page))
            .route("/runs/{run}/changes", get(run::changes))
            .route("/runs/{run}/logs/{*log}", get(logs::page))
            .route("/compare", get(compare::page))
            .route("/assets/{name}", get(assets::asset))
            .with_state(Arc::new(self))
    }
}
