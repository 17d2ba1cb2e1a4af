//! What the provisioner needs of the outside world.

use model::{Cluster, CommandId, Deleted, System, Timestamp};
use service::PortError;

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

/// Everything of ours that a provider has, by its own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The provider's own clock when it answered: nobody else's decides what has expired.
    pub at: Timestamp,
    /// Every cluster that bears our labels and is not gone.
    pub clusters: Vec<Listed>,
}

/// A cluster and its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Label: the run it was made for.
    pub run: String,
    /// Label: when its lease ends. None where the label is missing or cannot be read: then nobody may touch it.
    pub expires_at: Option<Timestamp>,
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

    /// Where a cluster stands that is somebody else's.
    ///
    /// # Errors
    /// When it does not answer.
    async fn find(&self, system: &System, name: &str) -> Result<Standing, PortError> {
        let _ = system;
        self.look(name).await
    }

    /// Gives a cluster back, and returns once the provider confirms that nothing of it is left. Absent is confirmed.
    ///
    /// # Errors
    /// When something is left or the provider does not answer.
    async fn delete(&self, name: &str) -> Result<Deleted, PortError>;

    /// Every cluster of ours that is not gone, whatever state it is in.
    ///
    /// # Errors
    /// When the provider does not answer, or not wholly.
    async fn list(&self) -> Result<Listing, PortError>;
}
