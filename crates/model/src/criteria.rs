//! How a result is judged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ByteSize, Collective};

/// How a result is judged. The version of a criteria is the digest of its content, taken where it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Criteria {
    /// Short name.
    pub name: String,
    /// Where the numbers come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Every element must have been checked.
    #[serde(default = "yes")]
    pub require_check: bool,
    /// The network the data has to go over, as NCCL names it: `FasTrak`, `gIB`, `IB`. The log must show it (NCCL_DEBUG=INFO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Ranks on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_per_node: Option<u32>,
    /// Fewest nodes that may take part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_nodes: Option<u32>,
    /// Lower bounds on bus bandwidth.
    #[serde(default)]
    pub floors: Vec<Floor>,
    /// What others measured on the same kind of system. With any of them, one has to fit the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// Judge by the cluster's own passed runs as well, once there are five. Not where runs do not repeat themselves.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub history: bool,
    /// The bandwidth is not bounded, on purpose: only the data is judged. Without it a workflow whose criteria have neither
    /// floors nor references is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub data_only: bool,
    /// The rule for a table of one rank, which measures no link.
    #[serde(default, skip_serializing_if = "OneRank::is_default")]
    pub one_rank: OneRank,
    /// How far below a reference is still good.
    #[serde(default, skip_serializing_if = "Tolerance::is_default")]
    pub tolerance: Tolerance,
}

fn yes() -> bool {
    true
}

impl Criteria {
    /// Asks for nothing but checked data.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: None,
            require_check: true,
            network: None,
            ranks_per_node: None,
            min_nodes: None,
            floors: Vec::new(),
            references: Vec::new(),
            history: true,
            data_only: false,
            one_rank: OneRank::default(),
            tolerance: Tolerance::default(),
        }
    }
}

/// The rule for a table of one rank: floors and references do not apply to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OneRank {
    /// Inconclusive, where there are floors or references: they were not met.
    #[default]
    Inconclusive,
    /// By its data alone. For criteria that state nothing about links, such as those of any single machine.
    Data,
}

impl OneRank {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A lower bound: both placements of this size must reach it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Message size, bytes.
    #[serde(deserialize_with = "ByteSize::bytes")]
    #[schemars(with = "ByteSize")]
    pub size_bytes: u64,
    /// Bus bandwidth, GB/s.
    #[schemars(range(min = 0.0))]
    pub busbw: f64,
}

/// A curve that somebody measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The collective it is of.
    pub collective: Collective,
    /// Number of ranks it was measured with, where the curve depends on it: other runs are not compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Who measured it, where and when.
    pub source: String,
    /// Its points: every one has to be measured. Bus bandwidth above them is never a failure.
    pub points: Vec<Floor>,
}

/// How far below a reference the bus bandwidth may be, as a part of it, by region of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tolerance {
    /// At least 0.8 of the best bandwidth: 0.1 is 10 %.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub plateau: f64,
    /// Between the two.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub slope: f64,
    /// The time hardly depends on the size.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub latency: f64,
}

impl Default for Tolerance {
    /// Other people's clusters are like ours within 10 % where it counts.
    fn default() -> Self {
        Self { plateau: 0.1, slope: 0.25, latency: 0.5 }
    }
}

impl Tolerance {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
