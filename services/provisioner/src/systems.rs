//! Every kind of cluster that a provisioner can bring, behind one door.

use kit::PortError;
use terms::{Class, Cluster, Deleted, Failure, Kubernetes, Node, System};

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

/// A Kubernetes that is there. Which of its nodes a job gets only its scheduler knows, and whether its API answers the
/// agent finds out, which alone has credentials for it.
fn named(name: &str, kubernetes: &Kubernetes) -> Standing {
    if let Some((field, problem)) = kubernetes.problems().first() {
        return Standing::Broken(format!("{name}: {field}: {problem}"));
    }
    let node = |number| Node { name: format!("any-{number}"), slots: kubernetes.ranks_per_node };
    let nodes = (0..kubernetes.nodes).map(node).collect();
    Standing::Ready(Cluster { name: name.to_owned(), nodes, endpoint: kubernetes.endpoint() })
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
            (System::Kubernetes(kubernetes), _) => Ok(named(name, kubernetes)),
            (System::Processes { .. }, Some(processes)) => processes.look(name).await,
            _ => Ok(Standing::Absent),
        }
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        let knows = self.deployed.knows(name).await?;
        let deployed = self.deployed.delete(name).await?;
        match &self.processes {
            Some(processes) => {
                let gone = processes.delete(name).await?;
                Ok(if knows { deployed } else { gone })
            }
            None => Ok(deployed),
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
