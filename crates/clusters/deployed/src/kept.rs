//! Parts of a deployment that are kept after its run for later runs, such as network, storage or an image.
//!
//! ```text
//! clusters/kept/{key}/{part}/{cluster}   a part that later runs may use, until its lease ends
//! clusters/open/{cluster}-kept           an entry that the sweeper releases like a cluster, and then removes
//! ```
//!
//! The first object is never removed or changed: a part whose lease ended, or whose cluster is released, is not used.
//!
//! `key` is the digest of the deploying steps and their values, except the number of nodes, so that a run uses only parts that it would
//! have created itself. A part is kept by the run that created it, once its deployment succeeded: the teardown receives `_KEEP` and
//! does not delete the part. Later deployments receive the name of that run's cluster as `_BASE`, `_IMAGE`, ...

use std::collections::BTreeMap;

use model::{BuildSpec, Span, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Parts by name, each with its retention period after the run that created it.
pub type RetentionPeriods = BTreeMap<String, Span>;

/// Folder of the kept parts.
pub const KEPT: &str = "clusters/kept/";
/// Suffix of the name under which kept parts are listed as a cluster.
const SUFFIX: &str = "-kept";
/// Substitution of a teardown: names of the parts to keep, separated by commas.
pub const KEEP: &str = "_KEEP";

/// A kept part: object `clusters/kept/{key}/{part}/{cluster}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptPart {
    /// Cluster of the run that created the part.
    pub cluster: String,
    /// End of the part's lease.
    pub expires_at: Timestamp,
}

/// The kept parts of a cluster, as part of the request that releases them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptParts {
    /// Cluster whose deployment created the parts.
    pub cluster: String,
}

/// Name under which the kept parts of `cluster` are listed as a separate cluster.
pub fn name_of(cluster: &str) -> String {
    format!("{cluster}{SUFFIX}")
}

/// Substitution that names the cluster whose part a deployment uses: `_BASE`.
pub fn substitution(part: &str) -> String {
    format!("_{}", part.to_ascii_uppercase())
}

/// Digest of the deploy steps and their values without the number of nodes: deployments with equal digests may share kept parts.
pub fn key(deploy: &BuildSpec) -> String {
    let mut deploy = deploy.clone();
    deploy.substitutions.remove("_NODES");
    let text = serde_json::to_vec(&deploy).unwrap_or_default();
    hex::encode(&Sha256::digest(text)[..12])
}

/// Name of the object that records a kept part.
pub fn object(key: &str, part: &str, cluster: &str) -> String {
    format!("{KEPT}{key}/{part}/{cluster}")
}

/// Whether a name is valid for a part.
pub fn is_part(name: &str) -> bool {
    !name.is_empty() && name.len() <= 20 && name.bytes().all(|letter| letter.is_ascii_lowercase())
}
