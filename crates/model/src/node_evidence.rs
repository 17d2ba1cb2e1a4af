//! Hardware evidence of a node: changes during a job.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::{Finding, Subject};

/// Evidence of one node before, during and after a job. These types are part of the document `burnin/parse/v1`: their field
/// names are an interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeEvidence {
    /// Host name of the node.
    pub node: String,
    /// Parts of the evidence that are missing, each with the reason, such as `kernel log before the job: ...`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Counters that rose, states that became worse, and new lines of the kernel log. Each names its subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Counters that rose and do not affect the verdict: errors that the hardware corrected. Each names its subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<Finding>,
    /// GPUs of the node, in the order of their indices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuEvidence>,
    /// Versions and settings of the node, such as `kernel: 6.8.0`, `nvidia: 580.159.04`, `net/eth0/mtu: 1460`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// A GPU, its settings, and its state during the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuEvidence {
    /// The GPU with its node, index, serial number and bus id.
    pub subject: Subject,
    /// Versions and settings, by nvidia-smi's names, such as `vbios_version`, `ecc.mode.current`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// State during the job; absent if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub during: Option<GpuSamples>,
}

/// Samples of a GPU during a job, one every 5 s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuSamples {
    /// Number of samples.
    pub count: u64,
    /// Lowest clock of the multiprocessors, MHz.
    pub lowest_clock_mhz: u64,
    /// Highest clock of the multiprocessors, MHz.
    pub highest_clock_mhz: u64,
    /// Highest temperature, degrees Celsius.
    pub highest_temperature_c: u64,
    /// Highest power, W, rounded down.
    pub highest_power_w: u64,
}
