//! Requested size of a job, for crates that do not depend on the kinds of clusters.

/// Placement of a job's ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterLayout {
    /// Number of nodes that a job uses.
    pub nodes: u32,
    /// Processes per node.
    pub ranks_per_node: u32,
    /// GPUs per node, if requested.
    pub gpus_per_node: Option<u32>,
}

/// A setting that the build steps of a deployed cluster may also receive as a substitution. The two values must
/// be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitution {
    /// Name of the substitution, such as `_NODES`.
    pub name: &'static str,
    /// Name of the setting, such as `nodes`.
    pub setting: &'static str,
    /// Value of the setting; `None` if it is not set.
    pub value: Option<String>,
}

impl Substitution {
    /// A numeric setting; `None` if it is not set.
    pub fn number(name: &'static str, setting: &'static str, value: Option<u32>) -> Self {
        Self { name, setting, value: value.map(|value| value.to_string()) }
    }

    /// A text setting; `None` if the setting is not set or empty.
    pub fn text(name: &'static str, setting: &'static str, value: Option<&str>) -> Self {
        let value = value.filter(|value| !value.is_empty());
        Self { name, setting, value: value.map(str::to_owned) }
    }
}
