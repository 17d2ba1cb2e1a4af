//! The port to providers, which create and delete clusters.

use model::{Cluster, CommandId, Deleted, System, Timestamp};
use service::PortError;

/// Request for a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Command that requests the cluster; the command's run and attempt become labels.
    pub id: CommandId,
    /// Name of the cluster at the provider.
    pub name: String,
    /// Kind and settings.
    pub system: System,
    /// End of the lease: the cluster must then end without a request, even if every service is down.
    pub expires_at: Timestamp,
}

/// State of a cluster, as its provider reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterStatus {
    /// The provider has no cluster of this name.
    Absent,
    /// Starting.
    Starting,
    /// Ready for jobs.
    Ready(Cluster),
    /// Failed to start, or broken.
    Broken(String),
    /// Fewer idle nodes than requested, for a run that yields to other jobs.
    Busy(String),
}

/// All of Burnin's clusters at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterListing {
    /// The provider's clock at the time of the listing: leases expire by this clock only.
    pub at: Timestamp,
    /// Every existing cluster with Burnin's labels.
    pub clusters: Vec<ListedCluster>,
}

/// A cluster in the provider's list, with the labels that Burnin set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCluster {
    /// Name of the cluster at the provider.
    pub name: String,
    /// Label: the run that requested the cluster.
    pub run: String,
    /// Label: end of the lease. `None` if the label is missing or invalid: such a cluster is never deleted
    /// automatically.
    pub expires_at: Option<Timestamp>,
}

/// Creates, lists and deletes clusters of an external system.
#[async_trait::async_trait]
pub trait ClusterProvider: Send + Sync + 'static {
    /// Creates a cluster, or reuses an existing cluster of that name. Returns the provider's handle.
    ///
    /// # Errors
    /// Returns an error if the provider request fails: [`PortError::Permanent`] if the cluster can never be created.
    async fn create(&self, order: &LeaseRequest) -> Result<String, PortError>;

    /// State of a cluster.
    ///
    /// # Errors
    /// Returns an error if the provider request fails.
    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError>;

    /// State of an existing cluster that was not provisioned here.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    async fn find(&self, system: &System, name: &str) -> Result<ClusterStatus, PortError> {
        let _ = system;
        self.poll(name).await
    }

    /// Deletes a cluster. Returns once the provider confirms that no resource remains; an absent cluster is reported as deleted.
    ///
    /// # Errors
    /// Returns an error if a resource remains or the provider request fails.
    async fn delete(&self, name: &str) -> Result<Deleted, PortError>;

    /// All of Burnin's existing clusters, in any state.
    ///
    /// # Errors
    /// Returns an error if the provider request fails or the list is incomplete.
    async fn list(&self) -> Result<ClusterListing, PortError>;
}
