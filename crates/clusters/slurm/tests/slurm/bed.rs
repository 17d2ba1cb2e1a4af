//! The test bed of `.ci/slurm.sh`, used from the controller's host.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use cluster_api::{JobSpec, JobStatus, Scheduler, Settings, scheduler_conformance};
use cluster_slurm::{Slurm, SlurmJobs};
use ledger::MemoryStore;
use model::{Cluster, JobEnd, Span};

/// Timeout of all waits, for a busy machine. Slurm marks a node that does not respond as down after 30 s.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A running Slurm of four nodes, with a shared folder for this test.
pub struct SlurmBed {
    pub root: PathBuf,
    pub shared: PathBuf,
    pub slurm: Slurm,
}

impl SlurmBed {
    /// The bed in the gate's folder, with a shared folder whose name contains special characters.
    pub fn new(test: &str) -> Self {
        let root = PathBuf::from(std::env::var_os("BURNIN_SLURM_BED").expect("run by .ci/slurm.sh"));
        let shared = root.join("shared").join(format!("{test} it's a $(touch \"x\") é"));
        std::fs::create_dir_all(&shared).unwrap();
        let settings = serde_json::json!({"nodes": 4, "shared_folder": shared, "partition": "main"});
        let bed = Self { root, slurm: serde_json::from_value(settings).unwrap(), shared };
        bed.clear_faults();
        bed
    }

    /// Restores nodes and controller to up and idle after the previous test.
    fn clear_faults(&self) {
        _ = std::fs::remove_dir_all(self.root.join("fault"));
        std::fs::create_dir_all(self.root.join("fault")).unwrap();
        if !self.run("scontrol ping").contains("UP") {
            self.start_controller("");
        }
        self.run("scancel --user=root");
        for node in 1..=4 {
            self.link(node, "up");
            if !self.alive(&format!("slurmd.n{node}")) {
                self.start_node(node);
            }
        }
        self.wait_for("every node is idle", || {
            self.run("scontrol update nodename=n[1-4] state=resume");
            self.run("sinfo -h -p main -N -o %T").lines().filter(|state| *state == "idle").count() == 4
        });
    }

    pub fn cluster_with(&self, change: impl FnOnce(&mut Slurm)) -> Cluster {
        let mut slurm = self.slurm.clone();
        change(&mut slurm);
        Cluster { name: "bed".into(), nodes: vec![], access: slurm.access() }
    }

    /// Scheduler of a restarted agent, without state in memory.
    pub fn jobs(&self) -> SlurmJobs {
        SlurmJobs::new(Arc::new(MemoryStore::default()))
    }

    /// A job of the given name whose ranks run this shell script.
    pub fn job(&self, name: &str, script: &str) -> JobSpec {
        let programs = self.shared.join("programs").join(name);
        let program = programs.join("all_reduce_perf");
        std::fs::create_dir_all(&programs).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let cluster = self.cluster_with(|slurm| slurm.programs = Some(programs.display().to_string()));
        let labels =
            [("burnin-run", "r-1"), ("burnin-attempt", "1"), ("burnin-expires", "2027-01-15T08:00:00.000Z")];
        JobSpec {
            name: name.into(),
            cluster,
            image: None,
            program: scheduler_conformance::program(),
            limit: Span::from_secs(300),
            environment: Default::default(),
            evidence: false,
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    /// Number of started ranks of this benchmark: each start adds a letter.
    pub fn started_ranks(&self, name: &str) -> usize {
        std::fs::read(self.count_file(name)).map_or(0, |bytes| bytes.len())
    }

    /// The file with one letter per started rank.
    pub fn count_file(&self, name: &str) -> PathBuf {
        self.root.join("shared").join(format!("begun-{name}"))
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        self.shared.join("jobs").join(name)
    }

    /// Runs a command on the controller's host; returns its output.
    pub fn run(&self, line: &str) -> String {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
    }

    /// Runs a command on a node; returns its output.
    pub fn on(&self, node: &str, line: &str) -> String {
        self.run(&format!("{} {node} {line}", self.root.join("on").display()))
    }

    pub fn numbers(&self, name: &str) -> Vec<String> {
        self.run(&format!("squeue -h -t all -o %i -n {name}")).lines().map(str::to_owned).collect()
    }

    pub fn link(&self, node: u32, state: &str) {
        let up = std::fs::read_to_string(self.root.join("run/up")).unwrap();
        let prefix = up.split(['=', ' ']).nth(1).unwrap().to_owned();
        self.run(&format!("ip -n {prefix}-sw link set pn{node} {state}"));
    }

    fn pid(&self, daemon: &str) -> Option<String> {
        let pid = std::fs::read_to_string(self.root.join("run").join(format!("{daemon}.pid"))).ok()?;
        Some(pid.trim().to_owned())
    }

    pub fn alive(&self, daemon: &str) -> bool {
        let status =
            self.pid(daemon).and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
        status.is_some_and(|status| !status.contains("State:\tZ"))
    }

    /// Kills a daemon, found by its process id, and waits for its end.
    pub fn kill(&self, daemon: &str) {
        let pid = self.pid(daemon).expect("the daemon has a process id");
        self.run(&format!("kill -9 {pid}"));
        self.wait_for("the daemon has ended", || !self.alive(daemon));
    }

    pub fn start_controller(&self, how: &str) {
        self.run(&format!("slurmctld {how}"));
        self.wait_for("the controller answers", || self.run("scontrol ping").contains("UP"));
    }

    pub fn start_node(&self, node: u32) {
        self.on(&format!("n{node}"), &format!("slurmd -N n{node}"));
    }

    pub fn wait_for(&self, what: &str, done: impl Fn() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < TIMEOUT, "{what}: not after {} s", TIMEOUT.as_secs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Polls until the status is not `Active`.
pub async fn final_status(jobs: &dyn Scheduler, job: &JobSpec) -> JobStatus {
    let started = Instant::now();
    loop {
        match jobs.poll(&job.cluster, &job.name).await {
            Ok(JobStatus::Active) => {
                assert!(started.elapsed() < TIMEOUT, "timeout: {} has not ended", job.name)
            }
            Ok(finding) => return finding,
            Err(service::PortError::Transient(why)) => {
                assert!(started.elapsed() < TIMEOUT, "{}: {why}", job.name)
            }
            Err(service::PortError::Permanent(failure)) => panic!("{}: {failure:?}", job.name),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Polls until the job's program has ended, and returns its end.
pub async fn ended(jobs: &dyn Scheduler, job: &JobSpec) -> JobEnd {
    match final_status(jobs, job).await {
        JobStatus::Ended(end) => end,
        other => panic!("{}: {other:?}", job.name),
    }
}

/// Polls until a job is lost, and returns Slurm's state and the reason.
pub async fn lost(jobs: &dyn Scheduler, job: &JobSpec) -> (String, String) {
    match final_status(jobs, job).await {
        JobStatus::Lost { code, why } => (code, why),
        other => panic!("{}: {other:?}", job.name),
    }
}

/// Content of an output file of a job.
pub async fn text(jobs: &dyn Scheduler, job: &JobSpec, file: &str) -> String {
    let mut body = jobs.output(&job.cluster, &job.name, file).await.expect("a file");
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut body, &mut text).await.unwrap();
    text
}

/// Creates a command that replaces one of Slurm's.
pub fn wrapper(folder: &Path, command: &str, script: &str) {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join(command);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}
