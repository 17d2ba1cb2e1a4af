//! Metrics and findings: the result of any benchmark or check, for each node, GPU, link, pair or rank.
//!
//! These types are part of the document `burnin/parse/v1`: their field names are an interface.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::{Arc, OnceLock},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of one subject, as printed by the program.
///
/// It has either a `value` or a reason why the program could not measure it. A metric that is absent from the log has neither: the coverage
/// check reports it as missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Stable name: lower case, parts separated by dots, without unit and subject: `memory.h2d`, `gemm`.
    pub name: Arc<str>,
    /// Unit of the value, such as `GB/s` (10^9 bytes), `us`, `TFLOP/s`, `count`; `1` for a ratio.
    pub unit: Arc<str>,
    /// Direction of improvement.
    pub better: Better,
    /// Kind of subject.
    pub scope: Scope,
    /// The measured part of the cluster.
    pub subject: Subject,
    /// Properties that distinguish values of the same name, such as `size: 8388608`, `dtype: bf16`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub labels: Labels,
    /// The finite value; null if the program could not measure it.
    pub value: Option<f64>,
    /// Smallest difference of two printed values, in the metric's unit: 0.01 for `51.47`. Smaller differences have no meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// Reason, as printed, why the program could not measure the value, such as `Waived`; null for a measured value.
    pub unmeasurable: Option<Arc<str>>,
    /// Line of the log, starting at 1.
    pub line: u64,
}

/// Names and values of labels, in the order of the names. Clones share the memory, because most metrics of a log have equal labels.
#[derive(Clone, Default)]
pub struct Labels(Option<Arc<LabelMap>>);

/// Labels whose map is built at the first access: a map takes several allocations, and a log may have thousands of labels with one number,
/// such as `repetition`.
struct LabelMap {
    #[expect(clippy::box_collection, reason = "labels with a number, which have no map, take 24 bytes less")]
    map: OnceLock<Box<BTreeMap<String, String>>>,
    /// The only label, if its value is a number.
    number: Option<(&'static str, u64)>,
}

impl Labels {
    /// One label whose value is a number.
    pub fn number(name: &'static str, number: u64) -> Self {
        Self(Some(Arc::new(LabelMap { map: OnceLock::new(), number: Some((name, number)) })))
    }

    /// Sets a label. Labels that other metrics share are copied first.
    pub fn insert(&mut self, name: String, value: String) {
        let mut map = (**self).clone();
        map.insert(name, value);
        *self = map.into();
    }
}

impl Deref for Labels {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let Some(labels) = &self.0 else { return &NONE };
        let label = |(name, number): (&str, u64)| (name.to_owned(), number.to_string());
        labels.map.get_or_init(|| Box::new(labels.number.map(label).into_iter().collect()))
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        // Absent labels need no memory.
        if labels.is_empty() {
            return Self(None);
        }
        Self(Some(Arc::new(LabelMap { map: Box::new(labels).into(), number: None })))
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Labels {}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self::from)
    }
}

/// Units with a known meaning. Values in any other unit are not judged unless the criteria name the unit.
const KNOWN_UNITS: [&str; 36] = [
    "1",
    "%",
    "C",
    "W",
    "MHz",
    "count",
    "generation",
    "lanes",
    "B",
    "bytes",
    "KiB",
    "MiB",
    "GiB",
    "B/s",
    "kB/s",
    "KiB/s",
    "MB/s",
    "MiB/s",
    "GB/s",
    "GiB/s",
    "Gb/s",
    "1/s",
    "ops/s",
    "IOPS",
    "Mpps",
    "ns",
    "us",
    "ms",
    "s",
    "MFLOP/s",
    "GFLOP/s",
    "TFLOP/s",
    "PFLOP/s",
    "TFLOP/s/GPU",
    "TOP/s",
    "tokens/s",
];

impl Metric {
    /// Whether the unit has a known meaning.
    #[must_use]
    pub fn has_known_unit(&self) -> bool {
        KNOWN_UNITS.contains(&&*self.unit)
    }
}

/// Direction of improvement of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Bandwidth, throughput.
    Higher,
    /// Latency, duration, number of errors.
    Lower,
    /// The value must equal an expected value.
    Exact,
    /// No direction, such as a temperature: the value is evidence and is judged only if criteria bound it or state a direction.
    None,
}

impl Better {
    /// All directions, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Higher, Self::Lower, Self::Exact, Self::None];

    /// The word of workflows and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Exact => "exact",
            Self::None => "none",
        }
    }
}

/// Kind of subject of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole cluster or job.
    World,
    /// One machine.
    Node,
    /// One GPU.
    Gpu,
    /// One port or lane group of a node, such as an InfiniBand port.
    Link,
    /// Two endpoints: nodes, GPUs or ranks.
    Pair,
    /// One process of a job.
    Rank,
}

impl Scope {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 6] = [Self::World, Self::Node, Self::Gpu, Self::Link, Self::Pair, Self::Rank];
}

/// The part of a cluster that a metric or finding describes. Absent fields are unknown or do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Host name of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// Index of the GPU on its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// Port, such as `mlx5_0/1`, or NVLink, such as `nvlink3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Arc<str>>,
    /// Second endpoint of a pair: a host name; within a node the index of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Arc<str>>,
    /// Rank of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Serial number or UUID of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<Arc<str>>,
    /// PCI bus id, such as `0000:1b:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<Arc<str>>,
}

impl Subject {
    /// A GPU of the log's node.
    #[must_use]
    pub fn gpu(gpu: u32) -> Self {
        Self { gpu: Some(gpu), ..Self::default() }
    }

    /// Whether no field is known: the subject is the whole cluster, or the log's node.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Subject {
    /// `node a1, gpu 3 (serial 165...)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.node.as_ref().map(|node| format!("node {node}")));
        parts.extend(self.gpu.map(|gpu| format!("gpu {gpu}")));
        parts.extend(self.link.as_ref().map(|link| format!("link {link}")));
        parts.extend(self.rank.map(|rank| format!("rank {rank}")));
        parts.extend(self.peer.as_ref().map(|peer| format!("to {peer}")));
        if parts.is_empty() {
            parts.push("the whole cluster".to_owned());
        }
        f.write_str(&parts.join(", "))?;
        match (&self.serial, &self.bus_id) {
            (Some(serial), _) => write!(f, " (serial {serial})"),
            (None, Some(bus)) => write!(f, " (bus {bus})"),
            (None, None) => Ok(()),
        }
    }
}

/// An event or state that a program reported about a subject, such as an Xid or a failed test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable code in upper case: `XID_79`, `GPU_FAULTY`, `DCGM_FAIL`.
    pub code: String,
    /// The affected part of the cluster.
    pub subject: Subject,
    /// Kind of cause.
    pub severity: Severity,
    /// The program's own text, at most 400 characters.
    pub text: String,
    /// Line of the log, starting at 1.
    pub line: u64,
}

/// Kind of cause of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Cause unknown.
    Unknown,
    /// An application or driver error, possibly without a hardware defect.
    Software,
    /// A setting of the operator, such as persistence mode.
    Configuration,
    /// Wrong results of a computation or transfer.
    WrongData,
    /// A defect of a device, a link or memory.
    Hardware,
}

/// A GPU that a log names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// The GPU as a subject: index, and node, serial number and bus id where the log has them.
    pub subject: Subject,
    /// Device name, such as `NVIDIA H100 80GB HBM3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
