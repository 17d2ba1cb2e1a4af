//! A worker handles the commands of one external system: it receives commands and publishes facts.

use std::sync::Arc;

use cloudevents::Event;
use events::{Content, Message};
use ledger::{ArtefactError, StoreError};
use model::{Attempt, Class, Command, CommandId, Fact, Failure, RunId};
use tracing::{Instrument, info_span};

use crate::{Bus, BusError, Clock, Disposition, Handler, Runtime, Spawn, telemetry};

#[derive(Debug)]
pub enum CommandError {
    /// The command is redelivered.
    Transient(String),
    /// The command is parked: the failure is permanent and cannot be published as a fact.
    Permanent(String),
}

impl CommandError {
    pub fn transient(error: impl std::error::Error) -> Self {
        Self::Transient(chain(&error))
    }
}

impl From<BusError> for CommandError {
    fn from(error: BusError) -> Self {
        Self::Transient(error.to_string())
    }
}

/// A failed operation of an external system.
#[derive(Debug)]
pub enum PortError {
    /// A retry may succeed: the command is redelivered.
    Transient(String),
    /// The failure is published as a fact.
    Permanent(Failure),
}

impl PortError {
    pub fn transient(error: impl std::error::Error) -> Self {
        Self::Transient(chain(&error))
    }

    /// Error of reading collected logs. A damaged log has the class `workload`: another attempt of the reading stage would fail too.
    pub fn of_logs(error: ArtefactError) -> Self {
        Self::of_artefact(error, Class::Workload, "LOGS_DAMAGED")
    }

    fn of_artefact(error: ArtefactError, class: Class, code: &str) -> Self {
        match error {
            ArtefactError::Store(error) => error.into(),
            ArtefactError::Damaged { .. } => Self::Permanent(Failure::new(class, code, error.to_string())),
        }
    }
}

impl From<StoreError> for PortError {
    fn from(error: StoreError) -> Self {
        Self::transient(error)
    }
}

/// A damaged artefact has the class `infrastructure`, which permits another attempt of the stage; that attempt writes under other names.
impl From<ArtefactError> for PortError {
    fn from(error: ArtefactError) -> Self {
        Self::of_artefact(error, Class::Infrastructure, "ARTEFACT_DAMAGED")
    }
}

/// An error with all its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Handles commands. The same command may arrive repeatedly and must then result in the same fact.
#[async_trait::async_trait]
pub trait Worker: Send + Sync + 'static {
    /// Name, as in the `source` of its events.
    fn name(&self) -> &'static str;

    /// Handles `command` and publishes the result through `publisher`. An operation that takes longer than the request
    /// is polled in the background.
    ///
    /// # Errors
    /// Returns an error if no fact could be published; a failure of the work itself is a fact, not an error.
    async fn perform(&self, command: &Command, publisher: &Publisher) -> Result<(), CommandError>;

    /// Handles a fact, if the worker subscribes to facts.
    ///
    /// # Errors
    /// Returns an error if the fact could not be handled.
    async fn on_fact(&self, _run: &RunId, fact: &Fact) -> Result<(), CommandError> {
        Err(CommandError::Permanent(format!("{} handles commands, not {}", self.name(), fact.event_type())))
    }
}

/// Publishes the facts of a worker.
#[derive(Clone)]
pub struct Publisher {
    service: &'static str,
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    spawner: Arc<dyn Spawn>,
}

impl Publisher {
    pub fn new(service: &'static str, bus: Arc<dyn Bus>, clock: Arc<dyn Clock>) -> Self {
        Self { service, bus, clock, spawner: Arc::new(Runtime) }
    }

    /// Uses `spawner` for background work instead of the runtime.
    #[must_use]
    pub fn with_spawner(self, spawner: Arc<dyn Spawn>) -> Self {
        Self { spawner, ..self }
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn spawner(&self) -> &Arc<dyn Spawn> {
        &self.spawner
    }

    /// Publishes a fact about the attempt of a command.
    ///
    /// # Errors
    /// Returns an error if the bus did not store it.
    pub async fn publish_fact(&self, command: &CommandId, fact: Fact) -> Result<(), BusError> {
        self.publish_run_fact(command.run.clone(), command.attempt, fact).await
    }

    /// Publishes the result of a port: a fact, or a failure of its stage.
    ///
    /// # Errors
    /// Returns an error if the port failed temporarily.
    pub async fn publish_result(
        &self,
        command: &CommandId,
        result: Result<Option<Fact>, PortError>,
    ) -> Result<(), CommandError> {
        let fact = match result {
            Ok(None) => return Ok(()),
            Ok(Some(fact)) => fact,
            Err(PortError::Permanent(failure)) => Fact::failed(command.stage, failure),
            Err(PortError::Transient(why)) => return Err(CommandError::Transient(why)),
        };
        Ok(self.publish_fact(command, fact).await?)
    }

    /// Publishes a fact about a run.
    ///
    /// # Errors
    /// Returns an error if the bus did not store it.
    pub async fn publish_run_fact(
        &self,
        run: RunId,
        attempt: Attempt,
        mut fact: Fact,
    ) -> Result<(), BusError> {
        // Redact the message: it quotes output of other programs, and is copied to the ledger, pages, reports and channels.
        if let (Some(stage), Some(failure)) = (fact.stage(), fact.failure()) {
            let message = redact::redacted(&failure.message);
            fact = Fact::failed(stage, Failure { message, ..failure.clone() });
        }
        self.send(Message::fact(self.service, run, attempt, fact)).await
    }

    /// Publishes a command.
    ///
    /// # Errors
    /// Returns an error if the bus did not store it.
    pub async fn publish_command(&self, command: Command) -> Result<(), BusError> {
        self.send(Message::command(self.service, command)).await
    }

    /// Whether a published command is lost if this process ends now.
    pub fn is_in_memory(&self, command: &CommandId) -> bool {
        self.bus.is_in_memory(&command.to_string())
    }

    async fn send(&self, message: Message) -> Result<(), BusError> {
        let message = message.stamped(self.clock.now(), telemetry::traceparent());
        tracing::debug!(event = message.event_type(), id = message.key.id);
        self.bus.publish(message.to_event()).await
    }
}

/// Handles events with a worker: passes commands and facts to the worker, and publishes its results.
pub struct WorkerHandler<W> {
    worker: W,
    publisher: Publisher,
}

impl<W: Worker> WorkerHandler<W> {
    pub fn new(worker: W, bus: Arc<dyn Bus>, clock: Arc<dyn Clock>) -> Self {
        let publisher = Publisher::new(worker.name(), bus, clock);
        Self { worker, publisher }
    }

    /// Uses `spawner` for its pollers instead of the runtime.
    #[must_use]
    pub fn with_spawner(self, spawner: Arc<dyn Spawn>) -> Self {
        Self { publisher: self.publisher.with_spawner(spawner), ..self }
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
            Content::Fact(fact) => return disposition(self.worker.on_fact(&message.run, &fact).await),
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
            attempt = command.id.attempt.number,
            event.id = %command.id,
        );
        telemetry::follow(&span, message.traceparent.as_deref());
        disposition(self.worker.perform(&command, &self.publisher).instrument(span).await)
    }
}

fn disposition(done: Result<(), CommandError>) -> Disposition {
    match done {
        Ok(()) => Disposition::Done,
        Err(CommandError::Transient(why)) => Disposition::Retry(why),
        Err(CommandError::Permanent(why)) => Disposition::Park(why),
    }
}
