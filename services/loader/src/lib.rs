//! The loader: loads the measurements that the judge stored into the warehouse, exactly once.
//!
//! | command | fact |
//! |---|---|
//! | `results.load` | `results.loaded`, or `results.failed` if the logs are damaged |
//!
//! It also handles `run.used`, and loads the cluster usage of the run and its results that concern single nodes.
//!
//! Idempotent: a load id names the run and the attempt whose logs are loaded, and the warehouse accepts each load id once.

use std::sync::Arc;

use ledger::Artefacts;
use model::{
    Attempt, Body, Class, Command, CommandId, Fact, Failure, Logs, Results, RunId, Timestamp, VerdictReached,
};
use service::{CommandError, PortError, Publisher, Worker};
use verdict::Fingerprint;

use warehouse::{Error, Load, Warehouse};

/// The loader's handler, over any [`Warehouse`].
pub struct Loader {
    artefacts: Artefacts,
    warehouse: Arc<dyn Warehouse>,
}

impl Loader {
    /// Event types that the loader handles.
    pub const HANDLED_EVENTS: [&'static str; 2] = ["dev.burnin.results.load.v1", "dev.burnin.run.used.v1"];

    /// `artefacts`: bucket of the logs.
    pub fn new(artefacts: Artefacts, warehouse: Arc<dyn Warehouse>) -> Self {
        Self { artefacts, warehouse }
    }

    async fn load(&self, id: &CommandId, results: &Loading<'_>) -> Result<Fact, PortError> {
        let Loading { workflow, check, requested_at, logs, job_attempt, verdict } = *results;
        let mut brought = Load::of(&id.run, (workflow, check), job_attempt, requested_at);
        let parsed = measurements::read(&self.artefacts, &id.run, (logs, job_attempt), verdict).await;
        for parsed in parsed.map_err(PortError::of_logs)? {
            brought.log(&parsed.log, &parsed.reading);
        }
        let fingerprint = verdict.map(|reached| Fingerprint(reached.fingerprint.clone()));
        let identity = fingerprint.unwrap_or_default().identity();
        let brought = brought.judged(verdict, &identity);
        // A retry of the same measurements has the same load id.
        let load = format!("{}.{job_attempt}", id.run);
        let loaded = self.warehouse.load(&load, &brought).await;
        let loaded = loaded.map_err(|error| match error {
            Error::Transient(why) => PortError::Transient(why),
            Error::Permanent(why) => PortError::Permanent(Failure::new(Class::Input, "REFUSED", why)),
        })?;
        Ok(Fact::ResultsLoaded(Results { load, rows: loaded, table: self.warehouse.table() }))
    }
}

impl Loader {
    async fn load_rows(&self, id: &str, rows: &Load) -> Result<(), CommandError> {
        match self.warehouse.load(id, rows).await {
            Ok(_) => Ok(()),
            Err(Error::Transient(why)) => Err(CommandError::Transient(why)),
            Err(Error::Permanent(why)) => Err(CommandError::Permanent(why)),
        }
    }
}

/// Arguments of `results.load`.
struct Loading<'a> {
    workflow: &'a str,
    check: Option<&'a str>,
    requested_at: Option<Timestamp>,
    logs: &'a Logs,
    job_attempt: Attempt,
    verdict: Option<&'a VerdictReached>,
}

#[async_trait::async_trait]
impl Worker for Loader {
    fn name(&self) -> &'static str {
        "loader"
    }

    async fn perform(&self, command: &Command, publisher: &Publisher) -> Result<(), CommandError> {
        let id = &command.id;
        let Body::ResultsLoad { workflow, check, requested_at, logs, job_attempt, verdict } = &command.body
        else {
            return Err(CommandError::Permanent("the loader handles only results.load".to_owned()));
        };
        let results = Loading {
            workflow,
            check: check.as_deref(),
            requested_at: *requested_at,
            logs,
            job_attempt: *job_attempt,
            verdict: verdict.as_ref(),
        };
        publisher.publish_result(id, self.load(id, &results).await.map(Some)).await
    }

    /// Loads the cluster usage of a closed run.
    async fn on_fact(&self, run: &RunId, fact: &Fact) -> Result<(), CommandError> {
        let Fact::RunUsed(used) = fact else {
            return Err(CommandError::Permanent(format!("the loader does not handle {}", fact.event_type())));
        };
        // One load per closing, and one more for each cluster that reappeared after the end.
        let load = format!("{run}.used.{}", used.held.0.as_millis());
        self.load_rows(&load, &Load::used(run, used)).await?;
        if used.node_results.is_empty() {
            return Ok(());
        }
        self.load_rows(&format!("{run}.nodes"), &Load::node_results(run, used)).await
    }
}
