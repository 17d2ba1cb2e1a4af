//! The loader: measurements from committed logs into the warehouse, exactly once.
//!
//! | command | fact |
//! |---|---|
//! | `results.load` | `results.loaded`, or `results.failed` when the logs cannot be what was committed |
//!
//! Idempotent by load id, which is the command's id: the warehouse takes each load once.

pub mod conformance;
pub mod fake;
pub mod port;
pub mod rows;
pub mod sqlite;

use std::sync::Arc;

use kit::{Outbox, PortError, Trouble, Worker};
use ledger::{ArtefactError, Artefacts};
use terms::{Attempt, Body, Class, Command, CommandId, Fact, Failure, Logs, Results};

pub use port::{Warehouse, WarehouseError};
pub use rows::Row;

/// The loader's handler, over any [`Warehouse`].
pub struct Loader {
    artefacts: Artefacts,
    warehouse: Arc<dyn Warehouse>,
}

impl Loader {
    /// Event types it takes.
    pub const TAKES: [&'static str; 1] = ["dev.burnin.results.load.v1"];

    /// From this bucket into this warehouse.
    pub fn new(artefacts: Artefacts, warehouse: Arc<dyn Warehouse>) -> Self {
        Self { artefacts, warehouse }
    }

    async fn load(
        &self,
        id: &CommandId,
        workflow: &str,
        logs: &Logs,
        job: Attempt,
    ) -> Result<Fact, PortError> {
        let mut rows = Vec::new();
        for (object, reading) in
            self.artefacts.logs(logs, job, |body| nccl::read(body)).await.map_err(damaged)?
        {
            rows::extend(&mut rows, &id.run, workflow, job, &object.name, &reading);
        }
        let load = id.to_string();
        let loaded = self.warehouse.load(&load, &rows).await;
        let loaded = loaded.map_err(|error| match error {
            WarehouseError::Unavailable(why) => PortError::Passing(why),
            WarehouseError::Refused(why) => PortError::Final(Failure::new(Class::Input, "REFUSED", why)),
        })?;
        Ok(Fact::ResultsLoaded(Results { load, rows: loaded, table: self.warehouse.table() }))
    }
}

fn damaged(error: ArtefactError) -> PortError {
    match error {
        ArtefactError::Store(error) => PortError::passing(error),
        ArtefactError::Damaged { .. } => {
            PortError::Final(Failure::new(Class::Workload, "LOGS_DAMAGED", error.to_string()))
        }
    }
}

#[async_trait::async_trait]
impl Worker for Loader {
    fn name(&self) -> &'static str {
        "loader"
    }

    async fn perform(&self, command: &Command, outbox: &Outbox) -> Result<(), Trouble> {
        let id = &command.id;
        let Body::ResultsLoad { workflow, logs, job_attempt } = &command.body else {
            return Err(Trouble::Park("the loader only loads results".to_owned()));
        };
        outbox.answer(id, self.load(id, workflow, logs, *job_attempt).await.map(Some)).await
    }
}
