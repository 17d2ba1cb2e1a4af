//! A node: a process that runs its part of every job, until the cluster is released or expires.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use model::Timestamp;

use crate::{
    cluster_request,
    job::{JobFolder, JobRequest, NodeExit},
    lock_files,
    process::{self, SupervisedGroup},
};

/// Poll interval of a node.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Grace period for the other processes of a job after one process has failed.
const KILL_WAIT: Duration = Duration::from_secs(15);
/// Grace period of a process after `SIGTERM`.
const GRACE: Duration = Duration::from_secs(1);

/// Serves as node `name` of the cluster in `folder`: the main function of the node process. Returns when the
/// cluster is released or has expired, after killing all its processes.
///
/// # Errors
/// Returns an error if the folder cannot be read or written.
pub fn serve(folder: &Path, name: &str) -> io::Result<()> {
    let place = folder.join("nodes").join(name);
    let Some(_lock) = lock_files::lock(&place.join("lock"))? else { return Ok(()) };
    let Some(cluster) = cluster_request::read(folder)? else { return Ok(()) };
    let all: Vec<String> = cluster.nodes.into_iter().map(|node| node.name).collect();
    if !all.iter().any(|node| node == name) {
        return Ok(());
    }
    let leader = SupervisedGroup::led_by(i32::try_from(std::process::id()).unwrap_or(0));
    lock_files::create_json(&place.join("leader"), &leader)?;
    lock_files::create(&place.join("ready"), b"")?;

    let mut node =
        NodeProcess { folder: folder.to_owned(), name: name.to_owned(), all, running: BTreeMap::new() };
    let mut result = Ok(());
    // Without its folder the cluster can no longer be accessed or deleted.
    let wanted = || folder.join("cluster.json").exists() && !folder.join("deleted.json").exists();
    while result.is_ok() && wanted() && now() < cluster.expires_at {
        result = node.check_jobs();
        thread::sleep(POLL_INTERVAL);
    }
    // End the processes even after an error, because no other process ends them once the node has ended.
    node.end_all();
    result
}

struct NodeProcess {
    folder: PathBuf,
    name: String,
    /// All nodes of the cluster.
    all: Vec<String>,
    running: BTreeMap<String, Process>,
}

struct Process {
    child: Child,
    group: SupervisedGroup,
    started_at: Timestamp,
    until: Instant,
    /// See [`JobRequest::independent`].
    independent: bool,
    /// Deadline after the failure of another node's process.
    doomed: Option<Instant>,
}

impl NodeProcess {
    fn check_jobs(&mut self) -> io::Result<()> {
        for job in JobFolder::at(&self.folder).names()? {
            let folder = self.folder.join("jobs").join(&job);
            if let Some(process) = self.running.get_mut(&job) {
                if let Some((state, status)) = process.end_state(&folder)? {
                    let process = self.running.remove(&job);
                    let started_at = process.map_or_else(now, |process| process.started_at);
                    self.report(&folder, state, status, started_at)?;
                }
            } else if folder.join("job.json").exists()
                && lock_files::create(&folder.join("claims").join(&self.name), b"")?
            {
                self.start(&job, &folder)?;
            }
        }
        Ok(())
    }

    /// A claimed job either runs or has an exit: a job that cannot be started has failed.
    fn start(&mut self, job: &str, folder: &Path) -> io::Result<()> {
        let Some(request) = lock_files::read_json::<JobRequest>(&folder.join("job.json"))? else {
            return Ok(());
        };
        let Some(rank) = request.rank(&self.name, &self.all) else { return Ok(()) };
        let started_at = now();
        if folder.join("cancel").exists() {
            return self.report(folder, "CANCELLED", None, started_at);
        }
        match self.spawn(&request, rank, folder) {
            Ok(child) => {
                let group = SupervisedGroup::led_by(i32::try_from(child.id()).unwrap_or(0));
                lock_files::create_json(&folder.join("groups").join(&self.name), &group)?;
                let until = Instant::now() + request.limit.0;
                let independent = request.independent;
                let process = Process { child, group, started_at, until, independent, doomed: None };
                self.running.insert(job.to_owned(), process);
                Ok(())
            }
            Err(error) => {
                let program = request.argv.first().map_or("", String::as_str);
                fs::create_dir_all(folder.join("output"))?;
                fs::write(self.output(folder), format!("{}: cannot start {program}: {error}\n", self.name))?;
                self.report(folder, "FAILED", None, started_at)
            }
        }
    }

    fn output(&self, folder: &Path) -> PathBuf {
        folder.join("output").join(format!("{}.log", self.name))
    }

    fn spawn(&self, request: &JobRequest, (rank, ranks): (usize, usize), folder: &Path) -> io::Result<Child> {
        let rendezvous = JobFolder::rendezvous(folder);
        fs::create_dir_all(&rendezvous)?;
        fs::create_dir_all(folder.join("output"))?;
        let work = folder.join("work").join(&self.name);
        fs::create_dir_all(&work)?;
        let output = File::create(self.output(folder))?;
        let (program, arguments) =
            request.argv.split_first().ok_or_else(|| io::Error::other("the command line is empty"))?;
        Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| passes(&name.to_string_lossy())))
            .envs(&request.env)
            .env(process::MARK, &self.folder)
            .env(process::NODE_MARK, self.state_folder())
            .env("BURNIN_NODE_NAME", &self.name)
            .env("BURNIN_RANK", rank.to_string())
            .env("BURNIN_RANKS", ranks.to_string())
            .env("BURNIN_RENDEZVOUS", &rendezvous)
            .current_dir(work)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
    }

    fn report(
        &self,
        folder: &Path,
        state: &str,
        status: Option<ExitStatus>,
        started_at: Timestamp,
    ) -> io::Result<()> {
        let exit = NodeExit {
            state: state.to_owned(),
            exit_code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            started_at,
            ended_at: now(),
        };
        lock_files::create_json(&folder.join("exits").join(format!("{}.json", self.name)), &exit).map(drop)
    }

    fn end_all(&mut self) {
        for process in self.running.values_mut() {
            process.group.end(GRACE);
            drop(process.child.wait()); // the process has ended, or cannot be killed
        }
        // Processes of this job and of earlier jobs may have left their group.
        process::end_marked(process::NODE_MARK, &self.state_folder());
    }

    fn state_folder(&self) -> PathBuf {
        self.folder.join("nodes").join(&self.name)
    }
}

impl Process {
    /// End of the process; `None` while it runs.
    fn end_state(&mut self, folder: &Path) -> io::Result<Option<(&'static str, Option<ExitStatus>)>> {
        if let Some(status) = self.child.try_wait()? {
            self.group.kill(); // kills the rest of the group
            return Ok(Some((if status.success() { "COMPLETED" } else { "FAILED" }, Some(status))));
        }
        if !self.independent && self.doomed.is_none() && neighbour_failed(folder)? {
            self.doomed = Some(Instant::now() + KILL_WAIT);
        }
        let now = Instant::now();
        let why = if folder.join("cancel").exists() {
            "CANCELLED"
        } else if now >= self.until {
            "TIMEOUT"
        } else if self.doomed.is_some_and(|doomed| now >= doomed) {
            "FAILED"
        } else {
            return Ok(None);
        };
        self.group.end(GRACE);
        Ok(Some((why, Some(self.child.wait()?))))
    }
}

/// Whether a job inherits a variable: library paths, and the benchmark's own settings.
fn passes(name: &str) -> bool {
    let switches = ["NCCL_", "RCCL_", "CUDA_", "HIP_"];
    matches!(name, "PATH" | "LD_LIBRARY_PATH") || switches.iter().any(|prefix| name.starts_with(prefix))
}

fn neighbour_failed(folder: &Path) -> io::Result<bool> {
    let exits = folder.join("exits");
    for name in lock_files::names(&exits)? {
        if lock_files::read_json::<NodeExit>(&exits.join(name))?.is_some_and(|exit| exit.state != "COMPLETED")
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn now() -> Timestamp {
    chrono::Utc::now().into()
}
