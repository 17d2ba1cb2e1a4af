//! Slurm clusters: settings, the probe of an existing cluster, and jobs through Slurm's own commands.

pub mod commands;
pub mod folder;
pub mod probe;
pub mod retest;
pub mod scheduler;
pub mod script;
mod settings;
pub mod state;
pub mod yields;

use std::sync::Arc;

use cluster_api::{ClusterKind, ClusterStatus, Scheduler, SettingsForm};
use ledger::Store;
use model::System;
use service::PortError;

pub use scheduler::SlurmJobs;
pub use settings::Slurm;

pub struct SlurmKind;

#[async_trait::async_trait]
impl ClusterKind for SlurmKind {
    fn form(&self) -> SettingsForm {
        SettingsForm::of::<Slurm>()
    }

    fn scheduler(&self, store: Arc<dyn Store>) -> Arc<dyn Scheduler> {
        Arc::new(SlurmJobs::new(store))
    }

    async fn probe(&self, name: &str, system: &System) -> Result<ClusterStatus, PortError> {
        match system.read() {
            Ok(slurm) => probe::probe(name, &slurm).await,
            Err(error) => Ok(ClusterStatus::Broken(format!("{name}: {error}"))),
        }
    }
}
