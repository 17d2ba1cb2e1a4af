//! The request of a cluster, in its folder.

use std::{collections::BTreeMap, io, path::Path};

use model::{Node, Timestamp};
use serde::{Deserialize, Serialize};

use crate::lock_files;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRequest {
    /// Nodes with their slots; each is one process.
    pub nodes: Vec<Node>,
    /// Time at which every node ends by itself.
    pub expires_at: Timestamp,
    /// Labels, evaluated by the sweeper.
    pub labels: BTreeMap<String, String>,
}

/// The request; `None` if it is absent, or after the cluster was released.
pub(crate) fn read(folder: &Path) -> io::Result<Option<ClusterRequest>> {
    lock_files::read_json(&folder.join("cluster.json"))
}
