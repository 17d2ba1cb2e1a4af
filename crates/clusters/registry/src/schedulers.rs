//! Selects the scheduler of a cluster by its kind.

use std::{collections::BTreeMap, sync::Arc};

use cluster_api::{FileTail, JobSpec, JobStatus, Outputs, Scheduler, SubmittedText};
use ledger::{ObjectReader, Store};
use model::{Class, Cluster, Failure};
use service::PortError;

use crate::KINDS;

pub struct Schedulers(BTreeMap<&'static str, Arc<dyn Scheduler>>);

impl Schedulers {
    /// `store`: bucket of the images and of the jobs' records.
    pub fn new(store: &Arc<dyn Store>) -> Self {
        let scheduler =
            |kind: &&dyn cluster_api::ClusterKind| (kind.form().kind, kind.scheduler(Arc::clone(store)));
        Self(KINDS.iter().map(scheduler).collect())
    }

    fn of(&self, cluster: &Cluster) -> Result<&dyn Scheduler, PortError> {
        let kind = cluster.access.kind();
        self.0.get(kind).map(|scheduler| &**scheduler).ok_or_else(|| {
            let known: Vec<_> = self.0.keys().copied().collect();
            let why = format!(
                "cluster {}: this program does not support clusters of kind {kind}, only {}; use the version that started the run",
                cluster.name,
                known.join(", ")
            );
            PortError::Permanent(Failure::new(Class::Input, "UNKNOWN_KIND", why))
        })
    }
}

#[async_trait::async_trait]
impl Scheduler for Schedulers {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        self.of(&job.cluster)?.submit(job).await
    }

    fn submission(&self, job: &JobSpec) -> Result<Vec<SubmittedText>, PortError> {
        self.of(&job.cluster)?.submission(job)
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        self.of(cluster)?.poll(cluster, name).await
    }

    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        self.of(cluster)?.cancel(cluster, name).await
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        self.of(cluster)?.outputs(cluster, name).await
    }

    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError> {
        self.of(cluster)?.output(cluster, name, file).await
    }

    async fn release(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        self.of(cluster)?.release(cluster, name).await
    }

    async fn read_tail(
        &self,
        cluster: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        self.of(cluster)?.read_tail(cluster, name, file, bytes).await
    }

    async fn nodes(&self, cluster: &Cluster, name: &str) -> Result<Vec<String>, PortError> {
        self.of(cluster)?.nodes(cluster, name).await
    }

    fn part(&self, cluster: &Cluster, names: &[&str]) -> Result<Cluster, PortError> {
        self.of(cluster)?.part(cluster, names)
    }

    fn drain_command(&self, cluster: &Cluster, node: &str, reason: &str) -> Option<String> {
        self.of(cluster).ok()?.drain_command(cluster, node, reason)
    }

    async fn drain(&self, cluster: &Cluster, node: &str, reason: &str) -> Result<(), PortError> {
        self.of(cluster)?.drain(cluster, node, reason).await
    }

    fn return_command(&self, cluster: &Cluster, node: &str) -> Option<String> {
        self.of(cluster).ok()?.return_command(cluster, node)
    }

    async fn return_node(&self, cluster: &Cluster, node: &str) -> Result<(), PortError> {
        self.of(cluster)?.return_node(cluster, node).await
    }
}

#[cfg(test)]
mod tests {
    use ledger::MemoryStore;
    use model::ClusterAccess;

    use super::*;

    async fn refused(kind: &str) -> Failure {
        let access = ClusterAccess::new(kind, serde_json::json!({"nodes": 1}));
        let cluster = Cluster { name: "lab".into(), nodes: vec![], access };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        match Schedulers::new(&store).poll(&cluster, "job").await {
            Err(PortError::Permanent(failure)) => failure,
            other => panic!("{kind}: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_cluster_of_an_unknown_kind_is_refused() {
        assert_eq!(refused("nomad").await.code, "UNKNOWN_KIND");
    }

    #[cfg(not(feature = "kubernetes"))]
    #[tokio::test]
    async fn a_program_without_kubernetes_refuses_kubernetes_clusters() {
        assert_eq!(refused("kubernetes").await.code, "NOT_BUILT");
    }
}
