//! Facts: past events of a run. Each fact has its own versioned wire type.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cluster, Conclusion, EventKey, Failure, Image, Money, RunId, Span, Stage, Suspects, Timestamp, Verdict,
    VerdictReached, Workflow,
};

/// Builds the enum and the table that defines wire types, stages and schemas.
macro_rules! facts {
    ($($(#[$doc:meta])* $variant:ident($payload:ty) = $type:literal, $stage:expr;)*) => {
        /// A fact, tagged on the wire by its event type.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "data")]
        pub enum Fact {
            $($(#[$doc])* #[serde(rename = $type)] $variant($payload),)*
        }

        impl Fact {
            /// The CloudEvents type.
            pub const fn event_type(&self) -> &'static str {
                match self { $(Self::$variant(_) => $type,)* }
            }

            /// Stage of the fact; `None` for facts about the whole run.
            pub const fn stage(&self) -> Option<Stage> {
                match self { $(Self::$variant(_) => $stage,)* }
            }

            /// All types, in the order of a run.
            pub const TYPES: &'static [&'static str] = &[$($type,)*];

            /// All types, each with the JSON Schema of its payload.
            pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
                vec![$(($type, schemars::schema_for!($payload)),)*]
            }
        }
    };
}

facts! {
    /// A trigger requested a run; the first fact of its ledger.
    RunRequested(Box<RunRequested>) = "dev.burnin.run.requested.v1", None;
    /// Cancellation of a run was requested.
    CancelRequested(CancelRequested) = "dev.burnin.cancel.requested.v1", None;
    /// The build was created, with this handle.
    ImageAccepted(Handle) = "dev.burnin.image.accepted.v1", Some(Stage::Image);
    /// The build succeeded with this image.
    ImageBuilt(Image) = "dev.burnin.image.built.v1", Some(Stage::Image);
    /// The attempt ended without an image.
    ImageFailed(Failure) = "dev.burnin.image.failed.v1", Some(Stage::Image);
    /// The cluster is being provisioned, with this handle.
    ClusterAccepted(Handle) = "dev.burnin.cluster.accepted.v1", Some(Stage::Cluster);
    /// The cluster accepts jobs on these nodes.
    ClusterReady(Cluster) = "dev.burnin.cluster.ready.v1", Some(Stage::Cluster);
    /// The attempt ended without a cluster.
    ClusterFailed(Failure) = "dev.burnin.cluster.failed.v1", Some(Stage::Cluster);
    /// The provider confirmed that no resource of the cluster remains.
    ClusterDeleted(Deleted) = "dev.burnin.cluster.deleted.v1", Some(Stage::Cluster);
    /// The scheduler accepted the job, with this handle.
    JobAccepted(Handle) = "dev.burnin.job.accepted.v1", Some(Stage::Job);
    /// The job ran to its own end, successful or not: a result.
    JobDone(JobEnd) = "dev.burnin.job.done.v1", Some(Stage::Job);
    /// The infrastructure prevented the job from ending by itself.
    JobFailed(Failure) = "dev.burnin.job.failed.v1", Some(Stage::Job);
    /// The logs were collected in the bucket, manifest last.
    LogsCollected(Logs) = "dev.burnin.logs.collected.v1", Some(Stage::Logs);
    /// The logs could not be collected.
    LogsFailed(Failure) = "dev.burnin.logs.failed.v1", Some(Stage::Logs);
    /// The measurements were judged, with this verdict.
    VerdictReached(VerdictReached) = "dev.burnin.verdict.reached.v1", Some(Stage::Verdict);
    /// The verdict stage failed without a verdict.
    VerdictFailed(Failure) = "dev.burnin.verdict.failed.v1", Some(Stage::Verdict);
    /// The search for bad nodes ended.
    NodesLocated(Suspects) = "dev.burnin.nodes.located.v1", Some(Stage::Locate);
    /// The search for bad nodes failed.
    NodesFailed(Failure) = "dev.burnin.nodes.failed.v1", Some(Stage::Locate);
    /// The measurements were loaded into the warehouse.
    ResultsLoaded(Results) = "dev.burnin.results.loaded.v1", Some(Stage::Results);
    /// The measurements could not be loaded.
    ResultsFailed(Failure) = "dev.burnin.results.failed.v1", Some(Stage::Results);
    /// The result of the run is final and all resources are released.
    RunClosed(RunClosed) = "dev.burnin.run.closed.v1", None;
    /// Cluster time and cost of a closed run.
    RunUsed(Box<RunUsed>) = "dev.burnin.run.used.v1", None;
}

impl Fact {
    /// The reported failure, if any.
    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::ImageFailed(failure)
            | Self::ClusterFailed(failure)
            | Self::JobFailed(failure)
            | Self::LogsFailed(failure)
            | Self::NodesFailed(failure)
            | Self::ResultsFailed(failure)
            | Self::VerdictFailed(failure) => Some(failure),
            _ => None,
        }
    }

    /// The fact that reports `failure` of `stage`.
    pub const fn failed(stage: Stage, failure: Failure) -> Self {
        match stage {
            Stage::Image => Self::ImageFailed(failure),
            Stage::Cluster => Self::ClusterFailed(failure),
            Stage::Job => Self::JobFailed(failure),
            Stage::Logs => Self::LogsFailed(failure),
            Stage::Results => Self::ResultsFailed(failure),
            Stage::Verdict => Self::VerdictFailed(failure),
            Stage::Locate => Self::NodesFailed(failure),
        }
    }

    /// Whether this fact ends its attempt: no further fact about the work follows.
    pub const fn is_terminal(&self) -> bool {
        self.failure().is_some()
            || matches!(
                self,
                Self::ImageBuilt(_)
                    | Self::ClusterReady(_)
                    | Self::JobDone(_)
                    | Self::LogsCollected(_)
                    | Self::ResultsLoaded(_)
                    | Self::VerdictReached(_)
                    | Self::NodesLocated(_)
            )
    }
}

/// Request for a run: the resolved workflow, its trigger and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRequested {
    /// The workflow, with all defaults filled in.
    pub workflow: Workflow,
    /// Cause of the run.
    pub trigger: Trigger,
    /// Origin to notify of the result, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Exact origin of a run; channels such as GitHub report the result there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A push to a repository on GitHub.
    Push(Push),
    /// A `run.request` event: its `source` and `id`.
    Message(EventKey),
}

/// A push to a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Push {
    /// `owner/name`.
    pub repository: String,
    /// `refs/heads/...` or `refs/tags/...`.
    pub reference: String,
    /// SHA of the pushed commit, hex.
    pub commit: String,
}

/// Cause of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trigger {
    /// `manual`, `push`, `schedule` or `message`.
    pub kind: String,
    /// Person or system that triggered the run, for display; [`UNNAMED`] if unknown.
    pub by: String,
}

/// The name in records of a user without a name.
pub const UNNAMED: &str = "somebody";

/// Displayed form: `started by alice (manual)`, and `started manually` without a name.
impl std::fmt::Display for Trigger {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.kind.as_str(), self.by.as_str()) {
            ("manual", UNNAMED) => out.write_str("started manually"),
            (kind, UNNAMED) => write!(out, "started by {kind}"),
            (kind, by) => write!(out, "started by {by} ({kind})"),
        }
    }
}

/// Cancellation of a run was requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelRequested {
    /// Person or system that requested the cancellation.
    pub by: String,
    /// Reason for the cancellation.
    pub reason: String,
}

/// External identifier of a started operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handle {
    /// A build id, a cluster name or operation, a job id.
    pub handle: String,
}

/// The provider's confirmation that a cluster is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// Name of the deleted cluster.
    pub name: String,
    /// Resources that were checked, and the result.
    pub evidence: String,
    /// Time of the confirmation. It distinguishes confirmations if the cluster appears again.
    pub confirmed_at: Timestamp,
}

/// Result of a job that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobEnd {
    /// State in Slurm's spelling: `COMPLETED`, `FAILED`, `TIMEOUT`, `OUT_OF_MEMORY`, `CANCELLED`.
    pub state: String,
    /// Exit code of the worst rank.
    pub exit_code: Option<i32>,
    /// Signal that terminated the job.
    pub signal: Option<i32>,
    /// Start of the job by its own clock, for display.
    pub started_at: Option<Timestamp>,
    /// End of the job by its own clock, for display.
    pub ended_at: Option<Timestamp>,
    /// Names of the job's nodes, if the scheduler chose them and still reports them; otherwise empty, and the nodes of the cluster apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

impl JobEnd {
    /// An end without a signal, times and nodes.
    pub fn new(state: &str, exit_code: Option<i32>) -> Self {
        let state = state.to_owned();
        Self { state, exit_code, signal: None, started_at: None, ended_at: None, nodes: Vec::new() }
    }
}

/// A stage's files, committed by their manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Logs {
    /// Object name of the manifest in the artefact bucket.
    pub manifest: String,
    /// SHA-256 of the manifest, hex.
    pub sha256: String,
    /// Number of objects.
    pub objects: u32,
    /// Total size, bytes.
    pub size_bytes: u64,
}

/// Current format of manifests that record how logs were collected. Manifests of format 1 only list objects
/// and omit the format field.
pub const MANIFEST_FORMAT: u32 = 2;

fn first_format() -> u32 {
    1
}

fn is_first(format: &u32) -> bool {
    *format == 1
}

/// The commit of a stage: written last, create-only. A file that the manifest does not list is treated as absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// At most [`MANIFEST_FORMAT`]; later formats are rejected.
    #[serde(default = "first_format", skip_serializing_if = "is_first")]
    pub format: u32,
    /// Run that owns the files.
    pub run: RunId,
    /// Stage that committed the files.
    pub stage: Stage,
    /// Attempt that committed the files.
    pub attempt: crate::Attempt,
    /// Objects, by name relative to the manifest's folder.
    pub objects: Vec<ManifestObject>,
    /// Files that were not collected. At most 1000 entries; if there are more files, the last entry contains the number
    /// of the remaining files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A job output file that was not collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Job attempt that wrote the file.
    pub job: crate::Attempt,
    /// File name on the cluster; bytes that are not UTF-8 as `\\xff`.
    pub file: String,
    /// Reason why the file was not collected, for display.
    pub why: String,
}

/// How a file was collected: its original name and all changes of its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// File name on the cluster, if it differs from the object's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of secrets replaced, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, u64>,
    /// The part that was cut out, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Change of the file while it was read: `grew`, `shrank` or `replaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// A part cut out of a file that exceeds its size limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cut {
    /// Bytes of the object before the mark of the omission.
    pub at_bytes: u64,
    /// Bytes of the file that the object omits; `None` if the file could not be read to its end.
    pub left_out_bytes: Option<u64>,
}

/// Name, size and digests of a committed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestObject {
    /// Name relative to the manifest's folder.
    pub name: String,
    /// Size, bytes.
    pub size_bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
    /// CRC32C, 8 hex digits, as Cloud Storage reports it.
    pub crc32c: String,
    /// How the object was collected; `None` for objects that are not logs and in manifests of format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected: Option<Collected>,
}

/// Rows loaded into the warehouse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Load id in the warehouse; loading twice under one id has no effect.
    pub load: String,
    /// Number of rows written.
    pub rows: u64,
    /// Table that contains the rows.
    pub table: String,
}

/// The result of the run is final and all resources are released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunClosed {
    /// Conclusion of the run, independent of the verdict.
    pub conclusion: Conclusion,
    /// Verdict on the measurements, if they were judged.
    pub verdict: Option<Verdict>,
}

/// Cluster time and cost of a run, published after all its clusters are released. Published again if another
/// cluster of the run appears later and is released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunUsed {
    /// Workflow name.
    pub workflow: String,
    /// Time of the request.
    pub requested_at: Timestamp,
    /// Time at which the run was closed.
    pub closed_at: Timestamp,
    /// Conclusion of the run, independent of the verdict.
    pub conclusion: Conclusion,
    /// Verdict on the measurements, if they were judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Number of requested nodes; 0 for a run without a cluster.
    pub nodes: u32,
    /// Total time of the clusters, each from its request to its confirmed deletion.
    pub held: Span,
    /// Total run time of the benchmark's jobs.
    pub busy: Span,
    /// Cost of the clusters, if a price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Money>,
    /// Currency of `spent`, such as `USD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// Name of the existing cluster; `None` for a provisioned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Results of the run that concern single nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_results: Vec<NodeResult>,
}

/// A result that concerns one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeResult {
    /// Name of the node in the scheduler.
    pub node: String,
    /// Health of the node and the action taken.
    pub result: NodeResultKind,
    /// Evidence, confidence, reason or command, for display.
    pub detail: String,
}

/// Outcome for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeResultKind {
    /// Suspected by a verdict or by the search for bad nodes, and not drained.
    Suspected,
    /// Suspected and drained.
    Drained,
    /// Passed its re-test, and was not returned to service.
    RetestPassed,
    /// Passed its re-test, and was returned to service.
    Returned,
    /// The run that re-tested the node failed, and suspects no other node.
    RetestFailed,
    /// A run on the node passed.
    Passed,
}

impl NodeResultKind {
    /// The kind, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Drained => "drained",
            Self::RetestPassed => "retest_passed",
            Self::Returned => "returned",
            Self::RetestFailed => "retest_failed",
            Self::Passed => "passed",
        }
    }
}
