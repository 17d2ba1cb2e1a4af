//! Jobs of a cluster: put into its folder once, taken by every node.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use model::{JobEnd, Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{cluster, spool};

/// One process a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment beside `PATH`, `BURNIN_RANK`, `BURNIN_RANKS` and `BURNIN_RENDEZVOUS`.
    pub env: BTreeMap<String, String>,
    /// How long it may run.
    pub limit: Span,
    /// Whose it is, for whoever finds it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The nodes that take part, in the order of their ranks; every one of the cluster when none is named.
    #[serde(default)]
    pub nodes: Vec<String>,
}

impl JobRequest {
    /// The rank of a node, of so many; none when it takes no part. `all` are the cluster's nodes.
    pub(crate) fn rank(&self, node: &str, all: &[String]) -> Option<(usize, usize)> {
        let taking_part = if self.nodes.is_empty() { all } else { &self.nodes };
        Some((taking_part.iter().position(|name| name == node)?, taking_part.len()))
    }
}

/// How a node's process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// `COMPLETED`, `FAILED`, `TIMEOUT` or `CANCELLED`.
    pub state: String,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Nobody submitted it.
    Absent,
    /// Some process of it has not ended.
    Running,
    /// Every process ended.
    Ended(JobEnd),
    /// A node went away under it.
    NodeFail {
        /// Which.
        node: String,
    },
    /// The whole cluster is gone.
    ClusterGone,
}

/// The jobs of a cluster.
#[derive(Clone, Debug)]
pub struct Jobs {
    cluster: PathBuf,
}

impl Jobs {
    /// The jobs of the cluster in this folder.
    pub fn at(cluster: impl Into<PathBuf>) -> Self {
        Self { cluster: cluster.into() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.cluster.join("jobs").join(name)
    }

    /// Every job.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        spool::names(&self.cluster.join("jobs"))
    }

    /// Submits a job, once: a second submission under the same name changes nothing.
    ///
    /// # Errors
    /// When the cluster takes no jobs or the folder cannot be written.
    pub fn submit(&self, name: &str, request: &JobRequest) -> io::Result<()> {
        if self.cluster.join("deleted.json").exists() || cluster::read(&self.cluster)?.is_none() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the cluster takes no jobs"));
        }
        spool::create_json(&self.folder(name).join("job.json"), request).map(drop)
    }

    /// Where a job stands.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn look(&self, name: &str) -> io::Result<JobState> {
        let folder = self.folder(name);
        let Some(cluster) = cluster::read(&self.cluster)? else { return Ok(JobState::ClusterGone) };
        if self.cluster.join("gone.json").exists() {
            return Ok(JobState::ClusterGone);
        }
        let Some(request) = spool::read_json::<JobRequest>(&folder.join("job.json"))? else {
            return Ok(JobState::Absent);
        };
        let mut exits = Vec::new();
        let mut running = false;
        let takes_part = |name: &String| request.nodes.is_empty() || request.nodes.contains(name);
        for node in cluster.nodes.iter().filter(|node| takes_part(&node.name)) {
            // The lock is looked at first: a node that ends in between has left its exit.
            let alive = spool::is_locked(&self.cluster.join("nodes").join(&node.name).join("lock"))?;
            match spool::read_json::<Exit>(&folder.join("exits").join(format!("{}.json", node.name)))? {
                Some(exit) => exits.push(exit),
                None if alive => running = true,
                // Whatever the other nodes still do, this job cannot end well any more.
                None => return Ok(JobState::NodeFail { node: node.name.clone() }),
            }
        }
        Ok(worst(exits).filter(|_| !running).map_or(JobState::Running, JobState::Ended))
    }

    /// Asks a job to end. One that nobody submitted yet will never begin.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn cancel(&self, name: &str) -> io::Result<()> {
        if self.cluster.join("deleted.json").exists() {
            return Ok(()); // its jobs end with the cluster
        }
        spool::create(&self.folder(name).join("cancel"), b"").map(drop)
    }

    /// Where a job's files lie: see [`crate::files`].
    pub fn output_folder(&self, name: &str) -> PathBuf {
        self.folder(name).join("output")
    }

    /// Where files of an image lie on the cluster.
    pub fn image_folder(&self, digest: &str) -> PathBuf {
        self.cluster.join("images").join(digest.replace(':', "-"))
    }

    pub(crate) fn rendezvous(folder: &Path) -> PathBuf {
        folder.join("rendezvous")
    }
}

/// The job as a whole ended as its worst process did; it lasted from the first beginning to the last end.
fn worst(exits: Vec<Exit>) -> Option<JobEnd> {
    let rank = |exit: &Exit| {
        ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"].iter().position(|state| *state == exit.state)
    };
    let started_at = exits.iter().map(|exit| exit.started_at).min();
    let ended_at = exits.iter().map(|exit| exit.ended_at).max();
    // Of equally bad ones the first to end is nearest to the cause.
    let worst = exits.into_iter().min_by_key(|exit| (std::cmp::Reverse(rank(exit)), exit.ended_at))?;
    let Exit { state, exit_code, signal, .. } = worst;
    Some(JobEnd { state, exit_code, signal, started_at, ended_at })
}
