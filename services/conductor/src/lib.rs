//! The conductor: receives facts, appends to the ledger, sends commands.
//!
//! It is the only writer of the ledger and contains no rules itself: those are in `lifecycle`. On every wake-up (a
//! fact, a tick, a restart) it performs the same five steps: load, decide, append, compute the owed commands, send.
//! Several conductors may run concurrently: after a lost append race a conductor loads again.

mod run_locks;
mod wake;

pub use wake::{Conductor, Observer, WakeOutcome, WakeSettings};

use std::sync::Arc;

use events::{Content, Message};
use lifecycle::{Input, ReceivedFact};
use model::Fact;
use service::{AttributesReader, Disposition, Event, Handler, telemetry};
use tracing::{Instrument, info_span};

#[async_trait::async_trait]
impl Handler for Conductor {
    async fn handle(&self, event: &Event) -> Disposition {
        let message = match Message::from_event(event) {
            Ok(message) => message,
            Err(unreadable) => return Disposition::Park(unreadable.to_string()),
        };
        let Content::Fact(fact) = message.content else {
            return Disposition::Park(format!(
                "the conductor handles facts, found the command {}",
                event.ty()
            ));
        };
        let span = info_span!(
            "fact",
            otel.kind = "consumer",
            messaging.system = "gcp_pubsub",
            messaging.operation.name = "process",
            service = "conductor",
            run.id = %message.run,
            stage = fact.stage().map(tracing::field::display),
            attempt = message.attempt.number,
            cloudevents.event_type = fact.event_type(),
            event.id = message.key.id,
        );
        telemetry::follow(&span, message.traceparent.as_deref());
        let occurrence = ReceivedFact { event: message.key, attempt: message.attempt, fact };
        match self.wake(&message.run, Input::Fact(Box::new(occurrence))).instrument(span).await {
            Ok(WakeOutcome::Unknown) => Disposition::Park(format!("run {} was never requested", message.run)),
            Ok(_) => Disposition::Done,
            Err(error) => Disposition::Retry(service::worker::chain(&error)),
        }
    }
}

/// Path of the facts of agents.
pub const AGENT_FACTS: &str = "/agent-facts";

/// Passes the facts that agents publish. Any other event on their topic is parked: an agent that publishes a verdict is compromised.
pub struct AgentFacts(pub Arc<dyn Handler>);

#[async_trait::async_trait]
impl Handler for AgentFacts {
    async fn handle(&self, event: &Event) -> Disposition {
        if events::is_of_agent(event.ty()) {
            self.0.handle(event).await
        } else {
            Disposition::Park(format!("an agent may not publish {}", event.ty()))
        }
    }
}

/// Event types that the conductor handles: every fact except its own.
pub fn handled_events() -> Vec<&'static str> {
    let own = ["dev.burnin.run.closed.v1", "dev.burnin.run.used.v1"];
    Fact::TYPES.iter().copied().filter(|event_type| !own.contains(event_type)).collect()
}
