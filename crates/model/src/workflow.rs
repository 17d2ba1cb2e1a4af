//! Workflows with all defaults filled in. `run.requested` carries this form: a run never reads a workflow
//! file again.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CheckIndex, Criteria, Locate, Money, Notify, Program, Retest, Soak, Span, System};

/// A resolved workflow. `image`, `cluster` and `benchmark` are each optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workflow {
    /// Short name: a letter, then letters, digits and `-`.
    pub name: String,
    /// Description for display.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Image to build, or a prebuilt one.
    pub image: Option<ImageSpec>,
    /// Cluster to provision, or an existing one.
    pub cluster: Option<ClusterSpec>,
    /// The only benchmark and its criteria, if the workflow has no `checks`. Requires a cluster.
    pub benchmark: Option<Benchmark>,
    /// Checks to run one after another on the cluster, instead of a single benchmark. Requires a cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Checks that the workflow excludes from its runs, with the reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub excluded: BTreeMap<String, String>,
    /// Repeats the checks for a long time. Requires `checks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Soak>,
    /// After a failed verdict, find the bad nodes. Requires a benchmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locate: Option<Locate>,
    /// The run re-tests nodes. `burnin retest` sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retest: Option<Retest>,
    /// Timeouts and number of attempts.
    pub limits: Limits,
    /// Price of the cluster and budget of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ClusterCost>,
    /// Notification targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Notify>,
}

/// Price of a cluster and budget of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterCost {
    /// Price of one node per hour, from the request for the cluster to its confirmed deletion.
    pub node_hour: Money,
    /// Total price per hour of the parts that a deployment keeps for later runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_hour: Option<Money>,
    /// Maximum total cost of a run's clusters. A run that would exceed it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    /// Currency for display; default: `USD`.
    #[serde(default = "dollars")]
    pub currency: String,
}

fn dollars() -> String {
    "USD".to_owned()
}

/// Source of the image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageSpec {
    /// Built by the image stage.
    Build(BuildSpec),
    /// Prebuilt; identified by digest, never by a tag.
    Prebuilt(crate::Image),
}

/// A Cloud Build config and its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuildSpec {
    /// The config, as Cloud Build JSON.
    pub config: serde_json::Value,
    /// Folder provided to the steps as their workspace.
    pub source: Option<SourceObject>,
    /// Git repository provided to the steps as their workspace, instead of a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<SourceRepository>,
    /// Values for `_NAME` substitutions.
    #[serde(default)]
    pub substitutions: BTreeMap<String, String>,
}

/// Substitution that Burnin sets to the revision of the repository, if the config declares it.
pub const REVISION: &str = "_REVISION";

impl BuildSpec {
    /// Builds another revision of its repository.
    pub fn set_revision(&mut self, revision: &str) {
        let Some(repository) = &mut self.repository else { return };
        revision.clone_into(&mut repository.revision);
        if self.config["substitutions"][REVISION].is_string() {
            self.substitutions.insert(REVISION.to_owned(), revision.to_owned());
        }
    }
}

/// A revision of a Git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceRepository {
    /// Address for `git fetch`.
    pub url: String,
    /// Connection of the repository to Cloud Build, `projects/*/locations/*/connections/*/repositories/*`, which gives access
    /// to a private repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// Branch, tag or commit.
    pub revision: String,
}

impl SourceRepository {
    /// Whether this is the repository `owner/name`. GitHub's names are case-insensitive.
    pub fn is_named(&self, full_name: &str) -> bool {
        let url = self.url.trim_end_matches('/');
        let url = url.strip_suffix(".git").unwrap_or(url).to_ascii_lowercase();
        let rest = url.strip_suffix(&full_name.to_ascii_lowercase());
        rest.is_some_and(|rest| rest.ends_with(['/', ':']))
    }
}

/// A source archive in the bucket, identified by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceObject {
    /// Object name of a tar archive in the artefact bucket.
    pub object: String,
    /// SHA-256 of the archive, hex.
    pub sha256: String,
}

/// Cluster on which the benchmark runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterSpec {
    /// Provisioned for this run and released afterwards.
    Rent(System),
    /// Owned by another party; used and left unchanged.
    Existing {
        /// The scheduler and its settings.
        system: System,
        /// Name in its own system.
        name: String,
    },
}

impl ClusterSpec {
    /// The kind of cluster, provisioned or existing.
    pub const fn system(&self) -> &System {
        match self {
            Self::Rent(system) | Self::Existing { system, .. } => system,
        }
    }
}

impl Workflow {
    /// Number of checks of one round; a single benchmark is one check.
    pub fn check_count(&self) -> u16 {
        match self.checks.len() {
            0 => u16::from(self.benchmark.is_some()),
            checks => u16::try_from(checks).unwrap_or(u16::MAX),
        }
    }

    /// Positions of the checks of the first round, in order of execution.
    pub fn check_indices(&self) -> impl Iterator<Item = CheckIndex> + use<> {
        (0..self.check_count()).map(CheckIndex)
    }

    /// Round of a check, starting at 0. Only a soak has more than one.
    pub fn round_of(&self, check: CheckIndex) -> u16 {
        match self.soak {
            Some(_) => check.0 / self.check_count().max(1),
            None => 0,
        }
    }

    /// Program and criteria of a check.
    pub fn benchmark_of(&self, check: CheckIndex) -> Option<&Benchmark> {
        match self.checks.is_empty() {
            true => self.benchmark.as_ref().filter(|_| check.is_first()),
            false => self.check(check).map(|check| &check.benchmark),
        }
    }

    /// Maximum duration of a check's job.
    pub fn job_limit(&self, check: CheckIndex) -> Span {
        self.check(check).and_then(|check| check.limit).unwrap_or(self.limits.job)
    }

    /// The named check at this position, in any round; `None` for a single benchmark.
    pub fn check(&self, check: CheckIndex) -> Option<&Check> {
        self.checks.get(check.index() - usize::from(self.round_of(check) * self.check_count()))
    }

    /// Position of the check with this name. `name@3` is the check of the third round.
    pub fn check_named(&self, name: &str) -> Option<CheckIndex> {
        let (name, round) = match name.rsplit_once('@') {
            Some((name, round)) if self.soak.is_some() => (name, round.parse::<u16>().ok()?.checked_sub(1)?),
            _ => (name, 0),
        };
        let first = self.check_indices().find(|check| self.check_name(*check) == name)?;
        round.checked_mul(self.check_count())?.checked_add(first.0).map(CheckIndex)
    }

    /// Name of a check: its own, or that of the program for a single benchmark. From the second round on, the name ends
    /// with the number of the round: `name@2`.
    pub fn check_name(&self, check: CheckIndex) -> Cow<'_, str> {
        let single = || self.benchmark.as_ref().map_or("benchmark", |it| it.program.name());
        let name = self.check(check).map_or_else(single, |check| &check.name);
        match self.round_of(check) {
            0 => Cow::Borrowed(name),
            round => Cow::Owned(format!("{name}@{}", round + 1)),
        }
    }
}

/// One of several measurements on the same cluster: its own job, with its own attempts, logs and verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Name, unique in the workflow: a letter, then letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Program, criteria and baseline.
    #[serde(flatten)]
    pub benchmark: Benchmark,
    /// Names of earlier checks; without a pass of each of them this check is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Maximum duration of the check's job; `limits.job` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Span>,
}

/// Benchmark to run and its criteria.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Benchmark {
    /// Program and arguments.
    #[serde(flatten)]
    pub program: Program,
    /// Criteria of the verdict.
    pub criteria: Criteria,
    /// Pinned baseline document with the healthy cluster's curve. Without one, the baseline is learned from
    /// the cluster's own history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<serde_json::Value>,
    /// Environment variables of each rank; they override those of the cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// One nccl-tests program and its arguments, in the terms of nccl-tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The collective; the program is `{collective}_perf`.
    pub collective: Collective,
    /// Smallest message, bytes (`-b`).
    pub min_bytes: u64,
    /// Largest message, bytes (`-e`).
    pub max_bytes: u64,
    /// Factor between consecutive sizes (`-f`).
    #[schemars(range(min = 2, max = 1024))]
    pub step_factor: u32,
    /// Timed iterations per size (`-n`).
    #[schemars(range(min = 1, max = 100_000))]
    pub iterations: u32,
    /// Untimed warm-up iterations (`-w`).
    #[schemars(range(max = 100_000))]
    pub warmup_iterations: u32,
    /// Check the data (`-c`).
    pub check: bool,
    /// Element type (`-d`), such as `bfloat16`; nccl-tests' default, `float`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datatype: Option<Datatype>,
    /// Other options of nccl-tests.
    #[serde(default, skip_serializing_if = "ExtraArgs::is_none")]
    pub extra_args: ExtraArgs,
}

/// Options of nccl-tests by their long names (`longopts` in its common.cu, 2.19.6). Absent fields have nccl-tests' defaults.
///
/// Options that change the printed values (`-C`, `-F`) or run several operations or types in one table (`all`) are not
/// supported, because the verdict would not judge the requested operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtraArgs {
    /// Reduction (`-o`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Reduction>,
    /// Root rank, for collectives with a root (`-r`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// Number of operations in one timed group (`-m`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub agg_iters: Option<u32>,
    /// Number of launches of a CUDA graph with the operations (`-G`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub cudagraph: Option<u32>,
    /// Wait for all ranks after each operation (`-z`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocking: bool,
    /// Initialize the communicators of a process in parallel (`-p`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel_init: bool,
    /// Use the default stream of CUDA (`-y`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream_null: bool,
    /// Statistic over the ranks that is printed as the time (`-a`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<TimeOf>,
    /// Timeout of the program, seconds (`-T`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u32>,
}

impl ExtraArgs {
    /// No option is set: nccl-tests' defaults apply.
    pub const NONE: Self = Self {
        op: None,
        root: None,
        agg_iters: None,
        cudagraph: None,
        blocking: false,
        parallel_init: false,
        stream_null: false,
        average: None,
        timeout: None,
    };

    /// Whether no option is set.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Flags and values of the options that are set.
    pub fn flags(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let number = |flag, value: Option<u32>| value.map(|value| (flag, value.to_string()));
        let switch = |flag, on: bool| on.then(|| (flag, "1".to_owned()));
        let all = [
            self.op.map(|op| ("-o", op.as_str().to_owned())),
            number("-r", self.root),
            number("-m", self.agg_iters),
            number("-G", self.cudagraph),
            switch("-z", self.blocking),
            switch("-p", self.parallel_init),
            switch("-y", self.stream_null),
            self.average.map(|of| ("-a", (of as u8).to_string())),
            number("-T", self.timeout),
        ];
        all.into_iter().flatten()
    }
}

/// A reduction, spelt as nccl-tests spells it (`test_opnames` in its common.cu).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are nccl-tests' own and need no explanation")]
pub enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
    Avg,
    Mulsum,
}

impl Reduction {
    /// The spelling of nccl-tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Avg => "avg",
            Self::Mulsum => "mulsum",
        }
    }
}

/// The statistic over the ranks that nccl-tests prints as the time of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeOf {
    /// The time of rank 0.
    Rank0 = 0,
    /// The average of all ranks; nccl-tests' default.
    Average = 1,
    /// The shortest time of all ranks.
    Min = 2,
    /// The longest time of all ranks.
    Max = 3,
}

/// An element type, spelt as nccl-tests spells it (`test_typenames` in its common.cu).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are nccl-tests' own and need no explanation")]
pub enum Datatype {
    Int8,
    Uint8,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Half,
    Float,
    Double,
    Bfloat16,
    F8e4m3,
    F8e5m2,
}

impl Datatype {
    /// The spelling of nccl-tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Half => "half",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bfloat16 => "bfloat16",
            Self::F8e4m3 => "f8e4m3",
            Self::F8e5m2 => "f8e5m2",
        }
    }
}

impl Workload {
    /// All requested sizes, bytes, ascending. A measured size may be slightly smaller: see
    /// [`Workload::covers`].
    pub fn sizes(&self) -> Vec<u64> {
        let factor = u64::from(self.step_factor.max(2));
        // Sizes that start at 0 would never grow. A workflow file with 0 is rejected only after this evaluation.
        std::iter::successors(Some(self.min_bytes.max(1)), |size| size.checked_mul(factor))
            .take_while(|size| *size <= self.max_bytes)
            .collect()
    }

    /// Whether a measured size satisfies a requested one.
    ///
    /// If each rank has its own part of the message, nccl-tests rounds that part down to 16 bytes: 8 MiB over
    /// 24 ranks becomes 8,388,480 bytes.
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
#[expect(missing_docs, reason = "the names are nccl-tests' own and need no explanation")]
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
    /// All supported collectives.
    pub const ALL: [Self; 9] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Alltoall,
        Self::Broadcast,
        Self::Reduce,
        Self::Sendrecv,
        Self::Gather,
        Self::Scatter,
    ];

    /// The spelling in the program's name.
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

    /// Ratio `busbw / algbw` for `ranks` ranks, at least two.
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

/// Timeouts of the stages and number of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum duration of the image build.
    pub image: Span,
    /// Maximum wait for a cluster.
    pub cluster: Span,
    /// Maximum duration of the benchmark.
    pub job: Span,
    /// Maximum duration of log collection.
    pub logs: Span,
    /// Maximum duration of the load into the warehouse.
    pub results: Span,
    /// Maximum wait for a verdict.
    pub verdict: Span,
    /// Maximum duration of the search for bad nodes.
    pub locate: Span,
    /// Lifetime of a provisioned cluster, after which it is deleted.
    pub lease: Span,
    /// Poll interval: time without a fact after which the stage is polled.
    pub patience: Span,
    /// Grace period: time without a fact after the limit and a poll, after which the stage has timed out.
    pub grace: Span,
    /// Maximum attempts of a stage that the infrastructure failed. A failed benchmark is never repeated.
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
    /// Maximum duration of a stage.
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
