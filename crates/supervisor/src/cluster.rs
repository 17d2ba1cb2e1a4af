//! Clusters of processes: each node is a process that takes jobs.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use model::{Cluster, Deleted, Node, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    Program,
    build::wait_for,
    job::Jobs,
    process::{self, Group},
    spool,
};

/// A cluster to bring up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRequest {
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// When every node ends by itself.
    pub expires_at: Timestamp,
    /// Labels, for whoever sweeps.
    pub labels: BTreeMap<String, String>,
}

/// Where a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// Nobody asked for it.
    Absent,
    /// Some nodes are not up yet.
    Coming,
    /// Every node takes jobs.
    Ready(Cluster),
    /// A node that was up is gone, or did not come up.
    Broken {
        /// Which, and what it said last.
        why: String,
    },
    /// It was given back, and nothing of it is left.
    Deleted(Deleted),
}

/// The clusters of a folder.
#[derive(Clone, Debug)]
pub struct Clusters {
    root: PathBuf,
    program: Program,
}

impl Clusters {
    /// Clusters under `root`, whose nodes are `program`, which must call [`crate::serve`] with its last two arguments.
    pub fn new(root: impl Into<PathBuf>, program: Program) -> Self {
        Self { root: root.into(), program }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Every cluster that is there or was.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        spool::names(&self.root)
    }

    /// Every cluster that is not gone, with its labels. One whose request cannot be read is there too, without any.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<(String, BTreeMap<String, String>)>> {
        let mut there = Vec::new();
        for name in self.names()? {
            let folder = self.folder(&name);
            // A name that was given back before anything was asked for holds nothing.
            let holds = folder.join("cluster.json").exists() || folder.join("nodes").exists();
            if holds && !folder.join("gone.json").exists() {
                let labels = read(&folder).ok().flatten().map(|request| request.labels);
                there.push((name, labels.unwrap_or_default()));
            }
        }
        Ok(there)
    }

    /// Brings up a cluster, once. Nodes that are up already are left alone; a name that was given back is refused.
    ///
    /// # Errors
    /// When the name was given back, the folder cannot be written or a node cannot be started.
    pub fn create(&self, name: &str, request: &ClusterRequest) -> io::Result<()> {
        let folder = self.folder(name);
        if folder.join("deleted.json").exists() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{name} was given back; names are not used again"),
            ));
        }
        spool::create_json(&folder.join("cluster.json"), request)?;
        let Some(wanted) = read(&folder)? else { return Ok(()) };
        for node in &wanted.nodes {
            let place = folder.join("nodes").join(&node.name);
            fs::create_dir_all(&place)?;
            if !spool::create(&place.join("asked"), b"")? {
                continue; // started before: alive, or a loss that must be seen and not papered over
            }
            let arguments = [OsStr::new("node"), folder.as_os_str(), OsStr::new(&node.name)];
            let mark = [(process::MARK, folder.as_os_str())];
            if let Err(error) = self.program.spawn(&arguments, &mark, &place.join("node.log")) {
                // Nothing was started: the next try starts it.
                drop(fs::remove_file(place.join("asked")));
                let program = self.program.0.first().map(|program| program.display().to_string());
                let why =
                    format!("node {} cannot be started: {}: {error}", node.name, program.unwrap_or_default());
                return Err(io::Error::new(error.kind(), why));
            }
        }
        Ok(())
    }

    /// Where a cluster stands.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn look(&self, name: &str) -> io::Result<ClusterState> {
        let folder = self.folder(name);
        if let Some(deleted) = spool::read_json(&folder.join("gone.json"))? {
            return Ok(ClusterState::Deleted(deleted));
        }
        let Some(request) = read(&folder)? else { return Ok(ClusterState::Absent) };
        let mut coming = false;
        for node in &request.nodes {
            let place = folder.join("nodes").join(&node.name);
            if !place.join("asked").exists() {
                coming = true; // `create` is at work, or was cut short and is repeated
                continue;
            }
            match (place.join("ready").exists(), spool::is_locked(&place.join("lock"))?) {
                (true, true) => {}
                (false, _) if young(&place) => coming = true,
                _ => {
                    let log = fs::read_to_string(place.join("node.log")).unwrap_or_default();
                    let last = log.lines().last().unwrap_or("it said nothing");
                    return Ok(ClusterState::Broken { why: format!("node {} is gone: {last}", node.name) });
                }
            }
        }
        if coming {
            return Ok(ClusterState::Coming);
        }
        let endpoint = folder.display().to_string();
        Ok(ClusterState::Ready(Cluster { name: name.to_owned(), nodes: request.nodes, endpoint }))
    }

    /// Gives a cluster back: ends its nodes and everything they started, looks that nothing is left, and removes its
    /// folder but for the proof. Returns once it is gone.
    ///
    /// # Errors
    /// When something of it is still running, or the folder cannot be written. Ask again.
    pub fn delete(&self, name: &str, now: impl Fn() -> Timestamp) -> io::Result<Deleted> {
        let folder = self.folder(name);
        if let Some(deleted) = spool::read_json::<Deleted>(&folder.join("gone.json"))? {
            // The provider is asked anew: this is a confirmation of its own.
            return Ok(Deleted { confirmed_at: now(), ..deleted });
        }
        // Nodes end when they find the mark, and `create` refuses the name. On a full disk the mark cannot be written; the
        // processes are ended nevertheless.
        let marked = spool::create(&folder.join("deleted.json"), b"{}");
        let nodes = spool::names(&folder.join("nodes"))?;
        let alive = || -> io::Result<Vec<&String>> {
            let locked = |node: &&String| spool::is_locked(&folder.join("nodes").join(node).join("lock"));
            nodes
                .iter()
                .filter_map(|node| locked(&node).map(|locked| locked.then_some(node)).transpose())
                .collect()
        };
        // Each node ends its own jobs first; one that does not is ended.
        let grace = Duration::from_secs(if marked.is_ok() { 4 } else { 0 });
        drop(wait_for(|| alive().is_ok_and(|alive| alive.is_empty()), grace));
        for node in &nodes {
            if let Some(leader) = spool::read_json::<Group>(&folder.join("nodes").join(node).join("leader"))?
            {
                leader.end(Duration::ZERO);
            }
        }
        let mut left = 0;
        for job in Jobs::at(&folder).names()? {
            left += process::end_noted(
                &folder.join("jobs").join(job).join("groups"),
                Duration::from_millis(500),
            )?;
        }
        left += process::end_marked(process::MARK, &folder);
        left += alive()?.len();
        marked.map_err(|error| {
            let why =
                format!("its processes were ended, but {} cannot be written: {error}", folder.display());
            io::Error::new(error.kind(), why)
        })?;
        if left > 0 {
            return Err(io::Error::other(format!("{left} processes of {name} are still running")));
        }
        let evidence = format!(
            "{} {}: no lock held, no process carries the cluster's mark",
            nodes.len(),
            if nodes.len() == 1 { "node" } else { "nodes" }
        );
        let deleted = Deleted { name: name.to_owned(), evidence, confirmed_at: now() };
        for part in ["nodes", "jobs", "images"] {
            match fs::remove_dir_all(folder.join(part)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        spool::create_json(&folder.join("gone.json"), &deleted)?;
        Ok(deleted)
    }
}

pub(crate) fn read(folder: &Path) -> io::Result<Option<ClusterRequest>> {
    spool::read_json(&folder.join("cluster.json"))
}

/// A node has a moment to come up before its silence means anything.
fn young(place: &Path) -> bool {
    let asked = fs::metadata(place.join("asked")).and_then(|asked| asked.modified());
    asked.is_ok_and(|asked| asked.elapsed().is_ok_and(|age| age < Duration::from_secs(10)))
}
