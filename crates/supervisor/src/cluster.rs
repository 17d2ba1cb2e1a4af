//! Local clusters: each node is a process that accepts jobs.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use model::{Cluster, ClusterAccess, Deleted, Timestamp};

use crate::{
    OwnProgram,
    build::wait_for,
    cluster_request::{ClusterRequest, read},
    job::JobFolder,
    lock_files,
    process::{self, SupervisedGroup},
};

/// Progress of a cluster, from the files of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// The cluster was not requested.
    Absent,
    /// Some nodes are not ready yet.
    Starting,
    /// All nodes accept jobs.
    Ready(Cluster),
    /// A node has failed or did not start.
    Broken {
        /// The node and its last log line.
        why: String,
    },
    /// Released, and no process remains.
    Deleted(Deleted),
}

#[derive(Clone, Debug)]
pub struct ClusterFolder {
    root: PathBuf,
    program: OwnProgram,
}

impl ClusterFolder {
    /// Clusters under `root`, whose nodes run `program`, which must call [`crate::serve`] with its last two
    /// arguments.
    pub fn new(root: impl Into<PathBuf>, program: OwnProgram) -> Self {
        Self { root: root.into(), program }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// All existing and released clusters.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        lock_files::names(&self.root)
    }

    /// All clusters that are not released, with their labels. A cluster with an unreadable request is
    /// included without labels.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<(String, BTreeMap<String, String>)>> {
        let mut there = Vec::new();
        for name in self.names()? {
            let folder = self.folder(&name);
            // A name that was released before any request has no resources.
            let holds = folder.join("cluster.json").exists() || folder.join("nodes").exists();
            if holds && !folder.join("gone.json").exists() {
                let labels = read(&folder).ok().flatten().map(|request| request.labels);
                there.push((name, labels.unwrap_or_default()));
            }
        }
        Ok(there)
    }

    /// Starts a cluster once. Running nodes are unchanged; a released name is rejected.
    ///
    /// # Errors
    /// Returns an error if the name was released, the folder cannot be written or a node cannot be started.
    pub fn create(&self, name: &str, request: &ClusterRequest) -> io::Result<()> {
        let folder = self.folder(name);
        if folder.join("deleted.json").exists() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{name} was released; names are not reused"),
            ));
        }
        lock_files::create_json(&folder.join("cluster.json"), request)?;
        let Some(wanted) = read(&folder)? else { return Ok(()) };
        for node in &wanted.nodes {
            let place = folder.join("nodes").join(&node.name);
            fs::create_dir_all(&place)?;
            if !lock_files::create(&place.join("asked"), b"")? {
                if place.join("leader").exists() || lock_files::is_locked(&place.join("lock"))? {
                    continue; // started before: running, or failed, which must be reported rather than hidden
                }
                // An earlier `create` may have been killed before it started the process. If the process exists, only one of the two
                // gets the lock, and the other ends. Writing renews the time that the node has for its start.
                fs::write(place.join("asked"), b"")?;
            }
            let arguments = [OsStr::new("node"), folder.as_os_str(), OsStr::new(&node.name)];
            let mark = [(process::MARK, folder.as_os_str())];
            if let Err(error) = self.program.spawn(&arguments, &mark, &place.join("node.log")) {
                // No process was started: the next attempt starts it.
                drop(fs::remove_file(place.join("asked")));
                let program = self.program.0.first().map(|program| program.display().to_string());
                let why =
                    format!("node {} cannot be started: {}: {error}", node.name, program.unwrap_or_default());
                return Err(io::Error::new(error.kind(), why));
            }
        }
        Ok(())
    }

    /// State of a cluster.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn poll(&self, name: &str) -> io::Result<ClusterState> {
        let folder = self.folder(name);
        if let Some(deleted) = lock_files::read_json(&folder.join("gone.json"))? {
            return Ok(ClusterState::Deleted(deleted));
        }
        let Some(request) = read(&folder)? else { return Ok(ClusterState::Absent) };
        let mut coming = false;
        for node in &request.nodes {
            let place = folder.join("nodes").join(&node.name);
            if !place.join("asked").exists() {
                coming = true; // `create` is running, or was interrupted and will be repeated
                continue;
            }
            match (place.join("ready").exists(), lock_files::is_locked(&place.join("lock"))?) {
                (true, true) => {}
                (false, _) if is_recent(&place) => coming = true,
                _ => {
                    let log = fs::read_to_string(place.join("node.log")).unwrap_or_default();
                    let last = log.lines().last().unwrap_or("its log is empty");
                    return Ok(ClusterState::Broken { why: format!("node {} has ended: {last}", node.name) });
                }
            }
        }
        if coming {
            return Ok(ClusterState::Starting);
        }
        let access = ClusterAccess::processes(&folder.display().to_string());
        Ok(ClusterState::Ready(Cluster { name: name.to_owned(), nodes: request.nodes, access }))
    }

    /// Releases a cluster: kills its nodes and all their processes, checks that no process remains, and removes its
    /// folder except for the proof. Returns after completion.
    ///
    /// # Errors
    /// Returns an error if a process is still running or the folder cannot be written: retry.
    pub fn delete(&self, name: &str, now: impl Fn() -> Timestamp) -> io::Result<Deleted> {
        let folder = self.folder(name);
        if let Some(deleted) = lock_files::read_json::<Deleted>(&folder.join("gone.json"))? {
            // A recorded deletion is confirmed again, with the current time.
            return Ok(Deleted { confirmed_at: now(), ..deleted });
        }
        // Nodes end when they find the mark, and `create` rejects the name. On a full disk the mark cannot be written,
        // but the processes are still killed.
        let marked = lock_files::create(&folder.join("deleted.json"), b"{}");
        let nodes = lock_files::names(&folder.join("nodes"))?;
        let alive = || -> io::Result<Vec<&String>> {
            let locked =
                |node: &&String| lock_files::is_locked(&folder.join("nodes").join(node).join("lock"));
            nodes
                .iter()
                .filter_map(|node| locked(&node).map(|locked| locked.then_some(node)).transpose())
                .collect()
        };
        // Each node first ends its own jobs; after the grace period it is killed.
        let grace = Duration::from_secs(if marked.is_ok() { 4 } else { 0 });
        drop(wait_for(|| alive().is_ok_and(|alive| alive.is_empty()), grace));
        for node in &nodes {
            if let Some(leader) =
                lock_files::read_json::<SupervisedGroup>(&folder.join("nodes").join(node).join("leader"))?
            {
                leader.end(Duration::ZERO);
            }
        }
        let mut left = 0;
        for job in JobFolder::at(&folder).names()? {
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
            let processes = if left == 1 { "process" } else { "processes" };
            return Err(io::Error::other(format!("{name} still has {left} running {processes}")));
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
        lock_files::create_json(&folder.join("gone.json"), &deleted)?;
        Ok(deleted)
    }
}

/// Whether the node may still be starting.
fn is_recent(place: &Path) -> bool {
    let modified = fs::metadata(place.join("asked")).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age < Duration::from_secs(10)))
}
