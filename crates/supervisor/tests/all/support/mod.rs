//! A folder that represents a machine, and this test binary as supervisor and node.
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use model::{JobEnd, Node, Span, Timestamp};
use rustix::process::{Pid, Signal, kill_process};
use supervisor::{
    BuildFolder, BuildOutcome, BuildRequest, BuildState, ClusterFolder, ClusterRequest, ClusterState,
    JobFolder, JobRequest, JobState, OwnProgram,
};
use tempfile::TempDir;

/// Starts this binary as a supervisor or a node.
pub fn program() -> OwnProgram {
    test_support::processes::program("support::be_host")
}

/// Has no effect as a test; with the arguments of a supervisor or node it runs in that role.
#[test]
fn be_host() {
    test_support::processes::host();
}

pub fn now() -> Timestamp {
    chrono::Utc::now().into()
}

/// Polls until a value is available.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(seen) = condition() {
            return seen;
        }
        assert!(Instant::now() < until, "timeout while waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process runs. A zombie does not run: it only waits for its parent to reap it.
pub fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Waits for the process whose command line ends with these arguments, and returns its id.
pub fn process_with(arguments: &[&str]) -> i32 {
    wait_for(&format!("a process started with {arguments:?}"), || {
        let tail: Vec<u8> = arguments.iter().flat_map(|part| [part.as_bytes(), b"\0"].concat()).collect();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|pid: &i32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(&tail)) && runs(*pid)
        })
    })
}

/// A simulated machine. Dropping it ends all its processes.
pub struct TestMachine {
    folder: TempDir,
    pub builds: BuildFolder,
    pub clusters: ClusterFolder,
}

impl TestMachine {
    /// Records the request of a node, as by a `create` that was killed before it started the node's process.
    pub fn request_without_process(&self, cluster: &str, node: &str) {
        let place = self.folder.path().join("clusters").join(cluster).join("nodes").join(node);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("asked"), b"").unwrap();
    }

    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let builds = BuildFolder::new(folder.path().join("builds"), program());
        let clusters = ClusterFolder::new(folder.path().join("clusters"), program());
        Self { folder, builds, clusters }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for the process id that a script writes into a file.
    pub fn pid(&self, name: &str) -> i32 {
        wait_for(name, || fs::read_to_string(self.path(name)).ok()?.strip_suffix('\n')?.parse().ok())
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A build of one script, which finds the machine's folder in `$_WORLD`.
    pub fn build(&self, script: &str) -> BuildRequest {
        BuildRequest {
            config: serde_json::json!({
                "steps": [{"name": "bash", "script": script, "env": ["WORLD=$_WORLD"]}],
            }),
            source: None,
            repository: None,
            substitutions: [("_WORLD".to_owned(), self.folder.path().display().to_string())].into(),
            id: "b".to_owned(),
            secrets: None,
        }
    }

    pub fn outcome(&self, build: &str) -> BuildOutcome {
        wait_for("the build to end", || match self.builds.poll(build).unwrap() {
            BuildState::Ended(outcome) => Some(outcome),
            BuildState::Working => None,
            other => panic!("{build}: {other:?}"),
        })
    }

    pub fn supervisor(&self, build: &str) -> i32 {
        process_with(&["build", self.builds.folder(build).to_str().unwrap()])
    }

    /// Process id of a node.
    pub fn node(&self, cluster: &str, node: &str) -> i32 {
        process_with(&["node", self.path("clusters").join(cluster).to_str().unwrap(), node])
    }

    /// A cluster of `nodes` nodes that expires after 30 s.
    pub fn cluster(&self, name: &str, nodes: usize) -> JobFolder {
        self.cluster_until(name, nodes, now() + Span::from_secs(30))
    }

    pub fn cluster_until(&self, name: &str, nodes: usize, expires_at: Timestamp) -> JobFolder {
        self.clusters.create(name, &cluster_request(nodes, expires_at)).unwrap();
        let cluster = wait_for("the cluster to become ready", || match self.clusters.poll(name).unwrap() {
            ClusterState::Ready(cluster) => Some(cluster),
            ClusterState::Starting => None,
            other => panic!("{name}: {other:?}"),
        });
        assert_eq!(cluster.nodes.len(), nodes);
        JobFolder::at(cluster.access.processes_folder().unwrap())
    }

    /// A job of one script, which finds the machine's folder in `$WORLD`.
    pub fn job(&self, script: &str) -> JobRequest {
        JobRequest {
            argv: ["sh", "-c", script].map(str::to_owned).into(),
            env: [("WORLD".to_owned(), self.folder.path().display().to_string())].into(),
            limit: Span::from_secs(30),
            labels: Default::default(),
            nodes: Vec::new(),
            independent: false,
        }
    }
}

impl Drop for TestMachine {
    fn drop(&mut self) {
        for build in fs::read_dir(self.path("builds")).into_iter().flatten().flatten() {
            let name = build.file_name().into_string().unwrap();
            self.builds.cancel(&name).ok();
            wait_for("the build to end", || {
                (!matches!(self.builds.poll(&name), Ok(BuildState::Working))).then_some(())
            });
        }
        for cluster in self.clusters.names().unwrap_or_default() {
            self.clusters.delete(&cluster, now).ok();
        }
    }
}

pub fn cluster_request(nodes: usize, expires_at: Timestamp) -> ClusterRequest {
    let nodes = (0..nodes).map(|number| Node::new(format!("node-{number}"), 1)).collect();
    ClusterRequest { nodes, expires_at, labels: Default::default() }
}

pub fn ended(jobs: &JobFolder, name: &str) -> JobEnd {
    wait_for("the job to end", || match jobs.poll(name).unwrap() {
        JobState::Ended(end) => Some(end),
        JobState::Running => None,
        other => panic!("{name}: {other:?}"),
    })
}

pub fn output(jobs: &JobFolder, name: &str) -> String {
    let folder = jobs.output_folder(name);
    let files = supervisor::files::list(&folder).unwrap().files;
    files.into_iter().map(|file| fs::read_to_string(folder.join(file.name)).unwrap()).collect()
}
