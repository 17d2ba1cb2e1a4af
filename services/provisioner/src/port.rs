//! What the provisioner needs of the outside world.

use kit::PortError;
use terms::{Cluster, CommandId, Deleted, System, Timestamp};

/// A cluster to rent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The command that asks; run and attempt become labels.
    pub id: CommandId,
    /// Its name.
    pub name: String,
    /// What kind.
    pub system: System,
    /// When it has to end by itself, whoever is still alive to end it.
    pub expires_at: Timestamp,
}

/// Where a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The provider knows no such cluster.
    Absent,
    /// It is coming up.
    Coming,
    /// It takes jobs.
    Ready(Cluster),
    /// It will not come up, or broke down.
    Broken(String),
}

/// Somewhere clusters can be rented.
#[async_trait::async_trait]
pub trait Clusters: Send + Sync + 'static {
    /// Asks for a cluster; one of that name is adopted. Returns the provider's handle.
    ///
    /// # Errors
    /// [`PortError::Final`] when there can never be one.
    async fn create(&self, order: &Order) -> Result<String, PortError>;

    /// Where a cluster stands.
    ///
    /// # Errors
    /// When the provider does not answer.
    async fn look(&self, name: &str) -> Result<Standing, PortError>;

    /// Gives a cluster back, and returns once the provider confirms that nothing of it is left. Absent is confirmed.
    ///
    /// # Errors
    /// When something is left or the provider does not answer.
    async fn delete(&self, name: &str) -> Result<Deleted, PortError>;
}
