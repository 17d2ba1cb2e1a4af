//! Releases a run's clusters after a long outage of the ledger.

use std::sync::Arc;

use cluster_api::ClusterProvider;
use model::{Failure, RunId};
use service::{Clock, PortError, SystemClock};

use crate::local::{DataFolder, clusters, program};

/// Deletes every cluster of a run whose ledger cannot be written. Returns the clusters that could not be deleted, with the reasons.
pub async fn release_directly(data: &DataFolder, run: &RunId) -> Vec<String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let provider = match program() {
        Ok(program) => clusters(data, program, &clock, 0),
        Err(error) => return vec![error.message],
    };
    let listed = match provider.list().await {
        Ok(listed) => listed.clusters,
        Err(PortError::Transient(why) | PortError::Permanent(Failure { message: why, .. })) => {
            return vec![format!("clusters could not be listed: {why}")];
        }
    };
    let mut left = Vec::new();
    for cluster in listed.into_iter().filter(|cluster| cluster.run == run.as_str()) {
        if let Err(PortError::Transient(why)) = provider.delete(&cluster.name).await {
            left.push(format!("{}: {why}", cluster.name));
        }
    }
    left
}
