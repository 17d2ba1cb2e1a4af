use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::BuildStatus;
use crate::plan::{Action, PlannedStep};

use super::log::BuildLog;
use super::masker::Masker;
use super::output::StepOutput;
use super::process::{self, StartedProcess};
use super::{BuildEvent, PlanRequest, environment, tools, workdir};

/// Maximum wait for the output of an ended group: a process that left the group may still hold the pipe open.
const DRAIN: Duration = Duration::from_secs(1);

/// Shared state of the steps of a build.
pub(super) struct StepEnvironment<'a> {
    pub(super) request: &'a PlanRequest,
    pub(super) log: &'a BuildLog,
    /// Private folder for scripts.
    pub(super) scratch: &'a Path,
    /// Stops all running steps.
    pub(super) stop: &'a CancellationToken,
}

pub(super) enum StepEnd {
    /// The process of the step ended before the runner stopped it.
    Exited(Option<i32>),
    /// The step exceeded its own timeout.
    TimedOut(Duration),
    /// The build stopped the step.
    Stopped,
    NotStarted(io::Error),
}

impl StepEnd {
    pub(super) fn exit_code(&self) -> Option<i32> {
        if let Self::Exited(code) = self { *code } else { None }
    }

    /// The status of the step: `stopped` if the build stopped the step.
    pub(super) fn status(&self, stopped: BuildStatus) -> BuildStatus {
        match self {
            Self::Exited(Some(0)) => BuildStatus::Success,
            Self::Exited(_) | Self::NotStarted(_) => BuildStatus::Failure,
            Self::TimedOut(_) => BuildStatus::Timeout,
            Self::Stopped => stopped,
        }
    }

    /// The problem, to be appended to the name of the step.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Self::Exited(Some(0)) | Self::Stopped => None,
            Self::Exited(Some(code @ 129..=192)) => Some(match Signal::from_named_raw(code - 128) {
                Some(signal) => format!("ended with exit code {code} ({signal:?})"),
                None => format!("ended with exit code {code}"),
            }),
            Self::Exited(Some(code)) => Some(format!("ended with exit code {code}")),
            Self::Exited(None) => Some("ended without an exit code".to_owned()),
            Self::TimedOut(limit) => {
                Some(format!("took longer than its timeout of {}s", limit.as_secs_f64()))
            }
            Self::NotStarted(error) => Some(format!("could not be started: {error}")),
        }
    }
}

/// Runs one step. Returns after its process group has ended.
pub(super) async fn run(step: &PlannedStep, context: &StepEnvironment<'_>) -> StepEnd {
    if context.stop.is_cancelled() {
        return StepEnd::Stopped;
    }
    let started = match start(step, context) {
        Ok(started) => started,
        Err(error) => return StepEnd::NotStarted(error),
    };
    context.request.emit(&BuildEvent::ProcessGroup { index: step.index, pgid: started.group.id() });
    let secrets = step.secret_env.iter().map(|(_, secret)| secret);
    let mut output =
        StepOutput::new(context.log, &log_name(step), Masker::new(secrets), &context.request.rules);
    let end = supervise(step, started, &mut output, context).await;
    output.finish();
    end
}

/// The name of a step in the format of Cloud Build's log.
pub(super) fn log_name(step: &PlannedStep) -> String {
    match &step.id {
        Some(id) => format!("Step #{} - \"{id}\"", step.index),
        None => format!("Step #{}", step.index),
    }
}

async fn supervise(
    step: &PlannedStep,
    started: StartedProcess,
    output: &mut StepOutput<'_>,
    context: &StepEnvironment<'_>,
) -> StepEnd {
    let StartedProcess { mut group, output: mut pipe, mut exit } = started;
    let mut reading = std::pin::pin!(output.read(&mut pipe));
    let mut read_all = false;
    let mut limit = std::pin::pin!(sleep(step.timeout.unwrap_or(Duration::MAX)));
    let forced = loop {
        tokio::select! {
            biased;
            _ = &mut exit => break None,
            () = &mut reading, if !read_all => read_all = true,
            () = context.stop.cancelled() => break Some(StepEnd::Stopped),
            () = &mut limit => break Some(StepEnd::TimedOut(step.timeout.unwrap_or(Duration::MAX))),
        }
    };
    if forced.is_some() {
        group.terminate();
        // The grace period applies to the whole group: the output ends when the group's last process ends.
        let all_gone = async {
            let _ = (&mut exit).await;
            if !read_all {
                (&mut reading).await;
                read_all = true;
            }
        };
        let _ = timeout(context.request.grace, all_gone).await;
    }
    let status = group.kill().await;
    if !read_all {
        let _ = timeout(DRAIN, &mut reading).await;
    }
    forced.unwrap_or_else(|| match status {
        Ok(status) => StepEnd::Exited(process::exit_code(status)),
        Err(_) => StepEnd::Exited(None),
    })
}

fn start(step: &PlannedStep, context: &StepEnvironment<'_>) -> io::Result<StartedProcess> {
    let environment = environment::of_step(&context.request.environment, step);
    let dir = workdir::enter(&context.request.workspace, &step.dir)?;
    let (program, args) = match &step.action {
        Action::Command(command) => {
            let args = command.args.iter().map(OsString::from).collect();
            (program(&command.tool, &dir, &environment)?, args)
        }
        Action::Script(script) => script_command(step, script, context)?,
    };
    process::start(&program, &args, &environment, &dir)
}

fn program(tool: &str, dir: &Path, environment: &[(OsString, OsString)]) -> io::Result<PathBuf> {
    if tool.contains('/') {
        return Ok(dir.join(tool));
    }
    tools::find(tool, environment::lookup(environment, "PATH")).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("the tool `{tool}` is not on the PATH; install it"))
    })
}

/// Writes a script to a file and returns the command to run it.
///
/// The interpreter is started directly rather than by the kernel: a newly written file cannot be executed
/// while a process forked concurrently by another thread still has it open.
fn script_command(
    step: &PlannedStep,
    script: &str,
    context: &StepEnvironment<'_>,
) -> io::Result<(PathBuf, Vec<OsString>)> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    let file = context.scratch.join(format!("step-{}", step.index));
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&file)?
        .write_all(script.as_bytes())?;
    let shebang = tools::shebang(script);
    let mut args: Vec<OsString> = shebang.argument.map(OsString::from).into_iter().collect();
    args.push(file.into());
    Ok((PathBuf::from(shebang.interpreter), args))
}
