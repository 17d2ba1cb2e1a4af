//! Workflows with all defaults filled in. `run.requested` contains this form: a run never reads a workflow file again.

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
    /// Repeats the checks, round after round, for up to 168 hours. Requires `checks`.
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
    #[serde(rename = "rent")]
    Provisioned(System),
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
            Self::Provisioned(system) | Self::Existing { system, .. } => system,
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
    /// Names of earlier checks that must pass; otherwise this check is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Maximum duration of the check's job, including its wait in a queue; `limits.job` if absent.
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

/// Timeouts of the stages and number of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum duration of the image build.
    pub image: Span,
    /// Maximum wait for a cluster.
    pub cluster: Span,
    /// Maximum duration of a job, including its wait in a queue. The scheduler stops the job after a shorter time, so that its end is
    /// recorded: `grace` less, but at least half of the maximum.
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
