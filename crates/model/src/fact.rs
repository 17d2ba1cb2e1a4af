//! What happened. Facts are past tense; each has a type of its own on the wire, with a version.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Conclusion, EventKey, Money, RunId, Span, Stage, Suspects, Timestamp, Workflow};

/// Builds the enum and the one table from which wire types, stages and schemas follow.
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

            /// The stage it speaks of; none for facts about the run as a whole.
            pub const fn stage(&self) -> Option<Stage> {
                match self { $(Self::$variant(_) => $stage,)* }
            }

            /// Every type, in the order of a run.
            pub const TYPES: &'static [&'static str] = &[$($type,)*];

            /// Every type with the JSON Schema of its payload.
            pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
                vec![$(($type, schemars::schema_for!($payload)),)*]
            }
        }
    };
}

facts! {
    /// Somebody or something asked for a run.
    RunRequested(Box<RunRequested>) = "dev.burnin.run.requested.v1", None;
    /// Somebody asked to end a run.
    CancelRequested(CancelRequested) = "dev.burnin.cancel.requested.v1", None;
    /// The build exists; here is its handle.
    ImageAccepted(Handle) = "dev.burnin.image.accepted.v1", Some(Stage::Image);
    /// The image exists.
    ImageBuilt(Image) = "dev.burnin.image.built.v1", Some(Stage::Image);
    /// There will be no image from this attempt.
    ImageFailed(Failure) = "dev.burnin.image.failed.v1", Some(Stage::Image);
    /// The cluster is coming up; here is its handle.
    ClusterAccepted(Handle) = "dev.burnin.cluster.accepted.v1", Some(Stage::Cluster);
    /// The cluster can take jobs.
    ClusterReady(Cluster) = "dev.burnin.cluster.ready.v1", Some(Stage::Cluster);
    /// There will be no cluster from this attempt.
    ClusterFailed(Failure) = "dev.burnin.cluster.failed.v1", Some(Stage::Cluster);
    /// The provider confirmed that nothing of the cluster is left.
    ClusterDeleted(Deleted) = "dev.burnin.cluster.deleted.v1", Some(Stage::Cluster);
    /// The job is in the scheduler's hands; here is its handle.
    JobAccepted(Handle) = "dev.burnin.job.accepted.v1", Some(Stage::Job);
    /// The job ran and ended, well or badly: a result.
    JobDone(JobEnd) = "dev.burnin.job.done.v1", Some(Stage::Job);
    /// The job could not run to its own end: the infrastructure's fault.
    JobFailed(Failure) = "dev.burnin.job.failed.v1", Some(Stage::Job);
    /// The logs are in the bucket, manifest last.
    LogsCollected(Logs) = "dev.burnin.logs.collected.v1", Some(Stage::Logs);
    /// The logs could not be brought in.
    LogsFailed(Failure) = "dev.burnin.logs.failed.v1", Some(Stage::Logs);
    /// The measurements were judged.
    VerdictReached(VerdictReached) = "dev.burnin.verdict.reached.v1", Some(Stage::Verdict);
    /// The judge could not work.
    VerdictFailed(Failure) = "dev.burnin.verdict.failed.v1", Some(Stage::Verdict);
    /// The search for bad nodes is over.
    NodesLocated(Suspects) = "dev.burnin.nodes.located.v1", Some(Stage::Locate);
    /// Bad nodes could not be looked for.
    NodesFailed(Failure) = "dev.burnin.nodes.failed.v1", Some(Stage::Locate);
    /// The measurements are in the warehouse.
    ResultsLoaded(Results) = "dev.burnin.results.loaded.v1", Some(Stage::Results);
    /// The measurements could not be loaded.
    ResultsFailed(Failure) = "dev.burnin.results.failed.v1", Some(Stage::Results);
    /// The answer is settled and everything is given back.
    RunClosed(RunClosed) = "dev.burnin.run.closed.v1", None;
    /// What a closed run used of clusters.
    RunUsed(RunUsed) = "dev.burnin.run.used.v1", None;
}

impl Fact {
    /// The failure it reports, if it reports one.
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

    /// The fact that says `failure` of a stage.
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

    /// The attempt of its stage is over: no other fact about the work itself is to come.
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

/// Somebody or something asked for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRequested {
    /// What to run, with every default filled in.
    pub workflow: Workflow,
    /// What caused it.
    pub trigger: Trigger,
    /// Where it came from, if somebody there waits for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Where a run came from, exactly: its end is told there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A push to a repository on GitHub.
    Push(Push),
    /// An event that asked for it: `source` and `id` of a `run.request`.
    Message(EventKey),
}

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Push {
    /// `owner/name`.
    pub repository: String,
    /// `refs/heads/...` or `refs/tags/...`.
    pub reference: String,
    /// The commit, in hex.
    pub commit: String,
}

/// What caused a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trigger {
    /// `manual`, `push`, `schedule` or `message`.
    pub kind: String,
    /// Who or what, for people.
    pub by: String,
}

/// Somebody asked to end a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelRequested {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What the outside world calls the thing that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handle {
    /// A build id, a cluster name or operation, a job id.
    pub handle: String,
}

/// Whose fault a failure is. This alone decides whether the attempt may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The infrastructure broke it; another attempt may do better.
    Infrastructure,
    /// The infrastructure broke it and the cluster with it: another attempt needs another cluster.
    ClusterLost,
    /// The work itself failed; repeating it until it passes would be lying.
    Workload,
    /// What was asked for is wrong; nothing will change until it is corrected.
    Input,
    /// It was stopped on request.
    Cancelled,
}

/// Why something did not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Whose fault.
    pub class: Class,
    /// The outside world's own word: `INTERNAL_ERROR`, `NODE_FAIL`, ...
    pub code: String,
    /// What happened and what to do next, for people.
    pub message: String,
}

impl Failure {
    /// A failure of `class` with the world's own `code`.
    pub fn new(class: Class, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class, code: code.into(), message: message.into() }
    }
}

/// A file, known by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDigest {
    /// Name relative to the image.
    pub name: String,
    /// Size, bytes.
    pub size_bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
}

/// An image, known by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// Where it lies: a registry reference, or an object prefix in the artefact bucket that ends in `/`.
    pub reference: String,
    /// `sha256:` and 64 hex digits.
    pub digest: String,
    /// Its files, where it is a set of files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileDigest>,
    /// SHA-256 of the manifest that lists the files and the log of the build, hex; none in ledgers of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_sha256: Option<String>,
}

/// A cluster that can take jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Its name in its own world.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// How the agent reaches it: a folder, a login host, a context.
    pub endpoint: String,
}

impl Cluster {
    /// Ranks a benchmark gets: one a slot.
    pub fn slots(&self) -> u32 {
        self.nodes.iter().map(|node| node.slots).sum()
    }
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Host name.
    pub name: String,
    /// GPUs, or 1 where there are none.
    pub slots: u32,
}

/// The provider's word that a cluster is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    /// The cluster's name.
    pub name: String,
    /// What was looked at, and what it said.
    pub evidence: String,
    /// When the provider said so. It tells one confirmation from another, should the cluster appear again.
    pub confirmed_at: Timestamp,
}

/// How a job ended, by its own doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobEnd {
    /// Spelt as Slurm spells it: `COMPLETED`, `FAILED`, `TIMEOUT`, `OUT_OF_MEMORY`, `CANCELLED`.
    pub state: String,
    /// Exit code of the worst rank.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// First moment of the job on its own clock, for people.
    pub started_at: Option<Timestamp>,
    /// Last moment of the job on its own clock, for people.
    pub ended_at: Option<Timestamp>,
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
    /// Their sizes together, bytes.
    pub size_bytes: u64,
}

/// The format of manifests that tell how logs were collected. Those that only list objects are of format 1, and say so by
/// saying nothing.
pub const MANIFEST_FORMAT: u32 = 2;

fn first_format() -> u32 {
    1
}

fn is_first(format: &u32) -> bool {
    *format == 1
}

/// The commit of a stage: written last, create-only. What it does not name does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// At most [`MANIFEST_FORMAT`]; later ones are not read.
    #[serde(default = "first_format", skip_serializing_if = "is_first")]
    pub format: u32,
    /// The run.
    pub run: RunId,
    /// The stage.
    pub stage: Stage,
    /// The attempt.
    pub attempt: crate::Attempt,
    /// Objects, by name relative to the manifest's folder.
    pub objects: Vec<ManifestObject>,
    /// Files that were not collected. Beyond a thousand only their number is told, by the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A file that a job wrote and that was not collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The attempt of the job.
    pub job: crate::Attempt,
    /// Its name on the cluster; bytes that are no text as `\\xff`.
    pub file: String,
    /// Why.
    pub why: String,
}

/// How a file became an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Collected {
    /// Its name on the cluster, where it could not be the object's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Secrets replaced, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, u64>,
    /// What was cut out, if anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// What happened to the file while it was read: `grew`, `shrank` or `replaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
}

/// A piece cut out of a file that was larger than its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cut {
    /// Bytes of the object before the mark that says so.
    pub at_bytes: u64,
    /// Bytes of the file left out there; none when the file could not be read to its end.
    pub left_out_bytes: Option<u64>,
}

/// One object of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestObject {
    /// Name relative to the manifest's folder.
    pub name: String,
    /// Size, bytes.
    pub size_bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
    /// CRC32C, 8 hex digits: what Cloud Storage reports of an object.
    pub crc32c: String,
    /// How it was collected; none for what is no log, and in manifests of format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected: Option<Collected>,
}

/// What was loaded into the warehouse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// The warehouse's id of the load; loading under it twice changes nothing.
    pub load: String,
    /// Rows written.
    pub rows: u64,
    /// Where to look.
    pub table: String,
}

/// What the measurements say of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything asked for was measured and is as it should be.
    Pass,
    /// Something measured is not as it should be.
    Fail,
    /// Something needed to say either is missing.
    Inconclusive,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// One reason of a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Stable code, listed in the documentation.
    pub code: String,
    /// What it pleads for.
    pub weighs: Verdict,
    /// For people.
    pub text: String,
}

/// The measurements were judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictReached {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<Reason>,
    /// Name and digest of the criteria judged by.
    pub criteria: String,
    /// Digest of the baseline judged by; none when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// What it was measured on, field by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fingerprint: BTreeMap<String, String>,
    /// SHA-256 of the log judged, hex; none when there was no log.
    pub log_sha256: Option<String>,
    /// Object name of the whole verdict in the artefact bucket.
    pub object: String,
}

/// The answer is settled and everything is given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunClosed {
    /// How the run ended.
    pub conclusion: Conclusion,
    /// What the measurements said, if they were judged.
    pub verdict: Option<Verdict>,
}

/// What a run used of clusters, all of them given back. Told again when one shows up afterwards and is given back too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunUsed {
    /// Name of its workflow.
    pub workflow: String,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it was closed.
    pub closed_at: Timestamp,
    /// How it ended.
    pub conclusion: Conclusion,
    /// What the measurements said, if they were judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Nodes of its cluster; 0 when none was asked for.
    pub nodes: u32,
    /// How long clusters were held: from being asked for to being confirmed gone.
    pub held: Span,
    /// How long of it the benchmark ran.
    pub busy: Span,
    /// What they cost, where a price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Money>,
    /// Of that: `USD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}
