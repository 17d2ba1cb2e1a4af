//! Clusters of local processes.

use std::{path::Path, process::Command, sync::Arc};

use cluster_api::{ClusterListing, ClusterProvider, ClusterStatus, LeaseRequest, ListedCluster};
use model::{Class, Deleted, Failure, Node, PROCESSES};
use service::{Clock, PortError};
use supervisor::{ClusterRequest, ClusterState};

/// Provider whose clusters are supervised processes of this host, one for each node.
pub struct LocalClusters {
    clusters: supervisor::ClusterFolder,
    clock: Arc<dyn Clock>,
    gpus: u32,
}

impl LocalClusters {
    /// `clusters`: folder of the clusters' processes. `gpus`: number of GPUs of this host, see [`gpus`].
    pub fn new(clusters: supervisor::ClusterFolder, clock: Arc<dyn Clock>, gpus: u32) -> Self {
        Self { clusters, clock, gpus }
    }

    /// A host with GPUs is one node with one slot for each GPU; otherwise each node is a process with one slot.
    fn nodes(&self, count: u32) -> Vec<Node> {
        if self.gpus > 0 {
            return vec![Node::new("node-0", self.gpus)];
        }
        (0..count).map(|number| Node::new(format!("node-{number}"), 1)).collect()
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&supervisor::ClusterFolder) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, PortError> {
        let clusters = self.clusters.clone();
        let done =
            tokio::task::spawn_blocking(move || work(&clusters)).await.map_err(PortError::transient)?;
        done.map_err(PortError::transient)
    }
}

/// Number of this host's GPUs for process clusters: those that the driver lists, or 0 without a driver. A single GPU counts only
/// if nccl-tests is installed: any other program would run as one rank, which measures no link.
pub fn gpus() -> u32 {
    let listed = Command::new("nvidia-smi").arg("-L").output();
    let count = listed.ok().filter(|output| output.status.success()).map_or(0, |output| {
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.starts_with("GPU ")).count()
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usable = count != 1 || std::env::split_paths(&path).any(|folder| has_nccl_tests(&folder));
    if usable { u32::try_from(count).unwrap_or(0) } else { 0 }
}

/// Whether a folder contains a program of nccl-tests.
fn has_nccl_tests(folder: &Path) -> bool {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_string_lossy().ends_with("_perf"))
}

#[async_trait::async_trait]
impl ClusterProvider for LocalClusters {
    async fn create(&self, order: &LeaseRequest) -> Result<String, PortError> {
        if order.system.kind() != PROCESSES {
            let why = format!("a cluster of {} cannot run as local processes", order.system.kind());
            return Err(PortError::Permanent(Failure::new(Class::Input, "NOT_FOR_RENT", why)));
        }
        let nodes = order.system.nodes();
        let labels = [
            ("burnin-run".to_owned(), order.id.run.to_string()),
            ("burnin-attempt".to_owned(), order.id.attempt.to_string()),
            ("burnin-expires".to_owned(), order.expires_at.to_string()),
        ];
        let request =
            ClusterRequest { nodes: self.nodes(nodes), expires_at: order.expires_at, labels: labels.into() };
        let name = order.name.clone();
        let clusters = self.clusters.clone();
        let created = tokio::task::spawn_blocking(move || clusters.create(&name, &request)).await;
        match created.map_err(PortError::transient)? {
            Ok(()) => Ok(order.name.clone()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(PortError::Permanent(Failure::new(Class::Cancelled, "GIVEN_BACK", error.to_string())))
            }
            Err(error) => Err(PortError::transient(error)),
        }
    }

    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError> {
        let name = name.to_owned();
        let state = self.blocking(move |clusters| clusters.poll(&name)).await?;
        Ok(match state {
            ClusterState::Absent | ClusterState::Deleted(_) => ClusterStatus::Absent,
            ClusterState::Starting => ClusterStatus::Starting,
            ClusterState::Ready(cluster) => ClusterStatus::Ready(cluster),
            ClusterState::Broken { why } => ClusterStatus::Broken(why),
        })
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        let (name, clock) = (name.to_owned(), Arc::clone(&self.clock));
        self.blocking(move |clusters| clusters.delete(&name, || clock.now())).await
    }

    async fn list(&self) -> Result<ClusterListing, PortError> {
        let there = self.blocking(supervisor::ClusterFolder::list).await?;
        let listed = there.into_iter().map(|(name, labels)| ListedCluster {
            name,
            run: labels.get("burnin-run").cloned().unwrap_or_default(),
            expires_at: labels.get("burnin-expires").and_then(|at| at.parse().ok()),
        });
        Ok(ClusterListing { at: self.clock.now(), clusters: listed.collect() })
    }
}
