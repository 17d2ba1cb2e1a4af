use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ClusterAccess;

/// A cluster that accepts jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "StoredCluster")]
pub struct Cluster {
    /// Name in its own system.
    pub name: String,
    /// Nodes that accept jobs.
    pub nodes: Vec<Node>,
    /// The agent's access to the cluster.
    pub access: ClusterAccess,
}

/// A cluster that accepts jobs. One of `access` and `endpoint` is present.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Cluster")]
struct StoredCluster {
    /// Name in its own system.
    name: String,
    /// Nodes that accept jobs.
    nodes: Vec<Node>,
    /// The agent's access to the cluster.
    #[serde(default)]
    access: Option<ClusterAccess>,
    /// The access in older records, as text.
    #[serde(default)]
    endpoint: Option<String>,
}

impl TryFrom<StoredCluster> for Cluster {
    type Error = String;

    fn try_from(stored: StoredCluster) -> Result<Self, String> {
        let access = match (stored.access, stored.endpoint) {
            (Some(access), _) => access,
            (None, Some(endpoint)) => ClusterAccess::of_endpoint(&endpoint)
                .map_err(|error| format!("cluster {}: endpoint: {error}", stored.name))?,
            (None, None) => return Err(format!("cluster {}: `access` is missing", stored.name)),
        };
        Ok(Self { name: stored.name, nodes: stored.nodes, access })
    }
}

impl Cluster {
    /// Number of ranks of a benchmark: one per slot.
    pub fn slots(&self) -> u32 {
        self.nodes.iter().map(|node| node.slots).sum()
    }
}

/// A node of a cluster, with its numbers of slots and GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Host name in the scheduler.
    pub name: String,
    /// Number of GPUs, or 1 for a node without GPUs.
    pub slots: u32,
    /// GPUs that the cluster's settings state for the node; absent if they state none. The number includes GPUs that the node has lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
}

impl Node {
    /// A node whose settings state no GPUs.
    pub fn new(name: impl Into<String>, slots: u32) -> Self {
        Self { name: name.into(), slots, gpus: None }
    }

    /// Name for a node that the scheduler chooses when a job starts.
    pub fn placeholder(number: usize) -> String {
        format!("any-{number}")
    }

    /// Whether this is the name of a node that the scheduler chooses when a job starts.
    pub fn is_placeholder(name: &str) -> bool {
        let number = name.strip_prefix("any-");
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    }
}
