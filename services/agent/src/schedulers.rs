//! Selects the scheduler of a cluster by its endpoint.

use std::sync::Arc;

use ledger::{ObjectReader, Store};
use model::Cluster;
use service::PortError;

#[cfg(feature = "kubernetes")]
use crate::kubernetes::KubernetesJobs;
use crate::{
    port::{FileTail, JobSpec, JobStatus, Outputs, Scheduler},
    processes::Processes,
    slurm::SlurmJobs,
};

/// All schedulers; dispatches by the cluster's endpoint.
pub struct Schedulers {
    processes: Processes,
    slurm: SlurmJobs,
    #[cfg(feature = "kubernetes")]
    kubernetes: KubernetesJobs,
}

impl Schedulers {
    /// `store`: bucket of the images and of the job notes.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            processes: Processes::new(Arc::clone(&store)),
            #[cfg(feature = "kubernetes")]
            kubernetes: KubernetesJobs::new(Arc::clone(&store)),
            slurm: SlurmJobs::new(store),
        }
    }

    fn of(&self, cluster: &Cluster) -> Result<&dyn Scheduler, PortError> {
        match (model::Slurm::of(cluster), model::Kubernetes::of(cluster)) {
            #[cfg(feature = "kubernetes")]
            (_, Err(_) | Ok(Some(_))) => Ok(&self.kubernetes),
            #[cfg(not(feature = "kubernetes"))]
            (_, Err(_) | Ok(Some(_))) => Err(PortError::Permanent(model::Failure::new(
                model::Class::Input,
                "NOT_BUILT",
                format!("cluster {}: this program was built without the feature `kubernetes`", cluster.name),
            ))),
            (Ok(None), _) => Ok(&self.processes),
            _ => Ok(&self.slurm),
        }
    }
}

#[async_trait::async_trait]
impl Scheduler for Schedulers {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        self.of(&job.cluster)?.submit(job).await
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

    async fn ending(
        &self,
        cluster: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        self.of(cluster)?.ending(cluster, name, file, bytes).await
    }

    async fn nodes(&self, cluster: &Cluster, name: &str) -> Result<Vec<String>, PortError> {
        self.of(cluster)?.nodes(cluster, name).await
    }

    fn drain_command(&self, cluster: &Cluster, node: &str, reason: &str) -> Option<String> {
        self.of(cluster).ok()?.drain_command(cluster, node, reason)
    }

    async fn drain(&self, cluster: &Cluster, node: &str, reason: &str) -> Result<(), PortError> {
        self.of(cluster)?.drain(cluster, node, reason).await
    }
}

#[cfg(all(test, not(feature = "kubernetes")))]
mod tests {
    use ledger::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_program_without_kubernetes_refuses_kubernetes_clusters() {
        let endpoint = r#"kubernetes:{"nodes": 1}"#.to_owned();
        let cluster = Cluster { name: "lab".into(), nodes: vec![], endpoint };
        let refused = Schedulers::new(Arc::new(MemoryStore::default())).poll(&cluster, "job").await;
        assert!(matches!(&refused, Err(PortError::Permanent(why)) if why.code == "NOT_BUILT"), "{refused:?}");
    }
}
