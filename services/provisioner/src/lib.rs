//! The provisioner: creates and deletes clusters. No other service may provision.
//!
//! | command | fact |
//! |---|---|
//! | `cluster.create` | `cluster.accepted`, then `cluster.ready` or `cluster.failed` |
//! | `cluster.observe` | the same, for the current state; no fact while the cluster is starting |
//! | `cluster.delete` | `cluster.deleted`, once the provider confirms that no resource remains; an absent cluster is reported as deleted |
//!
//! Idempotent by name: a cluster is named after its run and attempt, and an existing one is adopted.

#[cfg(feature = "gcp")]
pub mod notification;
mod providers;
pub mod sweep;

use std::sync::Arc;

use cluster_api::{ClusterProvider, ClusterStatus, LeaseRequest};
use model::{Body, Class, ClusterSpec, Command, CommandId, Fact, Failure, Handle, Span, Timestamp};
use service::{CommandError, PollResult, Pollers, PortError, Publisher, Worker};

pub use providers::Providers;
pub use sweep::{SweepResult, Sweeper, SweptCluster, release, sweep};

/// The provisioner's handler, over any [`ClusterProvider`].
pub struct Provisioner {
    clusters: Arc<dyn ClusterProvider>,
    pollers: Pollers,
    every: Span,
}

impl Provisioner {
    /// Event types that the provisioner handles.
    pub const HANDLED_EVENTS: [&'static str; 3] =
        ["dev.burnin.cluster.create.v1", "dev.burnin.cluster.observe.v1", "dev.burnin.cluster.delete.v1"];

    /// `every`: poll interval of clusters that start or stop.
    pub fn new(clusters: Arc<dyn ClusterProvider>, every: Span) -> Self {
        Self { clusters, pollers: Pollers::default(), every }
    }

    async fn create(
        &self,
        id: &CommandId,
        spec: &ClusterSpec,
        name: &str,
        expires_at: Option<Timestamp>,
        publisher: &Publisher,
    ) -> Result<(), CommandError> {
        if let (ClusterSpec::Provisioned(system), Some(expires_at)) = (spec, expires_at) {
            let order =
                LeaseRequest { id: id.clone(), name: name.to_owned(), system: system.clone(), expires_at };
            match self.clusters.create(&order).await {
                Ok(handle) => publisher.publish_fact(id, Fact::ClusterAccepted(Handle { handle })).await?,
                Err(error) => return publisher.publish_result(id, Err(error)).await,
            }
        }
        self.observe(id, spec, name, publisher).await
    }

    async fn observe(
        &self,
        id: &CommandId,
        spec: &ClusterSpec,
        name: &str,
        publisher: &Publisher,
    ) -> Result<(), CommandError> {
        match poll(&*self.clusters, spec, name).await {
            Ok(PollResult::Ended(fact)) => Ok(publisher.publish_fact(id, fact).await?),
            Ok(PollResult::Running) => {
                let (clusters, spec, name) = (Arc::clone(&self.clusters), spec.clone(), name.to_owned());
                self.pollers.poll(id, publisher, self.every, move || {
                    let (clusters, spec, name) = (Arc::clone(&clusters), spec.clone(), name.clone());
                    async move { poll(&*clusters, &spec, &name).await }
                });
                Ok(())
            }
            Err(error) => publisher.publish_result(id, Err(error)).await,
        }
    }
}

/// State of a provisioned cluster by name, or of an existing cluster by its settings.
async fn poll(
    clusters: &dyn ClusterProvider,
    spec: &ClusterSpec,
    name: &str,
) -> Result<PollResult, PortError> {
    let status = match spec {
        ClusterSpec::Provisioned(_) => clusters.poll(name).await?,
        ClusterSpec::Existing { system, .. } => clusters.find(system, name).await?,
    };
    Ok(poll_result(status))
}

fn poll_result(status: ClusterStatus) -> PollResult {
    let failed =
        |class, code, why: String| PollResult::Ended(Fact::ClusterFailed(Failure::new(class, code, why)));
    match status {
        ClusterStatus::Starting => PollResult::Running,
        ClusterStatus::Ready(cluster) => PollResult::Ended(Fact::ClusterReady(cluster)),
        ClusterStatus::Absent => {
            failed(Class::Infrastructure, "ABSENT", "the provider has no cluster of this name".to_owned())
        }
        ClusterStatus::Broken(why) => failed(Class::Infrastructure, "BROKEN", why),
        ClusterStatus::Busy(why) => failed(Class::Yielded, "NO_IDLE_NODES", why),
    }
}

#[async_trait::async_trait]
impl Worker for Provisioner {
    fn name(&self) -> &'static str {
        "provisioner"
    }

    async fn perform(&self, command: &Command, publisher: &Publisher) -> Result<(), CommandError> {
        let id = &command.id;
        match &command.body {
            Body::ClusterCreate { spec, name, expires_at } => {
                self.create(id, spec, name, *expires_at, publisher).await
            }
            Body::ClusterObserve { spec, name } => self.observe(id, spec, name, publisher).await,
            Body::ClusterDelete { spec: ClusterSpec::Provisioned(_), name } => {
                match self.clusters.delete(name).await {
                    Ok(deleted) => Ok(publisher.publish_fact(id, Fact::ClusterDeleted(deleted)).await?),
                    // A deletion is owed until it is done: an error is retried, never reported as a failure.
                    Err(PortError::Transient(why)) => Err(CommandError::Transient(why)),
                    Err(PortError::Permanent(failure)) => Err(CommandError::Transient(failure.message)),
                }
            }
            _ => Err(CommandError::Permanent("the provisioner handles only the cluster stage".to_owned())),
        }
    }
}
