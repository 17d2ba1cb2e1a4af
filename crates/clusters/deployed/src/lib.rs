//! Clusters that build steps provision and release, with Cluster Toolkit, Ansible or Helm.

pub mod kept;
pub mod provider;

use model::{BuildSpec, DEPLOYED, Node, System};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use kept::RetentionPeriods;
pub use provider::DeployedClusters;

/// A cluster that Cloud Build configs provision and release. The steps receive these substitutions, if their config declares
/// them: `_CLUSTER`, the cluster's name, with which the steps must label every created resource; `_RUN`; `_EXPIRES`, the time at which the
/// cluster must end by itself, in seconds since 1970; `_STATE`, a folder in the artefact bucket reserved for this cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deployed {
    /// Provisions the cluster. Writes the file `cluster.json`: [`DeployedCluster`].
    pub deploy: BuildSpec,
    /// Releases the cluster, even if only partly provisioned, and checks for remaining resources. Writes the file `gone.json`:
    /// [`Destroyed`].
    pub destroy: BuildSpec,
    /// Parts that are kept after the run for later runs, with their retention period: `{base: 30d, image: 30d}`. The steps state which
    /// parts they support: `deploy` declares `_BASE` for the part `base`, `destroy` declares `_KEEP`.
    #[serde(default, skip_serializing_if = "RetentionPeriods::is_empty")]
    pub keep: RetentionPeriods,
    /// Kind and settings of the provisioned cluster. `cluster.json` supplies settings that are known only after the
    /// deployment.
    #[serde(flatten)]
    #[schemars(skip)]
    pub system: System,
}

impl Deployed {
    pub fn to_system(&self) -> System {
        System::new(DEPLOYED, self)
    }

    /// The settings of a deployed system; `None` for other systems.
    pub fn of(system: &System) -> Option<Self> {
        (system.kind() == DEPLOYED).then(|| system.read().ok()).flatten()
    }
}

/// Result of a deployment: its file `cluster.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeployedCluster {
    /// All nodes of the cluster that accept jobs.
    pub nodes: Vec<Node>,
    /// Settings known only after the deployment, under the name of the cluster's kind. They override the workflow's
    /// settings.
    #[serde(flatten)]
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// Remaining resources of a deployment: its file `gone.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Destroyed {
    /// Resources that still exist, from the provider's own lists.
    pub left: Vec<String>,
    /// The provider's lists that were checked, as text.
    pub evidence: String,
}
