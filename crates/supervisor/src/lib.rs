//! This machine as a small cloud.
//!
//! Builds, nodes and jobs are processes of their own, which outlive whoever asked for them: kill the program that
//! started a run, and its build goes on, as it would on Cloud Build. Everybody meets in folders:
//!
//! ```text
//! builds/{build}/      request.json  lock  groups/  build.log  workspace/  outcome.json   cancel
//! clusters/{cluster}/  cluster.json  nodes/{node}/{lock, ready, leader}  jobs/{job}/...   deleted.json
//!   jobs/{job}/        job.json  claims/{node}  groups/{node}  output/{node}.log  exits/{node}.json   cancel
//! ```
//!
//! Files are created once, whole, and never rewritten. A process is alive as long as it holds its lock, which the
//! kernel takes away when it dies, however it dies.

mod ask;
mod build;
mod cluster;
pub mod files;
mod job;
mod node;
mod process;
mod role;
pub mod spool;

pub use ask::{Answer, ask};
pub use build::{BuildOutcome, BuildRequest, BuildState, Builds, supervise};
pub use cluster::{ClusterRequest, ClusterState, Clusters};
pub use job::{JobRequest, JobState, Jobs};
pub use node::serve;
pub use role::role;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
    process::Stdio,
};

/// Whether supervisors and nodes inherit a variable: the list of builds, library paths for the benchmark, and the switches of
/// NCCL, RCCL and the GPUs' run-time systems.
fn passes(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let switches = ["NCCL_", "RCCL_", "CUDA_", "HIP_"];
    cloudbuild::local::INHERITED.contains(&name)
        || matches!(name, "LD_LIBRARY_PATH" | "RUST_BACKTRACE")
        || switches.iter().any(|prefix| name.starts_with(prefix))
}

/// How this program starts itself as somebody else: the program and the arguments before ours.
#[derive(Clone, Debug)]
pub struct Program(pub Vec<OsString>);

impl Program {
    /// Starts a process that does not end with us: in a group of its own, without our terminal, speaking to `log`.
    fn spawn(&self, arguments: &[&OsStr], env: &[(&str, &OsStr)], log: &Path) -> io::Result<()> {
        use std::os::unix::process::CommandExt;
        let (program, before) =
            self.0.split_first().ok_or_else(|| io::Error::other("no program is set to supervise with"))?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = std::process::Command::new(program);
        command.args(before).args(arguments).process_group(0);
        // Jobs and build steps can read the environment of their parent, so it has only variables that they may read.
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| passes(name)))
            .envs(env.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        // Somebody has to take note of its end, or it stays a zombie as long as we live.
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}
