//! The front door. A run starts because somebody asked over HTTP, pushed to a repository, published a message, finished a
//! build, or because its night has come; all of them end in [`Starter::start`].
//!
//! | what comes | what it is known by, for ever |
//! |---|---|
//! | `POST /api/v1/runs` | the caller and its `Idempotency-Key`; without one each request is one of its own |
//! | a push, told by a webhook or found by looking | repository, ref and commit |
//! | a moment of a schedule | workflow and moment |
//! | `run.request` | the event's source and id |
//! | a build of a Cloud Build trigger | the build's id |
//! | `cluster.offered` | the event's source and id |
//!
//! ```text
//! requests/{first 32 hex digits of the key's SHA-256}.json   created once: what was asked, and the run that came of it
//! requests/open/{run}                                        hint: whether it was recorded is not known yet
//! offers/{digest of source and id}.json                      this offer came, and whom it concerns
//! pushes/{digest of repository, ref and commit}.json         this push was dealt with
//! schedules/{workflow}/{moment}.json                         this moment was dealt with: run, or missed
//! ```
//!
//! It writes neither ledger nor verdicts: a run starts when the conductor records `run.requested`. Until it did, the
//! request is published again.

mod access;
pub mod api;
mod catalogue;
mod chores;
mod events;
mod github;
mod home;
mod offers;
mod refs;
mod schedule;
mod start;

use std::sync::Arc;

use axum::{Router, routing::get};
use ledger::{Ledger, Store};
use run_index::View;
use service::{
    Bus, Clock, Outbox,
    serve::{Chore, Routes},
};

pub use access::{Access, LocalUser};
pub use api::{
    Problem,
    limits::Rates,
    workflows::{BrokenFile, Offer, Offers},
};
pub use catalogue::{Broken, Catalogue, Entry, Read};
pub use events::TAKES;
pub use github::Secrets;
pub use home::at_home;
#[cfg(feature = "gcp")]
pub use refs::HttpRefs;
pub use refs::{GitRefs, Ref, Refs};
pub use schedule::Calendar;
pub use start::{Refused, Started, Starter, Wish};

/// What the gateway is made from.
pub struct Setup {
    /// The ledgers, to read.
    pub ledger: Ledger,
    /// Artefacts, requests and marks.
    pub store: Arc<dyn Store>,
    /// Runs as they are looked at.
    pub view: Arc<View>,
    /// The workflows that may be asked for.
    pub catalogue: Catalogue,
    /// Where it speaks.
    pub bus: Arc<dyn Bus>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// How often callers may ask.
    pub rates: Rates,
    /// With what GitHub signs; none lets no push in.
    pub secrets: Secrets,
    /// How refs are looked at.
    pub refs: Arc<dyn Refs>,
    /// Where the measurements are, for people.
    pub warehouse: String,
}

/// The gateway.
pub struct Gateway {
    pub(crate) starter: Starter,
    pub(crate) view: Arc<View>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) outbox: Outbox,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) calendar: Calendar,
    pub(crate) rates: api::limits::Limiter,
    pub(crate) secrets: Secrets,
    pub(crate) unchecked: github::Unchecked,
    pub(crate) refs: Arc<dyn Refs>,
    pub(crate) warehouse: String,
}

impl Gateway {
    /// Made from this.
    pub fn new(setup: Setup) -> Arc<Self> {
        let Setup { ledger, store, view, catalogue, bus, clock, rates, secrets, refs, warehouse } = setup;
        let outbox = Outbox::new("gateway", Arc::clone(&bus), Arc::clone(&clock));
        let catalogue = Arc::new(catalogue);
        let starter = Starter::new(ledger, Arc::clone(&store), Arc::clone(&catalogue), outbox.clone());
        let calendar = Calendar::new(Arc::clone(&store));
        let rates = api::limits::Limiter::new(rates);
        Arc::new(Self {
            starter,
            view,
            store,
            catalogue,
            outbox,
            bus,
            clock,
            calendar,
            rates,
            secrets,
            unchecked: github::Unchecked::default(),
            refs,
            warehouse,
        })
    }

    /// What it serves over HTTP, with a plain page at `/` that says where everything is.
    pub fn routes(self: &Arc<Self>) -> Routes {
        self.routes_beside(Router::new().route("/", get(api::index)))
    }

    /// What it serves over HTTP, beside pages for people: they are reached as its interface is, and by nobody else.
    pub fn routes_beside(self: &Arc<Self>, pages: Router) -> Routes {
        let catalogue = Arc::clone(&self.catalogue);
        let about =
            move || serde_json::Map::from_iter([("workflows_broken".to_owned(), catalogue.broken().into())]);
        Routes {
            guarded: api::routes(self, pages),
            open: github::route(self),
            alone: false,
            about: Some(Arc::new(about)),
        }
    }

    /// What it serves where everybody may come: webhooks, which prove themselves, and nothing else.
    pub fn hooks_alone(self: &Arc<Self>) -> Routes {
        Routes { open: github::route(self), alone: true, ..Routes::default() }
    }

    /// The workflows and the files that are none, without anything about their runs.
    ///
    /// # Errors
    /// When the folder or the bucket cannot be read.
    pub async fn workflows(&self) -> std::io::Result<Read> {
        self.catalogue.read().await
    }

    /// What it does now and then.
    pub fn chores(self: &Arc<Self>) -> Vec<Arc<dyn Chore>> {
        chores::all(self)
    }
}
