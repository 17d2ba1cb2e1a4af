//! Runs builds, nodes and jobs as local processes.
//!
//! Supervisors and nodes are separate processes that continue after the program that started them ends: if the
//! program is killed, its build continues, as in Cloud Build. All processes communicate through folders:
//!
//! ```text
//! builds/{build}/      request.json  lock  groups/  build.log  workspace/  outcome.json   cancel
//! clusters/{cluster}/  cluster.json  nodes/{node}/{lock, ready, leader}  jobs/{job}/...   deleted.json
//!   jobs/{job}/        job.json  claims/{node}  groups/{node}  output/{node}.log  exits/{node}.json   cancel
//! ```
//!
//! Files are created once, atomically, and never rewritten. A process is running while it holds its lock, which the
//! kernel releases when the process ends.

mod build;
mod cluster;
mod cluster_request;
pub mod files;
mod job;
pub mod lock_files;
mod node;
mod process;
mod program_output;
mod role;

pub use build::{BuildFolder, BuildOutcome, BuildRequest, BuildState, supervise};
pub use cluster::{ClusterFolder, ClusterState};
pub use cluster_request::ClusterRequest;
pub use job::{JobFolder, JobRequest, JobState};
pub use node::serve;
pub use program_output::{ProgramOutput, run_program};
pub use role::role;

use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
    process::Stdio,
};

/// Whether supervisors and nodes inherit a variable: `PATH` and similar, library paths for the benchmark, and
/// the settings of NCCL, RCCL and the GPU runtimes.
fn passes(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let switches = ["NCCL_", "RCCL_", "CUDA_", "HIP_"];
    cloudbuild::local::INHERITED.contains(&name)
        || matches!(name, "LD_LIBRARY_PATH" | "RUST_BACKTRACE")
        || switches.iter().any(|prefix| name.starts_with(prefix))
}

/// The command that starts this program in another role: the program and its first arguments.
#[derive(Clone, Debug)]
pub struct OwnProgram(pub Vec<OsString>);

impl OwnProgram {
    /// Starts a process that continues after this process ends: in its own group, without this process's terminal,
    /// with output to `log`.
    fn spawn(&self, arguments: &[&OsStr], env: &[(&str, &OsStr)], log: &Path) -> io::Result<()> {
        use std::os::unix::process::CommandExt;
        let (program, before) = self.0.split_first().ok_or_else(|| {
            io::Error::other(
                "the supervisor program is empty; pass its path as the first element of `OwnProgram`",
            )
        })?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = std::process::Command::new(program);
        command.args(before).args(arguments).process_group(0);
        // Jobs and build steps can read the environment of their parent, so it only has variables that they
        // may read.
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| passes(name)))
            .envs(env.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        // Reap the process, so that it does not remain a zombie.
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}
