//! The gateway starts runs: on HTTP requests, pushes, messages, successful builds, cluster offers, and schedules. All of them
//! call [`Starter::start`].
//!
//! | trigger | key, permanently unique |
//! |---|---|
//! | `POST /api/v1/runs` | the caller and its `Idempotency-Key`; without one each request is new |
//! | a push, from a webhook or from polling | repository, ref and commit |
//! | a scheduled time | workflow and time |
//! | `run.request` | the event's source and id |
//! | a build of a Cloud Build trigger | the build's id |
//! | `cluster.offered` | the event's source and id |
//!
//! ```text
//! requests/{first 32 hex digits of the key's SHA-256}.json   created once: the request and its run
//! requests/open/{run}                                        hint: the run may not be recorded yet
//! offers/{digest of source and id}.json                      an offer, and the workflows that it starts
//! pushes/{digest of repository, ref and commit}.json         the push was handled
//! schedules/{workflow}/{month}/{Unix seconds}.json           the scheduled time was handled: run, or reason why it was missed
//! ```
//!
//! It writes neither ledger nor verdicts: a run starts when the conductor records `run.requested`. Until then the request is
//! published again.

mod access;
pub mod api;
mod catalogue;
mod events;
mod github;
mod home;
mod offers;
mod periodic_tasks;
mod plans;
mod refs;
mod schedule;
mod start;

use std::sync::Arc;

use axum::Router;
use ledger::{Ledger, Store};
use run_index::RunIndex;
use service::{
    Bus, Clock, Publisher,
    serve::{PeriodicTask, Routes},
};

pub use access::{LocalAccess, LocalUser};
pub use api::{
    ApiProblem,
    limits::Rates,
    workflows::{BrokenFile, CatalogueListing, WorkflowOffer},
};
pub use catalogue::{BrokenWorkflow, Catalogue, CatalogueEntry, ReadWorkflows};
pub use events::HANDLED_EVENTS;
pub use github::WebhookSecrets;
pub use home::local_only;
#[cfg(feature = "gcp")]
pub use refs::HttpRefs;
pub use refs::{GitRefs, Ref, Refs};
pub use schedule::ScheduleRecords;
pub use start::{StartError, StartOutcome, StartRequest, Starter};

pub struct GatewaySetup {
    /// The ledgers, read-only.
    pub ledger: Ledger,
    /// Bucket of artefacts, requests and marks.
    pub store: Arc<dyn Store>,
    /// Source of all lists and pages of runs.
    pub run_index: Arc<RunIndex>,
    /// Available workflows.
    pub catalogue: Catalogue,
    /// Bus for requests and replies.
    pub bus: Arc<dyn Bus>,
    /// Clock for schedules and rates.
    pub clock: Arc<dyn Clock>,
    /// Maximum request rates per caller.
    pub rates: Rates,
    /// Webhook secrets of GitHub; without a secret all webhooks are refused.
    pub secrets: WebhookSecrets,
    pub refs: Arc<dyn Refs>,
    /// Name of the table of measurements, shown to users.
    pub warehouse: String,
}

/// Handles requests, pushes, schedules and offers.
pub struct Gateway {
    pub(crate) starter: Starter,
    pub(crate) run_index: Arc<RunIndex>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) publisher: Publisher,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) schedule_records: ScheduleRecords,
    pub(crate) rates: api::limits::Limiter,
    pub(crate) secrets: WebhookSecrets,
    pub(crate) unverified_bodies: github::UnverifiedBodies,
    pub(crate) refs: Arc<dyn Refs>,
    pub(crate) warehouse: String,
}

impl Gateway {
    pub fn new(setup: GatewaySetup) -> Arc<Self> {
        let GatewaySetup { ledger, store, run_index, catalogue, bus, clock, rates, secrets, refs, warehouse } =
            setup;
        let publisher = Publisher::new("gateway", Arc::clone(&bus), Arc::clone(&clock));
        let catalogue = Arc::new(catalogue);
        let starter = Starter::new(ledger, Arc::clone(&store), Arc::clone(&catalogue), publisher.clone());
        let schedule_records = ScheduleRecords::new(Arc::clone(&store));
        let rates = api::limits::Limiter::new(rates);
        Arc::new(Self {
            starter,
            run_index,
            store,
            catalogue,
            publisher,
            bus,
            clock,
            schedule_records,
            rates,
            secrets,
            unverified_bodies: github::UnverifiedBodies::default(),
            refs,
            warehouse,
        })
    }

    /// HTTP routes of the API and of the pages with forms, without the output of running jobs: a deployed gateway has no access to
    /// clusters.
    pub fn routes(self: &Arc<Self>) -> Routes {
        let pages = pages::Dashboard {
            run_index: Arc::clone(&self.run_index),
            store: Arc::clone(&self.store),
            plans: Arc::clone(self) as Arc<dyn pages::Plans>,
            clock: Arc::clone(&self.clock),
            output: None,
            warehouse: self.warehouse.clone(),
            beside_gateway: true,
        };
        self.routes_beside(pages.routes())
    }

    /// The routes for users in addition to `pages`. The pages require the same authentication.
    pub fn routes_beside(self: &Arc<Self>, pages: Router) -> Routes {
        let catalogue = Arc::clone(&self.catalogue);
        let about =
            move || serde_json::Map::from_iter([("workflows_broken".to_owned(), catalogue.broken().into())]);
        Routes {
            guarded: api::routes(self, pages),
            open: github::route(self),
            alone: false,
            about: Some(Arc::new(about)),
            events: Vec::new(),
        }
    }

    /// The routes of webhooks only, for a public address: webhooks are authenticated by their signature.
    pub fn hooks_alone(self: &Arc<Self>) -> Routes {
        Routes { open: github::route(self), alone: true, ..Routes::default() }
    }

    /// Workflows and invalid files, without their runs.
    ///
    /// # Errors
    /// Returns an error if the folder or the bucket cannot be read.
    pub async fn workflows(&self) -> std::io::Result<ReadWorkflows> {
        self.catalogue.read().await
    }

    /// Tasks for schedules, polling of refs and unrecorded requests.
    pub fn periodic_tasks(self: &Arc<Self>) -> Vec<Arc<dyn PeriodicTask>> {
        periodic_tasks::all(self)
    }
}
