//! Executes a [`Plan`] with processes of this host.
//!
//! Every step is a process group of its own. On a time limit or a cancel the whole group gets `SIGTERM`, and
//! `SIGKILL` after a grace; when the step's process ends by itself, whatever it left behind in the group is killed
//! as a container would be. A process that leaves its group (`setsid`) is out of reach.

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

use crate::{Plan, Problem, Status};

pub use environment::{INHERITED, inherit};

/// Where and how to run a plan.
#[derive(Clone)]
pub struct Request {
    /// The folder that stands for `/workspace`; it must exist.
    pub workspace: PathBuf,
    /// The log file to create; an existing one is replaced.
    pub log: PathBuf,
    /// Most bytes of step output that the log takes.
    pub log_limit: u64,
    /// Where the private folder for scripts is created; it should not be inside the workspace.
    pub scratch: PathBuf,
    /// Everything that steps see of the caller's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Redaction rules for the steps' output, applied before it is written.
    pub rules: Arc<redact::Rules>,
    /// How long a process group may take to end after `SIGTERM`.
    pub grace: Duration,
    /// Told of each event as it happens.
    pub on_event: Option<EventHook>,
}

/// Told of each event, in the task that runs the build: a hook that journals a process group has done so before
/// the build goes on.
pub type EventHook = Arc<dyn Fn(&Event) + Send + Sync>;

impl Request {
    /// A request with the defaults: a log of 64 MiB, a grace of 2 s, the environment named by [`INHERITED`].
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

    fn emit(&self, event: &Event) {
        if let Some(hook) = &self.on_event {
            hook(event);
        }
    }
}

/// Something that happened while a build ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A step is about to start its process.
    StepStarted {
        /// Position of the step.
        index: usize,
        /// Its id.
        id: Option<String>,
        /// When.
        at: SystemTime,
    },
    /// A step's process runs, as the leader of this process group.
    ProcessGroup {
        /// Position of the step.
        index: usize,
        /// Id of the group, and of its leader.
        pgid: i32,
    },
    /// A step has ended and its process group is gone.
    StepEnded {
        /// Position of the step.
        index: usize,
        /// Its id.
        id: Option<String>,
        /// How it ended.
        status: Status,
        /// The exit code of its process.
        exit_code: Option<i32>,
        /// When.
        at: SystemTime,
    },
}

/// How a build ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The status of the build, always a final one.
    pub status: Status,
    /// The steps, in the order of the file.
    pub steps: Vec<StepOutcome>,
    /// The files it left behind, sorted by name; empty unless it succeeded.
    pub artifacts: Vec<Artifact>,
    /// The container images it would have pushed.
    pub images: Vec<String>,
    /// The log.
    pub log: PathBuf,
    /// Why it did not succeed, a line for each reason.
    pub failure: Option<String>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutcome {
    /// Its id.
    pub id: Option<String>,
    /// `QUEUED` for a step that never ran.
    pub status: Status,
    /// The exit code of its process; 128 and the signal's number for one that a signal ended.
    pub exit_code: Option<i32>,
    /// When it started.
    pub started: Option<SystemTime>,
    /// When it ended.
    pub ended: Option<SystemTime>,
}

/// A file that a build left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Where it lies on this host.
    pub path: PathBuf,
    /// Its name below `artifacts.objects.location`: the last part of its path, as Cloud Build stores it.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its SHA-256, in lower-case hex.
    pub sha256: String,
}

/// The tools that the plan needs and this host lacks. [`run`] asks this first.
pub fn missing_tools(plan: &Plan, request: &Request) -> Vec<Problem> {
    tools::missing(plan, request)
}

/// Runs a build to its end.
///
/// Dropping the future kills the process groups that run.
pub async fn run(plan: &Plan, request: &Request, cancel: CancellationToken) -> Outcome {
    build::run(plan, request, cancel).await
}
