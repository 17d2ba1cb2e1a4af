//! A worker knows one verb and one outside world: a command comes in, facts go out.

use std::sync::Arc;

use cloudevents::Event;
use events::{Content, Message};
use model::{Attempt, Command, CommandId, Fact, Failure, RunId};
use tracing::{Instrument, info_span};

use crate::{Bus, BusError, Clock, Disposition, Handler, Runtime, Spawn, telemetry};

/// Why a command was not carried out.
#[derive(Debug)]
pub enum Trouble {
    /// It may work later.
    Retry(String),
    /// It never will, and there is no fact that could say so.
    Park(String),
}

impl Trouble {
    /// Anything that may pass.
    pub fn retry(error: impl std::error::Error) -> Self {
        Self::Retry(chain(&error))
    }
}

impl From<BusError> for Trouble {
    fn from(error: BusError) -> Self {
        Self::Retry(error.to_string())
    }
}

/// Why an outside world did not do as asked.
#[derive(Debug)]
pub enum PortError {
    /// It may do so later.
    Passing(String),
    /// It never will; this is the fact to tell.
    Final(Failure),
}

impl PortError {
    /// Anything that may pass.
    pub fn passing(error: impl std::error::Error) -> Self {
        Self::Passing(chain(&error))
    }
}

/// An error with all its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Carries out commands. The same command may come any number of times and must then be answered with the same fact.
#[async_trait::async_trait]
pub trait Worker: Send + Sync + 'static {
    /// Its name, as in the `source` of its events.
    fn name(&self) -> &'static str;

    /// Begins or answers `command`. What takes longer than a request may is watched elsewhere and told through `outbox`
    /// when it is known.
    ///
    /// # Errors
    /// [`Trouble`] when nothing could be said; a failure of the work itself is a fact, not an error.
    async fn perform(&self, command: &Command, outbox: &Outbox) -> Result<(), Trouble>;

    /// Takes note of a fact, where the worker takes any.
    ///
    /// # Errors
    /// [`Trouble`] when it could not.
    async fn hear(&self, _run: &RunId, fact: &Fact) -> Result<(), Trouble> {
        Err(Trouble::Park(format!("{} takes commands, not {}", self.name(), fact.event_type())))
    }
}

/// Where a worker says what happened.
#[derive(Clone)]
pub struct Outbox {
    publisher: &'static str,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawn>,
}

impl Outbox {
    /// Speaks on `bus` as `publisher`.
    pub fn new(publisher: &'static str, bus: Arc<dyn Bus>, clock: Arc<dyn Clock>) -> Self {
        Self { publisher, bus, clock, spawner: Arc::new(Runtime) }
    }

    /// With work that outlives its request going on elsewhere than in the runtime.
    #[must_use]
    pub fn with_spawner(self, spawner: Arc<dyn Spawn>) -> Self {
        Self { spawner, ..self }
    }

    /// The clock to stamp with.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Where work goes on that outlives its request.
    pub fn spawner(&self) -> &Arc<dyn Spawn> {
        &self.spawner
    }

    /// Publishes a fact about the attempt a command belongs to.
    ///
    /// # Errors
    /// When the bus did not take it.
    pub async fn tell(&self, command: &CommandId, fact: Fact) -> Result<(), BusError> {
        self.tell_run(command.run.clone(), command.attempt, fact).await
    }

    /// Answers a command with what a port said: a fact, a failure of its stage, or trouble.
    ///
    /// # Errors
    /// What may pass.
    pub async fn answer(
        &self,
        command: &CommandId,
        said: Result<Option<Fact>, PortError>,
    ) -> Result<(), Trouble> {
        let fact = match said {
            Ok(None) => return Ok(()),
            Ok(Some(fact)) => fact,
            Err(PortError::Final(failure)) => Fact::failed(command.stage, failure),
            Err(PortError::Passing(why)) => return Err(Trouble::Retry(why)),
        };
        Ok(self.tell(command, fact).await?)
    }

    /// Publishes a fact about a run.
    ///
    /// # Errors
    /// When the bus did not take it.
    pub async fn tell_run(&self, run: RunId, attempt: Attempt, mut fact: Fact) -> Result<(), BusError> {
        // A failure quotes output of other programs. It is published from here to the ledger, pages, reports and channels.
        if let (Some(stage), Some(failure)) = (fact.stage(), fact.failure()) {
            let message = redact::redacted(&failure.message);
            fact = Fact::failed(stage, Failure { message, ..failure.clone() });
        }
        self.send(Message::fact(self.publisher, run, attempt, fact)).await
    }

    /// Publishes a command.
    ///
    /// # Errors
    /// When the bus did not take it.
    pub async fn order(&self, command: Command) -> Result<(), BusError> {
        self.send(Message::command(self.publisher, command)).await
    }

    async fn send(&self, message: Message) -> Result<(), BusError> {
        let message = message.stamped(self.clock.now(), telemetry::traceparent());
        tracing::debug!(says = message.event_type(), id = message.key.id);
        self.bus.publish(message.to_event()).await
    }
}

/// Puts a worker behind a [`Handler`].
pub struct WorkerHandler<W> {
    worker: W,
    outbox: Outbox,
}

impl<W: Worker> WorkerHandler<W> {
    /// A worker that speaks on `bus`.
    pub fn new(worker: W, bus: Arc<dyn Bus>, clock: Arc<dyn Clock>) -> Self {
        let outbox = Outbox::new(worker.name(), bus, clock);
        Self { worker, outbox }
    }

    /// With its watches going on elsewhere than in the runtime.
    #[must_use]
    pub fn with_spawner(self, spawner: Arc<dyn Spawn>) -> Self {
        Self { outbox: self.outbox.with_spawner(spawner), ..self }
    }
}

#[async_trait::async_trait]
impl<W: Worker> Handler for WorkerHandler<W> {
    async fn handle(&self, event: &Event) -> Disposition {
        let message = match Message::from_event(event) {
            Ok(message) => message,
            Err(unreadable) => return Disposition::Park(unreadable.to_string()),
        };
        let command = match message.content {
            Content::Command(command) => command,
            Content::Fact(fact) => return disposition(self.worker.hear(&message.run, &fact).await),
        };
        let span = info_span!(
            "command",
            otel.kind = "consumer",
            messaging.system = "gcp_pubsub",
            messaging.operation.name = "process",
            cloudevents.event_type = command.body.event_type(),
            service = self.worker.name(),
            run.id = %command.id.run,
            stage = %command.id.stage,
            attempt = command.id.attempt.0,
            event.id = %command.id,
        );
        telemetry::follow(&span, message.traceparent.as_deref());
        disposition(self.worker.perform(&command, &self.outbox).instrument(span).await)
    }
}

fn disposition(done: Result<(), Trouble>) -> Disposition {
    match done {
        Ok(()) => Disposition::Done,
        Err(Trouble::Retry(why)) => Disposition::Retry(why),
        Err(Trouble::Park(why)) => Disposition::Park(why),
    }
}
