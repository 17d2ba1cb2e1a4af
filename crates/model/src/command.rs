//! What should be done. Commands are derived from a run's state, never stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Attempt, BuildSpec, Cluster, ClusterSpec, CommandId, Criteria, Image, JobEnd, Logs, Search, Span, Stage,
    Timestamp, VerdictReached, Workload,
};

/// A command. A worker that has seen its id answers with the same fact again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// Derived from run, stage, attempt and verb.
    pub id: CommandId,
    /// What is asked.
    pub body: Body,
}

/// Builds the enum and the one table from which wire types and schemas follow.
macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* } = $type:literal;)*) => {
        /// What is asked, tagged on the wire by its event type.
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

            /// Every type, in the order of a run.
            pub const TYPES: &'static [&'static str] = &[$($type,)*];
        }
    };
}

commands! {
    /// Build the image.
    ImageBuild {
        /// Config, source and substitutions.
        build: BuildSpec,
        /// The build's own timeout.
        timeout: Span,
    } = "dev.burnin.image.build.v1";
    /// Say how the build is.
    ImageObserve {
        /// Its handle, where one is known.
        handle: Option<String>,
    } = "dev.burnin.image.observe.v1";
    /// Stop the build.
    ImageCancel {
        /// Its handle, where one is known.
        handle: Option<String>,
    } = "dev.burnin.image.cancel.v1";
    /// Bring up a cluster, or look an existing one over.
    ClusterCreate {
        /// What to bring up or to look at.
        spec: ClusterSpec,
        /// Its name.
        name: String,
        /// When it has to end by itself; none for an existing one.
        expires_at: Option<Timestamp>,
    } = "dev.burnin.cluster.create.v1";
    /// Say how the cluster is.
    ClusterObserve {
        /// What was brought up or looked at.
        spec: ClusterSpec,
        /// Its name.
        name: String,
    } = "dev.burnin.cluster.observe.v1";
    /// Give the cluster back. Absent is done.
    ClusterDelete {
        /// What was brought up.
        spec: ClusterSpec,
        /// Its name.
        name: String,
    } = "dev.burnin.cluster.delete.v1";
    /// Hand the benchmark to the scheduler.
    JobSubmit {
        /// Where to run it.
        cluster: Cluster,
        /// What to run; none when the cluster has the programs already.
        image: Option<Image>,
        /// The arguments.
        workload: Workload,
        /// The job's own time limit.
        limit: Span,
    } = "dev.burnin.job.submit.v1";
    /// Say how the job is.
    JobObserve {
        /// Where it runs.
        cluster: Cluster,
        /// Its handle, where one is known.
        handle: Option<String>,
    } = "dev.burnin.job.observe.v1";
    /// Stop the job.
    JobCancel {
        /// Where it runs.
        cluster: Cluster,
        /// Its handle, where one is known.
        handle: Option<String>,
    } = "dev.burnin.job.cancel.v1";
    /// Bring the job's output into the bucket, manifest last.
    LogsCollect {
        /// Where it ran.
        cluster: Cluster,
        /// Every attempt whose output may exist.
        jobs: Vec<JobRef>,
    } = "dev.burnin.logs.collect.v1";
    /// Judge the measurements.
    RunJudge {
        /// The workflow's name.
        #[serde(default)]
        workflow: String,
        /// When the run was asked for.
        #[serde(default)]
        requested_at: Option<Timestamp>,
        /// The logs.
        logs: Logs,
        /// The attempt whose log counts.
        job_attempt: Attempt,
        /// How the job ended.
        job: JobEnd,
        /// What was asked for.
        workload: Workload,
        /// What was brought up.
        #[serde(default)]
        spec: Option<Box<ClusterSpec>>,
        /// Where it ran.
        cluster: Cluster,
        /// What it ran from.
        #[serde(default)]
        image: Option<Box<Image>>,
        /// How to judge.
        criteria: Box<Criteria>,
        /// What the cluster does when it is healthy, where the workflow pins it: a baseline document.
        #[serde(default)]
        baseline: Option<serde_json::Value>,
    } = "dev.burnin.run.judge.v1";
    /// Find the bad nodes of a cluster.
    NodesLocate {
        /// Where, and how far it may go.
        search: Box<Search>,
    } = "dev.burnin.nodes.locate.v1";
    /// Stop looking for bad nodes: nothing of the search goes on afterwards.
    NodesCancel {
        /// The search.
        search: Box<Search>,
    } = "dev.burnin.nodes.cancel.v1";
    /// Load the measurements into the warehouse.
    ResultsLoad {
        /// The workflow's name.
        workflow: String,
        /// When the run was asked for.
        #[serde(default)]
        requested_at: Option<Timestamp>,
        /// The logs.
        logs: Logs,
        /// The attempt whose log counts.
        job_attempt: Attempt,
        /// What was said of them; none when the judge could not work.
        #[serde(default)]
        verdict: Option<VerdictReached>,
    } = "dev.burnin.results.load.v1";
}

impl Body {
    /// The stage whose worker takes it.
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

/// A job attempt whose output may exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobRef {
    /// The attempt.
    pub attempt: Attempt,
    /// Its handle, where one is known.
    pub handle: Option<String>,
}
