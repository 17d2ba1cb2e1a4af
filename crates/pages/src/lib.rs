//! The pages: systems by night, open runs, and results. The service `dashboard` serves them read-only; the gateway and `burnin up` serve
//! them together with the API, with forms.
//!
//! Pages are rendered completely on the server, only from the run index; they work without scripts. The only script updates changed
//! content, and sends the forms as requests to the gateway's API if it is served at the same origin.
//!
//! | page | content |
//! |---|---|
//! | `/` | systems by night, open runs, newest runs; filters are in the query |
//! | `/systems/{workflow}` | a system: its metrics over dates, changes, nodes and runs |
//! | `/runs/{run}` | the run's report, live while the run is open; logs, comparisons, cancel, retry, pin, release |
//! | `/runs/{run}/changes` | server-sent events: one per record |
//! | `/runs/{run}/output?after=` | JSON: new lines of the running job's output |
//! | `/runs/{run}/logs/{log}` | lines of a log, optionally filtered by text |
//! | `/compare?run=&run=` | comparison of two runs |
//! | `/nodes?cluster=` | nodes of existing clusters: states with dates and evidence |
//! | `/changes` | server-sent events: the content of `/` changed |

mod assets;
mod compare;
mod frame;
mod logs;
mod nights;
mod nodes;
mod numbers;
mod output;
mod overview;
mod run;
mod system;
mod times;

use std::sync::Arc;

use axum::{Router, routing::get};
use ledger::Store;
use model::Timestamp;
use run_index::RunIndex;
use service::Clock;

pub use output::{JobOutput, OutputLines, RunningJob};

/// A workflow that can be started.
#[derive(Clone, Debug, Default)]
pub struct WorkflowPlan {
    /// Name of the workflow in its file.
    pub workflow: String,
    /// Description from the file.
    pub description: String,
    /// Next scheduled start; `None` without a schedule.
    pub next: Option<Timestamp>,
    /// Whether the workflow's validation is overdue.
    pub stale: bool,
    /// Whether the workflow cannot be started: its file has errors, and no earlier valid version exists.
    pub broken: bool,
    /// Errors in the current file, one line each.
    pub problems: Vec<String>,
}

/// Source of the workflows.
#[async_trait::async_trait]
pub trait Plans: Send + Sync + 'static {
    /// All workflows, by name.
    ///
    /// # Errors
    /// Returns an error with the reason if the workflows cannot be read.
    async fn plans(&self) -> Result<Vec<WorkflowPlan>, String>;

    /// Other configuration errors, one line each, such as channels without an address.
    async fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// All errors of all files, to detect changes; called once per second.
    async fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Dependencies of the pages.
pub struct Dashboard {
    /// Source of all lists and pages of runs.
    pub run_index: Arc<RunIndex>,
    /// Bucket of the logs.
    pub store: Arc<dyn Store>,
    /// Available workflows.
    pub plans: Arc<dyn Plans>,
    /// Clock for ages and nights.
    pub clock: Arc<dyn Clock>,
    /// Output of running jobs; `None` if this process has no access to the clusters.
    pub output: Option<Arc<dyn JobOutput>>,
    /// Name of the table of measurements, shown to users.
    pub warehouse: String,
    /// Whether the gateway's API is served at the same origin: runs can be started and cancelled, raw files linked.
    pub beside_gateway: bool,
}

/// No workflows: for a dashboard without a gateway.
pub struct NoPlans;

#[async_trait::async_trait]
impl Plans for NoPlans {
    async fn plans(&self) -> Result<Vec<WorkflowPlan>, String> {
        Ok(Vec::new())
    }
}

impl Dashboard {
    pub fn routes(self) -> Router {
        Router::new()
            .route("/", get(overview::page))
            .route("/changes", get(overview::changes))
            .route("/systems/{workflow}", get(system::page))
            .route("/runs/{run}", get(run::page))
            .route("/runs/{run}/changes", get(run::changes))
            .route("/runs/{run}/output", get(output::lines))
            .route("/runs/{run}/logs/{*log}", get(logs::page))
            .route("/compare", get(compare::page))
            .route("/nodes", get(nodes::page))
            .route("/assets/{name}", get(assets::asset))
            .with_state(Arc::new(self))
    }
}
