//! A workflow as it is written down.

use std::{collections::BTreeMap, path::PathBuf};

use model::{ByteSize, Collective, Cost, Image, Kubernetes, Limits, Locate, Notify, Slurm};
use schemars::JsonSchema;
use serde::Deserialize;
use triggers::On;

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
    /// After a failed verdict, find the node it is due to; `{}` for the usual way.
    pub locate: Option<Locate>,
    /// How long anything may take, and how often it may be tried.
    #[serde(default)]
    pub limits: Limits,
    /// What the cluster costs, and what the run may cost.
    pub cost: Option<Cost>,
    /// Who is told what came of it: GitHub, Slack, programs.
    #[serde(default)]
    pub notify: Vec<Notify>,
    /// What starts it by itself.
    #[serde(default)]
    pub on: On,
    /// Fields that whoever asks for a run over the network may replace, such as `limits.job`. On the command line every
    /// field may be replaced.
    #[serde(default)]
    pub parameters: Vec<String>,
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
    Rent(RentFile),
    /// Use one that is there and leave it alone.
    Existing(ExistingFile),
}

/// A cluster to rent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RentFile {
    /// Processes of this machine, one a node.
    Processes {
        /// Number of nodes, 1 to 64. A machine with GPUs is one node with that many GPUs, whatever stands here.
        #[schemars(range(min = 1, max = 64))]
        nodes: u32,
    },
    /// A Slurm or a Kubernetes that steps bring up and give back.
    Deployed(Box<DeployedFile>),
}

/// A cluster that steps bring up and give back, as Cloud Build configs. What they are told in their substitutions and what
/// they have to leave behind stands in docs/CLUSTERS.md.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeployedFile {
    /// Brings it up.
    pub deploy: BuildFile,
    /// Gives it back.
    pub destroy: BuildFile,
    /// The Slurm that comes up; either this or `kubernetes`.
    pub slurm: Option<Slurm>,
    /// The Kubernetes that comes up.
    pub kubernetes: Option<Kubernetes>,
}

/// A kind of cluster that is there.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SystemFile {
    /// Processes of this machine, one a node.
    Processes {
        /// Number of nodes, 1 to 64.
        #[schemars(range(min = 1, max = 64))]
        nodes: u32,
    },
    /// A Slurm.
    Slurm(Box<Slurm>),
    /// A Kubernetes with JobSet.
    Kubernetes(Box<Kubernetes>),
}

/// A cluster that is there.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExistingFile {
    /// What kind of cluster it is.
    pub system: SystemFile,
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
    /// A baseline that `burnin baseline` wrote. Without one the cluster's own passed runs are its baseline.
    pub baseline: Option<PathBuf>,
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
