//! The notifier: sends notices about runs to channels, and statuses to commits.
//!
//! It receives the facts that a run was requested or closed, reads the run, decides ([`decide`]), stores the notices
//! ([`outbox`]) and delivers them through a [`Sender`]. It finds missed endings in the ledger: `/chores/notices` searches for
//! closed runs without a decision, and retries undelivered notices.
//!
//! | fact | action |
//! |---|---|
//! | `run.closed` | sends the notices; replies to the message that requested the run, if any |
//! | `run.requested` of a push | the commit gets a pending status, once the run is recorded |

pub mod conformance;
mod create;
pub mod decide;
mod deliver;
pub mod fake;
mod link;
pub mod notice;
pub mod outbox;
pub mod port;
pub mod render;
pub mod secrets;
pub mod senders;

use std::{collections::BTreeSet, sync::Arc, sync::Mutex};

use events::{Content, Message};
use ledger::{Ledger, Store};
use model::{Fact, Notify, Origin, RunId};
use run_index::{RefreshIntervals, RunIndex};
use service::{
    AttributesReader, Bus, Clock, CommandError, Disposition, Event, Handler, serve::PeriodicTask, telemetry,
};
use tracing::{Instrument, info_span};

pub use link::RunLink;
pub use port::{Reply, Sender};

/// Event types that the notifier handles.
pub const HANDLED_EVENTS: [&str; 2] = ["dev.burnin.run.closed.v1", "dev.burnin.run.requested.v1"];

pub struct NotifierSetup {
    /// The ledgers, read-only.
    pub ledger: Ledger,
    /// Bucket of artefacts and notices.
    pub store: Arc<dyn Store>,
    pub sender: Arc<dyn Sender>,
    /// Bus for replies to requests.
    pub bus: Arc<dyn Bus>,
    /// Clock for delays and reminders.
    pub clock: Arc<dyn Clock>,
    /// URL template of a run in notices.
    pub link: Option<RunLink>,
}

/// Handler of facts, and the periodic search for missed endings.
pub struct Notifier {
    run_index: RunIndex,
    outbox: outbox::Outbox,
    sender: Arc<dyn Sender>,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    link: Option<RunLink>,
    /// Runs that this process need not examine again, and whether they were closed at that time.
    checked_runs: Mutex<BTreeSet<(RunId, bool)>>,
}

impl Notifier {
    pub fn new(setup: NotifierSetup) -> Arc<Self> {
        let NotifierSetup { ledger, store, sender, bus, clock, link } = setup;
        // Decisions depend on the conclusions of earlier runs: with a stale index the notifier would repeat notices.
        let run_index =
            RunIndex::new(ledger, Arc::clone(&store), Arc::clone(&clock), RefreshIntervals::ALWAYS);
        let outbox = outbox::Outbox::new(store);
        Arc::new(Self { run_index, outbox, sender, bus, clock, link, checked_runs: Mutex::default() })
    }

    /// The search for missed endings and undelivered notices.
    pub fn periodic_tasks(self: &Arc<Self>) -> Vec<Arc<dyn PeriodicTask>> {
        vec![Arc::new(Notices(Arc::clone(self)))]
    }

    async fn on_fact(&self, run: &RunId, fact: &Fact) -> Result<(), CommandError> {
        match fact {
            Fact::RunClosed(_) => {
                self.notify_ended(run).await?;
                self.deliver_of(run).await
            }
            Fact::RunRequested(requested) => {
                let status = |target: &Notify| matches!(target, Notify::Github(github) if github.status);
                let pushed = matches!(requested.origin, Some(Origin::Push(_)));
                if !pushed || !requested.workflow.notify.iter().any(status) {
                    return Ok(());
                }
                self.notify_started(run).await?;
                self.deliver_of(run).await
            }
            // A topic may carry facts that the notifier does not use.
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
            return Disposition::Park(format!(
                "the notifier handles facts, found the command {}",
                event.ty()
            ));
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
        match self.on_fact(&message.run, &fact).instrument(span).await {
            Ok(()) => Disposition::Done,
            Err(CommandError::Transient(why)) => Disposition::Retry(why),
            Err(CommandError::Permanent(why)) => Disposition::Park(why),
        }
    }
}

/// Task `notices`: decides missed notices and retries undelivered ones.
struct Notices(Arc<Notifier>);

#[async_trait::async_trait]
impl PeriodicTask for Notices {
    fn name(&self) -> &'static str {
        "notices"
    }

    async fn run(&self) -> Result<(), String> {
        let reason = |error: CommandError| match error {
            CommandError::Transient(why) | CommandError::Permanent(why) => why,
        };
        let polled = self.0.poll_ledger().await.map_err(reason);
        self.0.deliver_all().await.map_err(reason).and(polled)
    }
}
