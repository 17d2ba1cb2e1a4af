//! The scheduler of a program that was built without access to Kubernetes.

use std::sync::Arc;

use cluster_api::{JobSpec, JobStatus, Outputs, Scheduler, SubmittedText};
use ledger::{ObjectReader, Store};
use model::{Class, Cluster, Failure};
use service::PortError;

/// Refuses every job.
pub struct KubernetesJobs;

impl KubernetesJobs {
    /// Ignores the store, so that both builds have the same constructor.
    pub fn new(_: Arc<dyn Store>) -> Self {
        Self
    }
}

fn not_built<T>(cluster: &Cluster) -> Result<T, PortError> {
    let why = format!(
        "cluster {}: this program was built without the feature `kubernetes`; build it with `--features kubernetes`",
        cluster.name
    );
    Err(PortError::Permanent(Failure::new(Class::Input, "NOT_BUILT", why)))
}

#[async_trait::async_trait]
impl Scheduler for KubernetesJobs {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        not_built(&job.cluster)
    }

    fn submission(&self, job: &JobSpec) -> Result<Vec<SubmittedText>, PortError> {
        not_built(&job.cluster)
    }

    async fn poll(&self, cluster: &Cluster, _: &str) -> Result<JobStatus, PortError> {
        not_built(cluster)
    }

    async fn cancel(&self, cluster: &Cluster, _: &str) -> Result<(), PortError> {
        not_built(cluster)
    }

    async fn outputs(&self, cluster: &Cluster, _: &str) -> Result<Outputs, PortError> {
        not_built(cluster)
    }

    async fn output(&self, cluster: &Cluster, _: &str, _: &str) -> Result<ObjectReader, PortError> {
        not_built(cluster)
    }
}
