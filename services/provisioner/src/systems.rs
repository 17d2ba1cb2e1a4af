//! Every kind of cluster that a provisioner can bring, behind one door.

use model::{Class, Cluster, Deleted, Failure, Kubernetes, Node, System};
use service::PortError;

use crate::{
    deployed::DeployedClusters,
    port::{Clusters, Listing, Order, Standing},
    processes::ProcessClusters,
    slurm,
};

/// Clusters by their system. A name tells nothing of its system, so whatever knows it answers; and a name that is given
/// back is given back everywhere.
pub struct Systems {
    /// Those that steps bring up.
    pub deployed: DeployedClusters,
    /// Those of this host; none where the provisioner's host comes and goes.
    pub processes: Option<ProcessClusters>,
}

/// A Kubernetes that is there. Without the feature nobody asks it: what it lacks the agent finds out.
async fn named(name: &str, settings: &Kubernetes) -> Result<Standing, PortError> {
    if let Some((field, problem)) = settings.problems().first() {
        return Ok(Standing::Broken(format!("{name}: {field}: {problem}")));
    }
    #[cfg(feature = "kubernetes")]
    return crate::kubernetes::look(name, settings).await;
    #[cfg(not(feature = "kubernetes"))]
    Ok(any(name, settings))
}

/// Ready. Which of its nodes a job gets only its scheduler knows, when it begins; unless it gets all there are.
pub(crate) fn any(name: &str, settings: &Kubernetes) -> Standing {
    ready(name, settings, (0..settings.nodes).map(|number| format!("any-{number}")).collect())
}

pub(crate) fn ready(name: &str, settings: &Kubernetes, mut nodes: Vec<String>) -> Standing {
    nodes.sort();
    let nodes = nodes.into_iter().map(|name| Node { name, slots: settings.ranks_per_node }).collect();
    Standing::Ready(Cluster { name: name.to_owned(), nodes, endpoint: settings.endpoint() })
}

#[async_trait::async_trait]
impl Clusters for Systems {
    async fn create(&self, order: &Order) -> Result<String, PortError> {
        match (&order.system, &self.processes) {
            (System::Deployed(_), _) => self.deployed.create(order).await,
            (System::Processes { .. }, Some(processes)) => processes.create(order).await,
            (system, _) => {
                let why = format!("a cluster of {} cannot be rented here", system.name());
                Err(PortError::Final(Failure::new(Class::Input, "NOT_FOR_RENT", why)))
            }
        }
    }

    async fn look(&self, name: &str) -> Result<Standing, PortError> {
        match (self.deployed.look(name).await?, &self.processes) {
            (Standing::Absent, Some(processes)) => processes.look(name).await,
            (standing, _) => Ok(standing),
        }
    }

    async fn find(&self, system: &System, name: &str) -> Result<Standing, PortError> {
        match (system, &self.processes) {
            (System::Slurm(slurm), _) => slurm::look(name, slurm).await,
            (System::Kubernetes(kubernetes), _) => named(name, kubernetes).await,
            (System::Processes { .. }, Some(processes)) => processes.look(name).await,
            _ => Ok(Standing::Absent),
        }
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        let knows = self.deployed.knows(name).await?;
        let deployed = self.deployed.delete(name).await;
        match &self.processes {
            // Processes are ended also where nothing can be noted, as on a full disk.
            Some(processes) => {
                let gone = processes.delete(name).await?;
                deployed.map(|deployed| if knows { deployed } else { gone })
            }
            None => deployed,
        }
    }

    async fn list(&self) -> Result<Listing, PortError> {
        let mut listing = self.deployed.list().await?;
        if let Some(processes) = &self.processes {
            listing.clusters.extend(processes.list().await?.clusters);
        }
        Ok(listing)
    }
}
