//! Output of the running job, while it is written.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use lifecycle::RunState;
use model::{Cluster, Stage, Verb};
use serde::{Deserialize, Serialize};

use crate::{Dashboard, frame::ErrorPage, run::parse_run};

/// A job that runs, or whose logs are not collected yet.
#[derive(Clone, Copy, Debug)]
pub struct RunningJob<'a> {
    pub cluster: &'a Cluster,
    /// Name of the job in its scheduler.
    pub name: &'a str,
}

/// Lines of a job's output, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutputLines {
    /// Line number, in the output, of the first entry of `lines`, starting at 1.
    pub first: u64,
    /// New lines, oldest first.
    pub lines: Vec<String>,
    /// Number of the last line; the next request continues after it.
    pub last: u64,
    /// Reason why no further lines follow, although the job may still be running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Source of the output of running jobs.
#[async_trait::async_trait]
pub trait JobOutput: Send + Sync + 'static {
    /// The lines after number `after`. The number of lines is bounded: earlier ones are left out.
    ///
    /// # Errors
    /// Returns an error with the reason if the output cannot be read.
    async fn lines(&self, job: RunningJob<'_>, after: u64) -> Result<OutputLines, String>;
}

/// Query: the last known line, and the job that wrote it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OutputFrom {
    after: u64,
    job: String,
}

/// Response to a poll of the output.
#[derive(Debug, Serialize)]
struct OutputAnswer {
    /// Name of the job; null while no job runs.
    job: Option<String>,
    /// Name of its check, if the workflow has several.
    check: Option<String>,
    #[serde(flatten)]
    output: OutputLines,
    /// Reason why the output cannot be read now.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Whether the run is open: polling continues.
    open: bool,
}

/// `GET /runs/{run}/output`: the lines after the last known one. Lines of another job start from the first.
pub async fn lines(
    State(dashboard): State<Arc<Dashboard>>,
    Path(run): Path<String>,
    Query(OutputFrom { after, job: known }): Query<OutputFrom>,
) -> Result<Response, ErrorPage> {
    let run = parse_run(&run)?;
    let state = dashboard.run_index.folded(&run).await?.ok_or_else(|| ErrorPage::no_run(&run))?.state;
    let source = dashboard
        .output
        .as_ref()
        .ok_or_else(|| ErrorPage::not_found("This server has no access to the output of running jobs."))?;
    let mut answer = OutputAnswer {
        job: None,
        check: None,
        output: OutputLines::default(),
        problem: None,
        open: state.settled.is_none(),
    };
    if let Some((cluster, name, check)) = job(&state) {
        let after = if known == name { after } else { 0 };
        match source.lines(RunningJob { cluster, name: &name }, after).await {
            Ok(output) => answer.output = output,
            Err(why) => answer.problem = Some(why),
        }
        (answer.job, answer.check) = (Some(name), check);
    }
    Ok(([(CACHE_CONTROL, "no-store")], Json(answer)).into_response())
}

/// The job that the run waits for, with its cluster and check.
fn job(state: &RunState) -> Option<(&Cluster, String, Option<String>)> {
    let step = state.current_step().filter(|step| matches!(step.stage, Stage::Job | Stage::Logs))?;
    let name = state.command_id(Stage::Job.of(step.check), Verb::Start).resource_name();
    Some((state.cluster()?, name, state.workflow.check(step.check).map(|check| check.name.clone())))
}
