//! Kubernetes clusters with JobSet and Kueue: settings, the probe of an existing cluster, and one JobSet per job.
//!
//! Without the feature `client` only the settings are built; jobs are refused with `NOT_BUILT`.

#[cfg(feature = "client")]
pub mod api;
#[cfg(feature = "client")]
mod apiserver;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod finding;
#[cfg(feature = "client")]
pub mod follow;
#[cfg(feature = "client")]
pub mod job_notes;
#[cfg(feature = "client")]
pub mod keys;
#[cfg(feature = "client")]
pub mod logs;
#[cfg(feature = "client")]
mod lookup;
#[cfg(feature = "client")]
pub mod manifest;
#[cfg(feature = "client")]
pub mod names;
#[cfg(feature = "client")]
pub mod objects;
#[cfg(feature = "client")]
pub mod probe;
#[cfg(feature = "client")]
pub mod rights;
#[cfg(feature = "client")]
mod scheduler;
#[cfg(feature = "client")]
pub mod script;
mod settings;
#[cfg(feature = "client")]
pub mod state;
#[cfg(feature = "client")]
mod waiting;
#[cfg(not(feature = "client"))]
mod without_client;
#[cfg(feature = "client")]
mod yields;

use std::sync::Arc;

use cluster_api::{ClusterKind, ClusterStatus, Scheduler, Settings, SettingsForm};
use ledger::Store;
use model::{Cluster, Node, System};
use service::PortError;

#[cfg(feature = "client")]
pub use client::client;
#[cfg(feature = "client")]
pub use scheduler::KubernetesJobs;
pub use settings::{ApiAccess, Kubernetes, Launch, Plugin, Topology};
#[cfg(not(feature = "client"))]
pub use without_client::KubernetesJobs;

pub struct KubernetesKind;

#[async_trait::async_trait]
impl ClusterKind for KubernetesKind {
    fn form(&self) -> SettingsForm {
        SettingsForm::of::<Kubernetes>()
    }

    fn runs_containers(&self) -> bool {
        true
    }

    fn scheduler(&self, store: Arc<dyn Store>) -> Arc<dyn Scheduler> {
        Arc::new(KubernetesJobs::new(store))
    }

    /// Without the feature `client` only the settings are checked; the agent reports missing parts.
    async fn probe(&self, name: &str, system: &System) -> Result<ClusterStatus, PortError> {
        let settings: Kubernetes = match system.read() {
            Ok(settings) => settings,
            Err(error) => return Ok(ClusterStatus::Broken(format!("{name}: {error}"))),
        };
        if let Some((field, problem)) = settings.problems().first() {
            return Ok(ClusterStatus::Broken(format!("{name}: {field}: {problem}")));
        }
        #[cfg(feature = "client")]
        return probe::probe(name, &settings).await;
        #[cfg(not(feature = "client"))]
        Ok(ready_on_any_nodes(name, &settings))
    }
}

/// Status `Ready` with placeholder node names: the scheduler chooses the nodes when a job starts, unless the job uses all nodes.
pub(crate) fn ready_on_any_nodes(name: &str, settings: &Kubernetes) -> ClusterStatus {
    ready(name, settings, (0..settings.nodes as usize).map(Node::placeholder).collect())
}

pub(crate) fn ready(name: &str, settings: &Kubernetes, mut nodes: Vec<String>) -> ClusterStatus {
    nodes.sort();
    let node = |name| Node { name, slots: settings.ranks_per_node, gpus: settings.gpus_per_node };
    let nodes = nodes.into_iter().map(node).collect();
    ClusterStatus::Ready(Cluster { name: name.to_owned(), nodes, access: settings.access() })
}
