//! Jobs of a cluster: written to its folder once, and started by every node.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use model::{JobEnd, Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{cluster_request, lock_files};

/// A job with one process per node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment in addition to `PATH`, `BURNIN_NODE_NAME`, `BURNIN_RANK`, `BURNIN_RANKS` and `BURNIN_RENDEZVOUS`.
    pub env: BTreeMap<String, String>,
    /// Maximum duration.
    pub limit: Span,
    /// Labels that identify the owner.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Participating nodes, in the order of their ranks; empty: all nodes of the cluster.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Whether the processes of other nodes continue after the process of one node fails.
    #[serde(default)]
    pub independent: bool,
}

impl JobRequest {
    /// Rank of a node and number of ranks; `None` if it does not participate. `all` are the cluster's nodes.
    pub(crate) fn rank(&self, node: &str, all: &[String]) -> Option<(usize, usize)> {
        let taking_part = if self.nodes.is_empty() { all } else { &self.nodes };
        Some((taking_part.iter().position(|name| name == node)?, taking_part.len()))
    }
}

/// End of a node's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeExit {
    /// `COMPLETED`, `FAILED`, `TIMEOUT` or `CANCELLED`.
    pub state: String,
    pub exit_code: Option<i32>,
    /// Signal that terminated it.
    pub signal: Option<i32>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

/// Progress of a job, from the files of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// The job was not submitted.
    Absent,
    /// At least one process has not ended.
    Running,
    /// All processes have ended.
    Ended(JobEnd),
    /// A node failed during the job.
    NodeFail { node: String },
    /// The cluster was released.
    ClusterGone,
}

#[derive(Clone, Debug)]
pub struct JobFolder {
    cluster: PathBuf,
}

impl JobFolder {
    pub fn at(cluster: impl Into<PathBuf>) -> Self {
        Self { cluster: cluster.into() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.cluster.join("jobs").join(name)
    }

    /// All jobs.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        lock_files::names(&self.cluster.join("jobs"))
    }

    /// Submits a job once: a second submission under the same name has no effect.
    ///
    /// # Errors
    /// Returns an error if the cluster accepts no jobs or the folder cannot be written.
    pub fn submit(&self, name: &str, request: &JobRequest) -> io::Result<()> {
        if self.cluster.join("deleted.json").exists() || cluster_request::read(&self.cluster)?.is_none() {
            let why =
                format!("{} accepts no jobs: the cluster is absent or was released", self.cluster.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        lock_files::create_json(&self.folder(name).join("job.json"), request).map(drop)
    }

    /// State of a job.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn poll(&self, name: &str) -> io::Result<JobState> {
        let folder = self.folder(name);
        let Some(cluster) = cluster_request::read(&self.cluster)? else { return Ok(JobState::ClusterGone) };
        if self.cluster.join("gone.json").exists() {
            return Ok(JobState::ClusterGone);
        }
        let Some(request) = lock_files::read_json::<JobRequest>(&folder.join("job.json"))? else {
            return Ok(JobState::Absent);
        };
        let mut exits = Vec::new();
        let mut running = false;
        let takes_part = |name: &String| request.nodes.is_empty() || request.nodes.contains(name);
        for node in cluster.nodes.iter().filter(|node| takes_part(&node.name)) {
            // Read the lock before the exit: a node that ends between the two reads has already written its exit.
            let alive = lock_files::is_locked(&self.cluster.join("nodes").join(&node.name).join("lock"))?;
            match lock_files::read_json::<NodeExit>(
                &folder.join("exits").join(format!("{}.json", node.name)),
            )? {
                Some(exit) => exits.push(exit),
                None if alive => running = true,
                // The job has failed, regardless of the results of the other nodes.
                None => return Ok(JobState::NodeFail { node: node.name.clone() }),
            }
        }
        Ok(worst(exits).filter(|_| !running).map_or(JobState::Running, JobState::Ended))
    }

    /// Cancels a job. A job that was not submitted yet will never start.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn cancel(&self, name: &str) -> io::Result<()> {
        if self.cluster.join("deleted.json").exists() {
            return Ok(()); // jobs of a deleted cluster have ended with the cluster
        }
        lock_files::create(&self.folder(name).join("cancel"), b"").map(drop)
    }

    /// Folder of a job's files: see [`crate::files`].
    pub fn output_folder(&self, name: &str) -> PathBuf {
        self.folder(name).join("output")
    }

    /// Folder of an image's files on the cluster.
    pub fn image_folder(&self, digest: &str) -> PathBuf {
        self.cluster.join("images").join(digest.replace(':', "-"))
    }

    pub(crate) fn rendezvous(folder: &Path) -> PathBuf {
        folder.join("rendezvous")
    }
}

/// The result of the job is the result of its worst process; its duration is from the first start to the last end.
fn worst(exits: Vec<NodeExit>) -> Option<JobEnd> {
    let rank = |exit: &NodeExit| {
        ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"].iter().position(|state| *state == exit.state)
    };
    let started_at = exits.iter().map(|exit| exit.started_at).min();
    let ended_at = exits.iter().map(|exit| exit.ended_at).max();
    // The first of several equally bad processes to end is closest to the cause.
    let worst = exits.into_iter().min_by_key(|exit| (std::cmp::Reverse(rank(exit)), exit.ended_at))?;
    let NodeExit { state, exit_code, signal, .. } = worst;
    Some(JobEnd { state, exit_code, signal, started_at, ended_at, nodes: Vec::new() })
}
