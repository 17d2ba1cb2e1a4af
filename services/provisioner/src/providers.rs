//! Dispatches to the provider of each provisioned cluster, and to the probe of each kind of existing cluster.

use cluster_api::{ClusterListing, ClusterProvider, ClusterStatus, LeaseRequest};
use cluster_deployed::DeployedClusters;
use cluster_local::LocalClusters;
use model::{Class, DEPLOYED, Deleted, Failure, PROCESSES, System};
use service::PortError;

/// All providers. A name does not contain its kind, so all providers are polled for a cluster, and a deletion is sent
/// to all providers.
pub struct Providers {
    pub deployed: DeployedClusters,
    /// Clusters of this host; `None` if the provisioner's host is ephemeral.
    pub local: Option<LocalClusters>,
}

#[async_trait::async_trait]
impl ClusterProvider for Providers {
    async fn create(&self, order: &LeaseRequest) -> Result<String, PortError> {
        match (order.system.kind(), &self.local) {
            (DEPLOYED, _) => self.deployed.create(order).await,
            (PROCESSES, Some(local)) => local.create(order).await,
            (kind, _) => {
                let why = format!(
                    "this provisioner cannot create a cluster of kind {kind}; use an existing cluster"
                );
                Err(PortError::Permanent(Failure::new(Class::Input, "NOT_FOR_RENT", why)))
            }
        }
    }

    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError> {
        match (self.deployed.poll(name).await?, &self.local) {
            (ClusterStatus::Absent, Some(local)) => local.poll(name).await,
            (status, _) => Ok(status),
        }
    }

    async fn find(&self, system: &System, name: &str) -> Result<ClusterStatus, PortError> {
        match (clusters::kind(system.kind()), &self.local) {
            (Some(_), Some(local)) if system.kind() == PROCESSES => local.poll(name).await,
            (Some(kind), Some(_)) => kind.probe(name, system).await,
            // This provisioner cannot reach the cluster's controller or hosts. The cluster's agent can, and reports errors.
            (Some(kind), None) => Ok(match kind.unchecked(name, system) {
                Ok(cluster) => ClusterStatus::Ready(cluster),
                Err(why) => ClusterStatus::Broken(format!("{name}: {why}")),
            }),
            (None, _) => Ok(ClusterStatus::Absent),
        }
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        let was_requested = self.deployed.was_requested(name).await?;
        let deployed = self.deployed.delete(name).await;
        match &self.local {
            // Stop processes even if the deletion cannot be recorded, such as on a full disk.
            Some(local) => {
                let local_deletion = local.delete(name).await?;
                deployed.map(|deployed| if was_requested { deployed } else { local_deletion })
            }
            None => deployed,
        }
    }

    async fn list(&self) -> Result<ClusterListing, PortError> {
        let mut listing = self.deployed.list().await?;
        if let Some(local) = &self.local {
            listing.clusters.extend(local.list().await?.clusters);
        }
        Ok(listing)
    }
}
