//! Executes a [`Plan`] with local processes.
//!
//! Every step is its own process group. On a timeout or a cancellation the whole group receives `SIGTERM`, and `SIGKILL` after a grace
//! period; when the step's process ends, the rest of the group is killed, as in a container. A process that has left its group (`setsid`)
//! receives no signal.

mod artifacts;
mod build;
mod environment;
mod log;
mod masker;
mod output;
mod process;
mod step;
mod tools;
mod workdir;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{BuildProblem, BuildStatus, Plan};

pub use environment::{INHERITED, inherit};
pub use process::has_running_process;

/// Parameters of one local execution of a plan.
#[derive(Clone)]
pub struct PlanRequest {
    /// The folder used as `/workspace`; it must exist.
    pub workspace: PathBuf,
    /// The log file to create; an existing one is replaced.
    pub log: PathBuf,
    /// Maximum bytes of step output in the log.
    pub log_limit: u64,
    /// Parent of the private folder for scripts; should be outside the workspace.
    pub scratch: PathBuf,
    /// The inherited environment of steps.
    pub environment: Vec<(OsString, OsString)>,
    /// Redaction rules for the steps' output, applied before it is written.
    pub rules: Arc<redact::Rules>,
    /// Grace period of a process group after `SIGTERM`.
    pub grace: Duration,
    /// Called for each event as it happens.
    pub on_event: Option<EventHook>,
}

/// Called for each event, in the task of the build: a hook that journals a process group completes before the
/// build continues.
pub type EventHook = Arc<dyn Fn(&BuildEvent) + Send + Sync>;

impl PlanRequest {
    /// A request with the defaults: a log of at most 64 MiB, a grace period of 2 s, the environment named by
    /// [`INHERITED`].
    pub fn new(workspace: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            log: log.into(),
            log_limit: 64 << 20,
            scratch: std::env::temp_dir(),
            environment: inherit(&INHERITED),
            rules: redact::Rules::of_patterns(),
            grace: Duration::from_secs(2),
            on_event: None,
        }
    }

    fn emit(&self, event: &BuildEvent) {
        if let Some(hook) = &self.on_event {
            hook(event);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildEvent {
    /// A step is about to start its process.
    StepStarted {
        index: usize,
        /// Id in the config, if the step has one.
        id: Option<String>,
        at: SystemTime,
    },
    /// A step's process is running; it leads this process group.
    ProcessGroup {
        index: usize,
        /// Id of the group, and of its leader.
        pgid: i32,
    },
    /// A step has ended, with its whole process group.
    StepEnded {
        index: usize,
        /// Id in the config, if the step has one.
        id: Option<String>,
        status: BuildStatus,
        exit_code: Option<i32>,
        at: SystemTime,
    },
}

#[derive(Clone, Debug)]
pub struct PlanOutcome {
    pub status: BuildStatus,
    /// The steps, in the order of the file.
    pub steps: Vec<StepOutcome>,
    /// Output files, sorted by name; empty unless the build succeeded.
    pub artifacts: Vec<Artifact>,
    /// Container images to push.
    pub images: Vec<String>,
    pub log: PathBuf,
    /// Reasons for the failure, one per line; `None` on success.
    pub failure: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutcome {
    /// Id in the config, if the step has one.
    pub id: Option<String>,
    /// `QUEUED` for a step that never ran.
    pub status: BuildStatus,
    /// Exit code of its process; 128 plus the signal number if a signal killed it.
    pub exit_code: Option<i32>,
    /// Start of the process; `None` if it never started.
    pub started: Option<SystemTime>,
    /// End of the process; `None` if it never started.
    pub ended: Option<SystemTime>,
}

/// An output file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Path on this host.
    pub path: PathBuf,
    /// Name below `artifacts.objects.location`: the last part of the path, as in Cloud Build.
    pub name: String,
    /// Size at the end of the build, bytes.
    pub size_bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
}

/// Tools required by the plan that are missing on this host. [`run`] checks them before the first step.
pub fn missing_tools(plan: &Plan, request: &PlanRequest) -> Vec<BuildProblem> {
    tools::missing(plan, request)
}

/// Runs a build to its end.
///
/// Dropping the future kills the running process groups.
pub async fn run(plan: &Plan, request: &PlanRequest, cancel: CancellationToken) -> PlanOutcome {
    build::run(plan, request, cancel).await
}
