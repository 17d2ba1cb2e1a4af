//! A workflow as it is written down.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use terms::{Collective, Image, Limits, System};

/// `workflows/<name>.yaml`. Paths are relative to the file they stand in.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "A Burnin workflow")]
pub struct WorkflowFile {
    /// Short name: a letter, then lower-case letters, digits and `-`.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9-]{0,30}$"))]
    pub name: String,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// The image the benchmark runs from. Without one the cluster must have the programs.
    pub image: Option<ImageFile>,
    /// The cluster it runs on.
    pub cluster: Option<ClusterFile>,
    /// What is run, and how it is judged.
    pub benchmark: Option<BenchmarkFile>,
    /// How long anything may take, and how often it may be tried.
    #[serde(default)]
    pub limits: Limits,
}

/// Where the image comes from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageFile {
    /// Build it.
    Build(BuildFile),
    /// It was built before.
    Prebuilt(Image),
}

/// A build.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildFile {
    /// A Cloud Build config.
    pub config: PathBuf,
    /// The folder the steps find in their workspace.
    pub source: Option<PathBuf>,
    /// Values for the config's `_NAME` substitutions.
    #[serde(default)]
    pub substitutions: BTreeMap<String, String>,
}

/// Where the cluster comes from.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterFile {
    /// Bring one up for each run and give it back.
    Rent(System),
    /// Use one that is there and leave it alone.
    Existing(ExistingFile),
}

/// A cluster that is there.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExistingFile {
    /// What kind of cluster it is.
    pub system: System,
    /// Its name in its own world.
    pub name: String,
}

/// A benchmark.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkFile {
    /// What is run.
    pub workload: WorkloadFile,
    /// A file that says how it is judged.
    pub criteria: PathBuf,
}

/// One nccl-tests program and its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// The collective.
    pub collective: Collective,
    /// Smallest message (`-b`).
    pub min_bytes: ByteSize,
    /// Largest message (`-e`).
    pub max_bytes: ByteSize,
    /// Each size is the one before times this (`-f`).
    #[serde(default = "two")]
    #[schemars(range(min = 2, max = 1024))]
    pub step_factor: u32,
    /// Timed iterations a size (`-n`).
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100_000))]
    pub iterations: u32,
    /// Untimed iterations before them (`-w`).
    #[serde(default = "five")]
    #[schemars(range(max = 100_000))]
    pub warmup_iterations: u32,
    /// Check the data (`-c`).
    #[serde(default = "yes")]
    pub check: bool,
}

const fn two() -> u32 {
    2
}
const fn five() -> u32 {
    5
}
const fn twenty() -> u32 {
    20
}
const fn yes() -> bool {
    true
}

/// Bytes, as a number or as nccl-tests writes them: `8`, `64K`, `1G`, in powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.char_indices().last() {
            Some((at, 'K' | 'k')) => (&text[..at], 1u64 << 10),
            Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
            Some((at, 'G' | 'g')) => (&text[..at], 1 << 30),
            _ => (text, 1),
        };
        let number: u64 =
            digits.parse().map_err(|_| format!("`{text}` is not a size such as 8, 64K or 1G"))?;
        number.checked_mul(unit).map(Self).ok_or_else(|| format!("`{text}` is more bytes than there are"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => self.0.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        match (value.as_u64(), value.as_str()) {
            (Some(number), _) => Ok(Self(number)),
            (None, Some(text)) => text.parse().map_err(de::Error::custom),
            (None, None) => Err(de::Error::custom("expected a number of bytes, or a text such as 64K")),
        }
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ByteSize".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "bytes: a number, or a text such as 64K, 16M or 1G in powers of 1024",
            "type": ["integer", "string"],
            "minimum": 0,
            "pattern": "^[0-9]+[KkMmGg]?$",
        })
    }
}
