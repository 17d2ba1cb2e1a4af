//! What to run, with every default filled in. This is what `run.requested` carries: a run never reads a file again.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Criteria, Kubernetes, Locate, Money, Notify, Slurm, Span};

/// A resolved workflow. `image`, `cluster` and `benchmark` are each optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workflow {
    /// Short name: a letter, then letters, digits and `-`.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What to build, or what was built already.
    pub image: Option<ImageSpec>,
    /// What to rent, or what to use.
    pub cluster: Option<ClusterSpec>,
    /// What to run on it and how to judge it. Needs a cluster.
    pub benchmark: Option<Benchmark>,
    /// After a failed verdict, find the node it is due to. Needs a benchmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locate: Option<Locate>,
    /// How long anything may take, and how often it may be tried.
    pub limits: Limits,
    /// What the cluster costs, and what the run may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Who is told what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Notify>,
}

/// What a cluster costs, and what a run may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Price of one node for an hour, from the moment the cluster is asked for until it is confirmed gone.
    pub node_hour: Money,
    /// The most that the clusters of a run may cost together. A run that would pass it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    /// For people: `USD`.
    #[serde(default = "dollars")]
    pub currency: String,
}

fn dollars() -> String {
    "USD".to_owned()
}

/// Where the image comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageSpec {
    /// Built by the image stage.
    Build(BuildSpec),
    /// Built before; named by digest, never by a tag.
    Prebuilt(crate::Image),
}

/// A Cloud Build config and what it works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuildSpec {
    /// The config, as Cloud Build's JSON.
    pub config: serde_json::Value,
    /// The folder the steps find in their workspace.
    pub source: Option<Source>,
    /// Values for `_NAME` substitutions.
    #[serde(default)]
    pub substitutions: BTreeMap<String, String>,
}

/// A source archive in the bucket, named by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Object name of a tar archive in the artefact bucket.
    pub object: String,
    /// Its SHA-256, hex.
    pub sha256: String,
}

/// Where the benchmark runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterSpec {
    /// Brought up for this run and given back.
    Rent(System),
    /// Somebody else's; used and left alone.
    Existing {
        /// What kind of cluster it is.
        system: System,
        /// Its name in its own world.
        name: String,
    },
}

impl ClusterSpec {
    /// The kind of cluster, rented or not.
    pub const fn system(&self) -> &System {
        match self {
            Self::Rent(system) | Self::Existing { system, .. } => system,
        }
    }
}

/// A kind of cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum System {
    /// Processes of this machine, one a node.
    Processes {
        /// Number of nodes, 1 to 64. A machine with GPUs is one node with that many GPUs, whatever stands here.
        #[schemars(range(min = 1, max = 64))]
        nodes: u32,
    },
    /// A Slurm that is there. It cannot be rented.
    Slurm(Box<Slurm>),
    /// A Kubernetes with JobSet that is there. It cannot be rented.
    Kubernetes(Box<Kubernetes>),
    /// A Slurm or a Kubernetes that steps bring up and give back.
    Deployed(Box<Deployed>),
}

/// A cluster that steps bring up and give back: Cluster Toolkit, Ansible, Helm, as Cloud Build configs. The steps find in
/// their substitutions, as far as their config declares them: `_CLUSTER`, the cluster's name, which everything they make
/// must bear; `_RUN`; `_EXPIRES`, when it must end by itself, in seconds since 1970; `_STATE`, a folder in the artefact
/// bucket that is this cluster's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deployed {
    /// Brings it up. Leaves the file `cluster.json`: [`Made`].
    pub deploy: BuildSpec,
    /// Gives it back, however far it came up, and looks that nothing is left. Leaves the file `gone.json`: [`Destroyed`].
    pub destroy: BuildSpec,
    /// The Slurm that comes up. What of it is known only afterwards, `cluster.json` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<Slurm>,
    /// The Kubernetes that comes up, in a Slurm's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
}

impl Deployed {
    /// Nodes that are asked for.
    pub fn nodes(&self) -> u32 {
        let slurm = self.slurm.as_ref().map(|slurm| slurm.nodes);
        slurm.or(self.kubernetes.as_ref().map(|kubernetes| kubernetes.nodes)).unwrap_or(0)
    }
}

/// What a deployment made: its file `cluster.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Every node of the cluster that takes jobs.
    pub nodes: Vec<crate::Node>,
    /// Settings of the Slurm that the workflow could not know; they replace its own.
    #[serde(default)]
    pub slurm: serde_json::Map<String, serde_json::Value>,
    /// The same of a Kubernetes.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub kubernetes: serde_json::Map<String, serde_json::Value>,
}

/// What is left of a deployment: its file `gone.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Destroyed {
    /// Everything that is still there, by the provider's own lists.
    pub left: Vec<String>,
    /// How that is known: what was listed.
    pub evidence: String,
}

impl System {
    /// The word, as in a workflow file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Processes { .. } => "processes",
            Self::Slurm(_) => "slurm",
            Self::Kubernetes(_) => "kubernetes",
            Self::Deployed(_) => "deployed",
        }
    }

    /// Nodes that are asked for.
    pub fn nodes(&self) -> u32 {
        match self {
            Self::Processes { nodes } => *nodes,
            Self::Slurm(slurm) => slurm.nodes,
            Self::Kubernetes(kubernetes) => kubernetes.nodes,
            Self::Deployed(deployed) => deployed.nodes(),
        }
    }
}

/// What to run and how to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Benchmark {
    /// What is run.
    pub workload: Workload,
    /// How it is judged.
    pub criteria: Criteria,
    /// What the cluster does when it is healthy: a baseline document, where one is pinned. Without one the cluster's own
    /// history is its baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<serde_json::Value>,
}

/// One nccl-tests program and its arguments, in nccl-tests' own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The collective; the program is `{collective}_perf`.
    pub collective: Collective,
    /// Smallest message, bytes (`-b`).
    pub min_bytes: u64,
    /// Largest message, bytes (`-e`).
    pub max_bytes: u64,
    /// Each size is the one before times this (`-f`).
    #[schemars(range(min = 2, max = 1024))]
    pub step_factor: u32,
    /// Timed iterations a size (`-n`).
    #[schemars(range(min = 1, max = 100_000))]
    pub iterations: u32,
    /// Untimed iterations before them (`-w`).
    #[schemars(range(max = 100_000))]
    pub warmup_iterations: u32,
    /// Check the data (`-c`).
    pub check: bool,
}

impl Workload {
    /// Every size asked for, bytes, ascending. What is measured may be a little less: see [`Workload::covers`].
    pub fn sizes(&self) -> Vec<u64> {
        let factor = u64::from(self.step_factor.max(2));
        std::iter::successors(Some(self.min_bytes), |size| size.checked_mul(factor))
            .take_while(|size| *size <= self.max_bytes)
            .collect()
    }

    /// A measured size answers for one that was asked for.
    ///
    /// Where every rank gets its own part of the message, nccl-tests rounds that part down to 16 bytes: 8 MiB over 24
    /// ranks becomes 8,388,480 bytes.
    pub fn covers(&self, asked: u64, measured: u64, ranks: Option<u32>) -> bool {
        let slack = match self.collective {
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Alltoall
            | Collective::Gather
            | Collective::Scatter => 16 * u64::from(ranks.unwrap_or(1)),
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::Sendrecv => 1,
        };
        measured <= asked && asked - measured < slack
    }
}

/// A collective operation, spelt as nccl-tests spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are nccl-tests' own and say all there is")]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    Alltoall,
    Broadcast,
    Reduce,
    Sendrecv,
    Gather,
    Scatter,
}

impl Collective {
    /// The word, as in the program's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Alltoall => "alltoall",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Sendrecv => "sendrecv",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
        }
    }

    /// `busbw / algbw` among `ranks` ranks, two or more.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::Alltoall | Self::Gather | Self::Scatter => {
                (n - 1.0) / n
            }
            Self::Broadcast | Self::Reduce | Self::Sendrecv => 1.0,
        }
    }
}

/// How long anything may take, and how often it may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Longest image build.
    pub image: Span,
    /// Longest wait for a cluster.
    pub cluster: Span,
    /// Longest benchmark.
    pub job: Span,
    /// Longest collection of logs.
    pub logs: Span,
    /// Longest load into the warehouse.
    pub results: Span,
    /// Longest wait for a verdict.
    pub verdict: Span,
    /// Longest search for a bad node.
    pub locate: Span,
    /// Life of a rented cluster; afterwards it ends by itself.
    pub lease: Span,
    /// Silence after which a stage is asked how it is.
    pub patience: Span,
    /// Silence after the limit, and after having been asked, that counts as the end.
    pub grace: Span,
    /// Tries of a stage that the infrastructure broke. A failed benchmark is never tried again.
    #[schemars(range(min = 1, max = 10))]
    pub attempts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            image: Span::from_secs(30 * 60),
            cluster: Span::from_secs(60 * 60),
            job: Span::from_secs(60 * 60),
            logs: Span::from_secs(15 * 60),
            results: Span::from_secs(15 * 60),
            verdict: Span::from_secs(5 * 60),
            locate: Span::from_secs(30 * 60),
            lease: Span::from_secs(4 * 60 * 60),
            patience: Span::from_secs(60),
            grace: Span::from_secs(120),
            attempts: 2,
        }
    }
}

impl Limits {
    /// The longest a stage may take.
    pub const fn of(&self, stage: crate::Stage) -> Span {
        match stage {
            crate::Stage::Image => self.image,
            crate::Stage::Cluster => self.cluster,
            crate::Stage::Job => self.job,
            crate::Stage::Logs => self.logs,
            crate::Stage::Results => self.results,
            crate::Stage::Verdict => self.verdict,
            crate::Stage::Locate => self.locate,
        }
    }
}
