//! The notifier: what changed is told to people, and each commit is told of its runs.
//!
//! It hears that a run ended or began, reads the run, decides ([`decide`]), writes down what is to be told ([`outbox`]) and
//! delivers it through a [`Courier`]. What it did not hear of it finds: `/chores/notices` looks at the ledger for ends that
//! nobody told of, and goes on with what could not be delivered.
//!
//! | it hears | so |
//! |---|---|
//! | `run.closed` | whoever is to be told is; whoever asked for the run by a message gets a second answer |
//! | `run.requested` of a push | the commit gets a pending status, once the run is recorded |

pub mod conformance;
pub mod courier;
pub mod decide;
mod deliver;
pub mod fake;
mod link;
pub mod notice;
pub mod outbox;
pub mod port;
pub mod secrets;
mod tell;
pub mod words;

use std::{collections::BTreeSet, sync::Arc, sync::Mutex};

use events::{Content, Message};
use ledger::{Ledger, Store};
use model::{Fact, Notify, Origin, RunId};
use run_index::{Pace, View};
use service::{Bus, Clock, Disposition, Event, Handler, Trouble, serve::Chore, telemetry};
use tracing::{Instrument, info_span};

pub use link::Link;
pub use port::{Courier, Reply};

/// Event types the notifier takes.
pub const TAKES: [&str; 2] = ["dev.burnin.run.closed.v1", "dev.burnin.run.requested.v1"];

/// What the notifier is made from.
pub struct Setup {
    /// The ledgers, to read.
    pub ledger: Ledger,
    /// Artefacts and notices.
    pub store: Arc<dyn Store>,
    /// Who brings notices to people.
    pub courier: Arc<dyn Courier>,
    /// Where it answers those who asked by a message.
    pub bus: Arc<dyn Bus>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where people find a run.
    pub link: Option<Link>,
}

/// The notifier.
pub struct Notifier {
    view: View,
    outbox: outbox::Outbox,
    courier: Arc<dyn Courier>,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    link: Option<Link>,
    /// Runs that need no further look by this process; and whether they were over when they were looked at.
    looked_at: Mutex<BTreeSet<(RunId, bool)>>,
}

impl Notifier {
    /// Made from this.
    pub fn new(setup: Setup) -> Arc<Self> {
        let Setup { ledger, store, courier, bus, clock, link } = setup;
        // What is new depends on what ended before: a view that lags would tell it twice.
        let view = View::new(ledger, Arc::clone(&store), Arc::clone(&clock), Pace::ALWAYS);
        let outbox = outbox::Outbox::new(store);
        Arc::new(Self { view, outbox, courier, bus, clock, link, looked_at: Mutex::default() })
    }

    /// What it does now and then.
    pub fn chores(self: &Arc<Self>) -> Vec<Arc<dyn Chore>> {
        vec![Arc::new(Notices(Arc::clone(self)))]
    }

    async fn hear(&self, run: &RunId, fact: &Fact) -> Result<(), Trouble> {
        match fact {
            Fact::RunClosed(_) => {
                self.tell_end(run).await?;
                self.deliver_of(run).await
            }
            Fact::RunRequested(requested) => {
                let status = |wish: &Notify| matches!(wish, Notify::Github(github) if github.status);
                let pushed = matches!(requested.origin, Some(Origin::Push(_)));
                if !pushed || !requested.workflow.notify.iter().any(status) {
                    return Ok(());
                }
                self.tell_beginning(run).await?;
                self.deliver_of(run).await
            }
            // Whoever is subscribed to a topic takes everything on it.
            _ => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Handler for Notifier {
    async fn handle(&self, event: &Event) -> Disposition {
        let message = match Message::from_event(event) {
            Ok(message) => message,
            Err(unreadable) => return Disposition::Park(unreadable.to_string()),
        };
        let Content::Fact(fact) = message.content else {
            return Disposition::Park("the notifier takes facts, not commands".to_owned());
        };
        let span = info_span!(
            "fact",
            otel.kind = "consumer",
            messaging.system = "gcp_pubsub",
            messaging.operation.name = "process",
            service = "notifier",
            run.id = %message.run,
            cloudevents.event_type = fact.event_type(),
            event.id = message.key.id,
        );
        telemetry::follow(&span, message.traceparent.as_deref());
        match self.hear(&message.run, &fact).instrument(span).await {
            Ok(()) => Disposition::Done,
            Err(Trouble::Retry(why)) => Disposition::Retry(why),
            Err(Trouble::Park(why)) => Disposition::Park(why),
        }
    }
}

/// `notices`: tells what nobody told, and delivers what could not be delivered.
struct Notices(Arc<Notifier>);

#[async_trait::async_trait]
impl Chore for Notices {
    fn name(&self) -> &'static str {
        "notices"
    }

    async fn run(&self) -> Result<(), String> {
        let told = |trouble: Trouble| match trouble {
            Trouble::Retry(why) | Trouble::Park(why) => why,
        };
        let looked = self.0.look().await.map_err(told);
        self.0.deliver_all().await.map_err(told).and(looked)
    }
}
