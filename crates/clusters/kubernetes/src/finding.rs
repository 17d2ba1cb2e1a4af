//! Objects of a job, and the state derived from them.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use model::{Failure, JobEnd};

use crate::objects::{JobSet, KueueWorkload};

/// Objects of a job at one moment.
#[derive(Clone, Debug, Default)]
pub struct JobObjects {
    pub jobset: JobSet,
    /// Every observed pod, deleted ones included, in its last observed state.
    pub pods: Vec<Pod>,
    pub jobs: Vec<Job>,
    pub workload: Option<KueueWorkload>,
    /// Events, newest last.
    pub events: Vec<Event>,
}

/// State derived from all objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobFinding {
    /// The job's pods run.
    Active,
    /// The job waits; `code` states the reason.
    Waiting {
        /// Reason code, see docs/ERRORS.md.
        code: &'static str,
        /// Explanation for display, from the cluster's own messages.
        why: String,
    },
    /// The job ran and has ended on its own.
    Ended(JobEnd),
    /// Ended by the infrastructure.
    Lost { code: String, why: String },
    /// The job did not start or did not measure, for a known reason.
    Failed(Failure),
}
