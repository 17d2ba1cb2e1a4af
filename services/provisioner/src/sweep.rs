//! The independent sweeper: deletes clusters whose lease has expired.
//!
//! It reads neither ledger nor bus, so that it works when both are lost or wrong: it uses only the provider's list, labels and clock. It
//! never deletes a cluster with an unexpired lease or without an expiry label, and reports a cluster as deleted only if the provider
//! confirms the deletion and no longer lists it.

use std::sync::Arc;

use model::{Deleted, Span, Timestamp};
use service::{PortError, serve::PeriodicTask};
use tracing::warn;

use cluster_api::{ClusterProvider, ListedCluster};

/// Result of the sweep for a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepResult {
    /// The cluster's lease has not expired, or the grace period for its release has not ended.
    Kept {
        /// End of the grace period.
        until: Timestamp,
    },
    /// The cluster has no valid expiry label: a person has to check the cluster.
    Unlabelled,
    /// Lease expired; not deleted, because the sweep is a dry run.
    Due,
    /// Lease expired, and the provider confirmed the deletion.
    Deleted(Deleted),
    /// Lease expired, but the cluster was not deleted, with the reason. The next sweep retries.
    DeletionFailed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweptCluster {
    /// Cluster with its labels, from the provider's list.
    pub cluster: ListedCluster,
    pub outcome: SweepResult,
}

/// The sweeper as a periodic task: fails if an expired cluster remains.
pub struct Sweeper {
    clusters: Arc<dyn ClusterProvider>,
    grace: Span,
}

impl Sweeper {
    /// `grace`: grace period between the end of a lease and the deletion of its cluster.
    pub fn new(clusters: Arc<dyn ClusterProvider>, grace: Span) -> Self {
        Self { clusters, grace }
    }
}

#[async_trait::async_trait]
impl PeriodicTask for Sweeper {
    fn name(&self) -> &'static str {
        "sweep"
    }

    async fn run(&self) -> Result<(), String> {
        let swept = sweep(&*self.clusters, self.grace, true).await.map_err(|error| match error {
            PortError::Transient(why) => why,
            PortError::Permanent(failure) => failure.message,
        })?;
        let mut remaining = Vec::new();
        for SweptCluster { cluster, outcome } in swept {
            match outcome {
                SweepResult::Kept { .. } => {}
                SweepResult::Deleted(deleted) => {
                    warn!(
                        cluster = cluster.name,
                        run.id = cluster.run,
                        "deleted after its lease expired: {}",
                        deleted.evidence
                    );
                }
                SweepResult::Unlabelled => {
                    warn!(cluster = cluster.name, "no expiry label: check it manually")
                }
                SweepResult::Due => remaining.push(cluster.name),
                SweepResult::DeletionFailed(why) => remaining.push(format!("{}: {why}", cluster.name)),
            }
        }
        if remaining.is_empty() {
            Ok(())
        } else {
            Err(format!("expired clusters remain: {}", remaining.join("; ")))
        }
    }
}

/// Checks every cluster. If `really` is set, deletes each cluster whose lease ended more than `grace` ago.
///
/// # Errors
/// Returns an error if the provider's list is unavailable. A failed deletion is part of the result.
pub async fn sweep(
    clusters: &dyn ClusterProvider,
    grace: Span,
    really: bool,
) -> Result<Vec<SweptCluster>, PortError> {
    let listing = clusters.list().await?;
    let mut swept = Vec::new();
    for cluster in listing.clusters {
        let outcome = match cluster.expires_at.map(|expires_at| expires_at + grace) {
            None => SweepResult::Unlabelled,
            Some(until) if listing.at < until => SweepResult::Kept { until },
            Some(_) if !really => SweepResult::Due,
            Some(_) => delete(clusters, &cluster.name).await,
        };
        swept.push(SweptCluster { cluster, outcome });
    }
    if swept.iter().any(|swept| matches!(swept.outcome, SweepResult::Deleted(_))) {
        confirm_deletions(&mut swept, clusters).await;
    }
    Ok(swept)
}

/// Deletes one listed cluster before its lease ends; `None` if it is not listed.
///
/// # Errors
/// Returns an error if the provider's list is unavailable. A failed deletion is part of the result.
pub async fn release(clusters: &dyn ClusterProvider, name: &str) -> Result<Option<SweptCluster>, PortError> {
    let listed = clusters.list().await?.clusters.into_iter().find(|cluster| cluster.name == name);
    let Some(cluster) = listed else { return Ok(None) };
    let mut swept = [SweptCluster { outcome: delete(clusters, name).await, cluster }];
    confirm_deletions(&mut swept, clusters).await;
    let [swept] = swept;
    Ok(Some(swept))
}

async fn delete(clusters: &dyn ClusterProvider, name: &str) -> SweepResult {
    match clusters.delete(name).await {
        Ok(deleted) => SweepResult::Deleted(deleted),
        Err(PortError::Transient(why)) => SweepResult::DeletionFailed(why),
        Err(PortError::Permanent(failure)) => SweepResult::DeletionFailed(failure.message),
    }
}

/// Providers have confirmed deletions that did not happen: a cluster is reported as deleted only if it is no longer listed.
async fn confirm_deletions(swept: &mut [SweptCluster], clusters: &dyn ClusterProvider) {
    let listing = clusters.list().await;
    for swept in swept.iter_mut().filter(|swept| matches!(swept.outcome, SweepResult::Deleted(_))) {
        let why = match &listing {
            Ok(listing) if listing.clusters.iter().any(|listed| listed.name == swept.cluster.name) => {
                "the provider confirmed the deletion but still lists the cluster".to_owned()
            }
            Ok(_) => continue,
            Err(PortError::Transient(why)) => format!("deletion unconfirmed: {why}"),
            Err(PortError::Permanent(failure)) => {
                format!("deletion unconfirmed: {}", failure.message)
            }
        };
        swept.outcome = SweepResult::DeletionFailed(why);
    }
}
