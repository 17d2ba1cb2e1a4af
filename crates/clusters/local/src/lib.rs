//! Clusters of this machine's processes: a node is a process, or the whole machine if it has GPUs.

pub mod provider;
pub mod scheduler;

use std::sync::Arc;

use cluster_api::{
    ClusterKind, ClusterLayout, ClusterStatus, Scheduler, Settings, SettingsForm, SettingsProblems,
    settings::not_in_range,
};
use ledger::Store;
use model::{PROCESSES, System};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use service::PortError;

pub use provider::{LocalClusters, gpus};
pub use scheduler::LocalJobs;

/// Processes on the agent's host, one per node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Processes")]
pub struct LocalSettings {
    /// Number of nodes, 1 to 64. A host with GPUs is always one node with all its GPUs.
    #[schemars(range(min = 1, max = 64))]
    pub nodes: u32,
}

impl Settings for LocalSettings {
    const KIND: &'static str = PROCESSES;
    const DESCRIPTION: &'static str = "Processes on the agent's host, one per node.";
    const LEAST: &'static str = r#"{"nodes": 1}"#;

    fn problems(&self) -> SettingsProblems {
        not_in_range(self.nodes, 64).map(|problem| ("nodes".to_owned(), problem)).into_iter().collect()
    }

    /// The number of ranks depends on the host's GPUs.
    fn layout(&self) -> Option<ClusterLayout> {
        None
    }
}

pub struct LocalKind;

#[async_trait::async_trait]
impl ClusterKind for LocalKind {
    fn form(&self) -> SettingsForm {
        SettingsForm::of::<LocalSettings>()
    }

    fn can_be_offered(&self) -> bool {
        false
    }

    fn can_be_deployed(&self) -> bool {
        false
    }

    fn scheduler(&self, store: Arc<dyn Store>) -> Arc<dyn Scheduler> {
        Arc::new(LocalJobs::new(store))
    }

    /// Clusters of this kind are visible only to a [`LocalClusters`] of the same host.
    async fn probe(&self, _: &str, _: &System) -> Result<ClusterStatus, PortError> {
        Ok(ClusterStatus::Absent)
    }
}
