//! Commands: work the conductor requests. They are derived from a run's state and never stored.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Attempt, BuildSpec, Cluster, ClusterSpec, CommandId, Criteria, Image, JobEnd, Logs, NodeSearch, Program,
    SoakRounds, Span, Stage, Timestamp, VerdictReached,
};

/// A request to a worker. A worker that receives the same id again publishes the same fact again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// Derived from run, stage, attempt and verb.
    pub id: CommandId,
    /// The requested operation and its parameters.
    pub body: Body,
}

/// Builds the enum and the table that defines wire types and schemas.
macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* } = $type:literal;)*) => {
        /// The requested operation, tagged on the wire by its event type.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "data")]
        pub enum Body {
            $($(#[$doc])* #[serde(rename = $type)] $variant { $($(#[$field_doc])* $field: $kind,)* },)*
        }

        impl Body {
            /// The CloudEvents type.
            pub const fn event_type(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $type,)* }
            }

            /// All types, in the order of a run.
            pub const TYPES: &'static [&'static str] = &[$($type,)*];
        }
    };
}

commands! {
    /// Build the image.
    ImageBuild {
        /// Config, source and substitutions.
        build: BuildSpec,
        /// Timeout of the build itself.
        timeout: Span,
    } = "dev.burnin.image.build.v1";
    /// Report the state of the build.
    ImageObserve {
        /// Build id, if known.
        handle: Option<String>,
    } = "dev.burnin.image.observe.v1";
    /// Stop the build.
    ImageCancel {
        /// Build id, if known.
        handle: Option<String>,
    } = "dev.burnin.image.cancel.v1";
    /// Provision a cluster, or check an existing one.
    ClusterCreate {
        /// Cluster to provision or check.
        spec: ClusterSpec,
        /// Name of the cluster in its own system.
        name: String,
        /// Expiry time of the cluster; `None` for an existing cluster.
        expires_at: Option<Timestamp>,
    } = "dev.burnin.cluster.create.v1";
    /// Report the state of the cluster.
    ClusterObserve {
        /// Cluster to provision or check.
        spec: ClusterSpec,
        /// Name of the cluster in its own system.
        name: String,
    } = "dev.burnin.cluster.observe.v1";
    /// Release the cluster. Succeeds if the cluster is absent.
    ClusterDelete {
        /// Cluster that was provisioned.
        spec: ClusterSpec,
        /// Name of the cluster in its own system.
        name: String,
    } = "dev.burnin.cluster.delete.v1";
    /// Submit the benchmark to the scheduler.
    JobSubmit {
        /// Cluster to run on.
        cluster: Cluster,
        /// Image with the programs; `None` if the cluster already has them.
        image: Option<Image>,
        /// Program and arguments.
        #[serde(flatten)]
        program: Program,
        /// Environment variables of each rank; they override those of the cluster.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String>,
        /// Whether the job collects hardware evidence of each node.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        evidence: bool,
        /// The job's own time limit.
        limit: Span,
    } = "dev.burnin.job.submit.v1";
    /// Report the state of the job.
    JobObserve {
        /// Cluster the job runs on.
        cluster: Cluster,
        /// Job id, if known.
        handle: Option<String>,
    } = "dev.burnin.job.observe.v1";
    /// Stop the job.
    JobCancel {
        /// Cluster the job runs on.
        cluster: Cluster,
        /// Job id, if known.
        handle: Option<String>,
    } = "dev.burnin.job.cancel.v1";
    /// Copy the job's output to the bucket; the manifest is written last.
    LogsCollect {
        /// Cluster the job ran on.
        cluster: Cluster,
        /// All attempts that may have output.
        jobs: Vec<JobRef>,
    } = "dev.burnin.logs.collect.v1";
    /// Judge the measurements.
    RunJudge {
        /// Name of the run's workflow.
        #[serde(default)]
        workflow: String,
        /// Name of the check, if the workflow has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<String>,
        /// Time of the request for the run.
        #[serde(default)]
        requested_at: Option<Timestamp>,
        /// Collected logs.
        logs: Logs,
        /// Attempt whose log is judged.
        job_attempt: Attempt,
        /// End state of the job.
        job: JobEnd,
        /// Requested program.
        #[serde(flatten)]
        program: Program,
        /// Requested cluster.
        #[serde(default)]
        spec: Option<Box<ClusterSpec>>,
        /// Cluster the job ran on.
        cluster: Cluster,
        /// Image the job used.
        #[serde(default)]
        image: Option<Box<Image>>,
        /// Criteria of the verdict.
        criteria: Box<Criteria>,
        /// Pinned baseline document with the healthy cluster's curve, if the workflow has one.
        #[serde(default)]
        baseline: Option<serde_json::Value>,
        /// Earlier rounds of a soak, with which this round is compared; `None` without a soak.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        soak: Option<Box<SoakRounds>>,
    } = "dev.burnin.run.judge.v1";
    /// Search for the cluster's bad nodes.
    NodesLocate {
        /// Parameters and limits of the search.
        search: Box<NodeSearch>,
    } = "dev.burnin.nodes.locate.v1";
    /// Stop the search. Afterwards no job of the search runs.
    NodesCancel {
        /// Parameters of the stopped search.
        search: Box<NodeSearch>,
    } = "dev.burnin.nodes.cancel.v1";
    /// Load the measurements into the warehouse.
    ResultsLoad {
        /// Name of the run's workflow.
        workflow: String,
        /// Name of the check, if the workflow has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        check: Option<String>,
        /// Time of the request for the run.
        #[serde(default)]
        requested_at: Option<Timestamp>,
        /// Collected logs.
        logs: Logs,
        /// Attempt whose log is loaded.
        job_attempt: Attempt,
        /// Verdict on the measurements; `None` if the verdict stage failed.
        #[serde(default)]
        verdict: Option<VerdictReached>,
    } = "dev.burnin.results.load.v1";
}

impl Body {
    /// Stage whose worker handles this command.
    pub const fn stage(&self) -> Stage {
        match self {
            Self::ImageBuild { .. } | Self::ImageObserve { .. } | Self::ImageCancel { .. } => Stage::Image,
            Self::ClusterCreate { .. } | Self::ClusterObserve { .. } | Self::ClusterDelete { .. } => {
                Stage::Cluster
            }
            Self::JobSubmit { .. } | Self::JobObserve { .. } | Self::JobCancel { .. } => Stage::Job,
            Self::LogsCollect { .. } => Stage::Logs,
            Self::RunJudge { .. } => Stage::Verdict,
            Self::NodesLocate { .. } | Self::NodesCancel { .. } => Stage::Locate,
            Self::ResultsLoad { .. } => Stage::Results,
        }
    }
}

/// A job attempt that may have output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobRef {
    /// Number of the job's attempt.
    pub attempt: Attempt,
    /// Job id, if known.
    pub handle: Option<String>,
}
