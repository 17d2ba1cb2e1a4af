//! Dispatches to the provider of each kind of cluster.

use model::{Class, Cluster, Deleted, Failure, Kubernetes, Node, System};
use service::PortError;

use crate::{
    deployed::DeployedClusters,
    port::{ClusterListing, ClusterProvider, ClusterStatus, Order},
    processes::ProcessClusters,
    slurm,
};

/// Clusters by their system. A name does not contain its system, so every provider is asked for it; a deletion is sent to all
/// providers.
pub struct Systems {
    /// Clusters deployed by steps.
    pub deployed: DeployedClusters,
    /// Clusters of this host; `None` if the provisioner's host is ephemeral.
    pub processes: Option<ProcessClusters>,
}

/// Checks an existing Kubernetes cluster. Without the feature nothing is checked here: the agent reports what is missing.
async fn named(name: &str, settings: &Kubernetes) -> Result<ClusterStatus, PortError> {
    if let Some((field, problem)) = settings.problems().first() {
        return Ok(ClusterStatus::Broken(format!("{name}: {field}: {problem}")));
    }
    #[cfg(feature = "kubernetes")]
    return crate::kubernetes::poll(name, settings).await;
    #[cfg(not(feature = "kubernetes"))]
    Ok(any(name, settings))
}

/// Ready. The scheduler chooses a job's nodes when it starts, so they are known only if the job uses all nodes.
pub(crate) fn any(name: &str, settings: &Kubernetes) -> ClusterStatus {
    ready(name, settings, (0..settings.nodes).map(|number| format!("any-{number}")).collect())
}

pub(crate) fn ready(name: &str, settings: &Kubernetes, mut nodes: Vec<String>) -> ClusterStatus {
    nodes.sort();
    let nodes = nodes.into_iter().map(|name| Node { name, slots: settings.ranks_per_node }).collect();
    ClusterStatus::Ready(Cluster { name: name.to_owned(), nodes, endpoint: settings.endpoint() })
}

#[async_trait::async_trait]
impl ClusterProvider for Systems {
    async fn create(&self, order: &Order) -> Result<String, PortError> {
        match (&order.system, &self.processes) {
            (System::Deployed(_), _) => self.deployed.create(order).await,
            (System::Processes { .. }, Some(processes)) => processes.create(order).await,
            (system, _) => {
                let why = format!("a cluster of {} cannot be provisioned here", system.name());
                Err(PortError::Permanent(Failure::new(Class::Input, "NOT_FOR_RENT", why)))
            }
        }
    }

    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError> {
        match (self.deployed.poll(name).await?, &self.processes) {
            (ClusterStatus::Absent, Some(processes)) => processes.poll(name).await,
            (standing, _) => Ok(standing),
        }
    }

    async fn find(&self, system: &System, name: &str) -> Result<ClusterStatus, PortError> {
        match (system, &self.processes) {
            (System::Slurm(slurm), _) => slurm::poll(name, slurm).await,
            (System::Kubernetes(kubernetes), _) => named(name, kubernetes).await,
            (System::Processes { .. }, Some(processes)) => processes.poll(name).await,
            _ => Ok(ClusterStatus::Absent),
        }
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        let knows = self.deployed.knows(name).await?;
        let deployed = self.deployed.delete(name).await;
        match &self.processes {
            // Stop processes even if nothing can be recorded, such as on a full disk.
            Some(processes) => {
                let gone = processes.delete(name).await?;
                deployed.map(|deployed| if knows { deployed } else { gone })
            }
            None => deployed,
        }
    }

    async fn list(&self) -> Result<ClusterListing, PortError> {
        let mut listing = self.deployed.list().await?;
        if let Some(processes) = &self.processes {
            listing.clusters.extend(processes.list().await?.clusters);
        }
        Ok(listing)
    }
}
