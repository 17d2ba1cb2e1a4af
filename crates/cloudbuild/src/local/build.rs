use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::plan::{Plan, PlannedStep};
use crate::{BuildProblem, BuildStatus};

use super::log::BuildLog;
use super::step::{self, StepEnd, StepEnvironment};
use super::{BuildEvent, PlanOutcome, PlanRequest, StepOutcome, artifacts, tools};

pub(super) async fn run(plan: &Plan, request: &PlanRequest, cancel: CancellationToken) -> PlanOutcome {
    let steps = plan.steps.iter().map(queued).collect();
    let (images, log) = (plan.images.clone(), request.log.clone());
    let mut outcome = PlanOutcome {
        status: BuildStatus::Success,
        steps,
        artifacts: Vec::new(),
        images,
        log,
        failure: None,
    };
    let (log, scratch) = match prepare(request) {
        Ok(prepared) => prepared,
        Err(error) => {
            outcome.fail(BuildStatus::InternalError, error);
            return outcome;
        }
    };
    log.note(&format!("starting build {:?}", plan.build_id));
    let missing = tools::missing(plan, request);
    if missing.is_empty() {
        let stop = CancellationToken::new();
        let context = StepEnvironment { request, log: &log, scratch: scratch.path(), stop: &stop };
        execute(plan, &context, cancel, &mut outcome).await;
    } else {
        let lines: Vec<String> = missing.into_iter().map(|BuildProblem { message, .. }| message).collect();
        outcome.fail(BuildStatus::Failure, lines.join("\n"));
    }
    if outcome.status == BuildStatus::Success {
        collect(plan, request, &mut outcome).await;
    }
    for line in outcome.failure.iter().flat_map(|failure| failure.lines()) {
        log.note(&format!("ERROR: {line}"));
    }
    log.note(if outcome.status == BuildStatus::Success { "DONE" } else { outcome.status.as_str() });
    if let Some(error) = log.error() {
        let why = format!(
            "the log {} could not be written: {error}; correct this, then run the build again",
            request.log.display()
        );
        outcome.fail(BuildStatus::InternalError, why);
    }
    outcome
}

/// Starts each step when its predecessors have succeeded, until all are done or a failure ends the build.
async fn execute(
    plan: &Plan,
    context: &StepEnvironment<'_>,
    cancel: CancellationToken,
    outcome: &mut PlanOutcome,
) {
    let mut running = FuturesUnordered::new();
    let mut waiting: Vec<&PlannedStep> = plan.steps.iter().collect();
    let mut passed = vec![false; plan.steps.len()];
    // Status of running steps when the build stops early.
    let mut stopped = BuildStatus::Cancelled;
    let mut limit = std::pin::pin!(tokio::time::sleep(plan.timeout));
    loop {
        if outcome.status == BuildStatus::Success && !cancel.is_cancelled() {
            waiting.retain(|&step| {
                let ready = step.wait_for.iter().all(|&index| passed[index]);
                if ready {
                    begin(step, context, outcome);
                    running.push(async move { (step, step::run(step, context).await) });
                }
                !ready
            });
        }
        tokio::select! {
            biased;
            () = cancel.cancelled(), if outcome.status == BuildStatus::Success => {
                outcome.fail(BuildStatus::Cancelled, "the build was cancelled".to_owned());
                context.stop.cancel();
            }
            () = &mut limit, if outcome.status == BuildStatus::Success => {
                let seconds = plan.timeout.as_secs_f64();
                outcome.fail(BuildStatus::Timeout, format!("the build took longer than its timeout of {seconds}s"));
                stopped = BuildStatus::Timeout;
                context.stop.cancel();
            }
            ended = running.next() => {
                let Some((step, end)) = ended else { return };
                finish(step, &end, stopped, context, outcome);
                let well = matches!(end, StepEnd::Exited(Some(0)));
                passed[step.index] = well || step.tolerance.covers(end.exit_code());
                if let (false, Some(failure)) = (passed[step.index], end.failure())
                    && outcome.status == BuildStatus::Success
                {
                    outcome.fail(BuildStatus::Failure, format!("step {} {failure}", step.label()));
                    context.stop.cancel();
                }
            }
        }
    }
}

fn begin(step: &PlannedStep, context: &StepEnvironment<'_>, outcome: &mut PlanOutcome) {
    let at = SystemTime::now();
    let entry = &mut outcome.steps[step.index];
    entry.status = BuildStatus::Working;
    entry.started = Some(at);
    context.log.note(&format!("Starting {}", step::log_name(step)));
    context.request.emit(&BuildEvent::StepStarted { index: step.index, id: step.id.clone(), at });
}

fn finish(
    step: &PlannedStep,
    end: &StepEnd,
    stopped: BuildStatus,
    context: &StepEnvironment<'_>,
    outcome: &mut PlanOutcome,
) {
    let at = SystemTime::now();
    let entry = &mut outcome.steps[step.index];
    entry.status = end.status(stopped);
    entry.exit_code = end.exit_code();
    entry.ended = Some(at);
    if let Some(failure) = end.failure() {
        context.log.note(&format!("{} {failure}", step::log_name(step)));
    }
    context.log.note(&format!("Finished {}", step::log_name(step)));
    context.request.emit(&BuildEvent::StepEnded {
        index: step.index,
        id: step.id.clone(),
        status: entry.status,
        exit_code: entry.exit_code,
        at,
    });
}

async fn collect(plan: &Plan, request: &PlanRequest, outcome: &mut PlanOutcome) {
    let Some(objects) = plan.objects.clone() else { return };
    let workspace = request.workspace.clone();
    // Hashing large files must not block the caller's other tasks.
    let collected = tokio::task::spawn_blocking(move || artifacts::collect(&workspace, &objects)).await;
    match collected {
        Ok(Ok(artifacts)) => outcome.artifacts = artifacts,
        Ok(Err(why)) => outcome.fail(BuildStatus::Failure, why),
        Err(error) => outcome.fail(BuildStatus::InternalError, error.to_string()),
    }
}

fn prepare(request: &PlanRequest) -> Result<(BuildLog, TempDir), String> {
    let at =
        |what: &str, path: &std::path::Path, error: io::Error| format!("{what} {}: {error}", path.display());
    let workspace = &request.workspace;
    let is_folder = workspace.metadata().map_err(|error| at("the workspace", workspace, error))?.is_dir();
    if !is_folder {
        return Err(format!("the workspace {} is not a folder", workspace.display()));
    }
    let log = BuildLog::create(&request.log, request.log_limit)
        .map_err(|error| at("the log", &request.log, error))?;
    let scratch = tempfile::Builder::new()
        .prefix("cloudbuild-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(&request.scratch)
        .map_err(|error| at("the folder for scripts in", &request.scratch, error))?;
    Ok((log, scratch))
}

fn queued(step: &PlannedStep) -> StepOutcome {
    StepOutcome {
        id: step.id.clone(),
        status: BuildStatus::Queued,
        exit_code: None,
        started: None,
        ended: None,
    }
}

impl PlanOutcome {
    fn fail(&mut self, status: BuildStatus, why: String) {
        self.status = status;
        self.failure = Some(match self.failure.take() {
            Some(earlier) => format!("{earlier}\n{why}"),
            None => why,
        });
    }
}
