//! A list of machines reached by ssh. Open MPI's `mpirun` on the agent's machine starts the ranks.
//!
//! The agent's machine must keep running: a laptop, a login node or a virtual machine, not Cloud Run. `mpirun` runs
//! there under a separate script, so that a job continues after the agent ends; hosts must be able to connect to that
//! machine, as Open MPI requires.

mod folder;
mod hostfile;
pub mod probe;
mod scheduler;
pub mod script;
mod settings;
mod ssh;

use std::sync::Arc;

use cluster_api::{ClusterKind, ClusterStatus, Scheduler, SettingsForm};
use ledger::Store;
use model::{Cluster, System};
use service::PortError;

pub use scheduler::HostsJobs;
pub use settings::{Host, Hosts, Mpi};

/// Machines reached by ssh, as a kind of cluster.
pub struct HostsKind;

#[async_trait::async_trait]
impl ClusterKind for HostsKind {
    fn form(&self) -> SettingsForm {
        SettingsForm::of::<Hosts>()
    }

    /// Returns false: an offer could make this machine use its ssh keys on any host.
    fn can_be_offered(&self) -> bool {
        false
    }

    fn can_be_deployed(&self) -> bool {
        false
    }

    fn scheduler(&self, store: Arc<dyn Store>) -> Arc<dyn Scheduler> {
        Arc::new(HostsJobs::new(store))
    }

    async fn probe(&self, name: &str, system: &System) -> Result<ClusterStatus, PortError> {
        match system.read() {
            Ok(hosts) => probe::probe(name, &hosts).await,
            Err(error) => Ok(ClusterStatus::Broken(format!("{name}: {error}"))),
        }
    }

    fn unchecked(&self, name: &str, system: &System) -> Result<Cluster, String> {
        system.read().map(|hosts| probe::cluster(name, &hosts)).map_err(|error| error.to_string())
    }
}
