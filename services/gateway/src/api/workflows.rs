//! Available workflows.

use std::sync::Arc;

use axum::{Json, extract::State};
use model::{Notify, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use triggers::Triggers;

use super::problem::ApiProblem;
use crate::{Gateway, schedule::Night};

/// Response of `GET /api/v1/workflows`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowList {
    /// Schema of the document: always `burnin/workflows/v1`.
    schema: &'static str,
    /// Workflows by name.
    workflows: Vec<WorkflowOffer>,
    /// All errors in files, each as `file:line:column: field: expectation`.
    problems: Vec<String>,
    /// Files that are not readable as workflows.
    broken: Vec<BrokenFile>,
}

/// A file that is not readable as a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BrokenFile {
    /// File name in the folder.
    pub file: String,
    /// Errors in the file, each as `file:line:column: field: expectation`.
    pub problems: Vec<String>,
}

/// An available workflow and its state.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowOffer {
    /// Name of the workflow in its file.
    pub name: String,
    /// Description from the file.
    pub description: String,
    /// Fields that a request may override.
    pub parameters: Vec<String>,
    /// Triggers from the file.
    pub on: Triggers,
    /// Next start of each schedule of the workflow.
    pub next: Vec<Timestamp>,
    /// Handled scheduled starts of the last week, newest first.
    pub nights: Vec<Night>,
    /// Time of the last verdict.
    pub validated_at: Option<Timestamp>,
    /// Whether the last verdict is older than allowed.
    pub stale: bool,
    /// Whether the workflow can be started. If `problems` is not empty, the last valid version of the file is
    /// in use.
    pub startable: bool,
    /// Errors in the workflow's current file, each as `file:line:column: field: expectation`.
    pub problems: Vec<String>,
    /// Channels that the workflow notifies.
    #[serde(skip)]
    pub notify: Vec<Notify>,
}

/// The workflows of the catalogue.
#[derive(Debug)]
pub struct CatalogueListing {
    /// Sorted by name.
    pub workflows: Vec<WorkflowOffer>,
    /// Files that are not readable as workflows.
    pub broken: Vec<BrokenFile>,
    /// All errors of all files.
    pub problems: Vec<String>,
}

/// Handler of `GET /api/v1/workflows`.
pub async fn list(State(gateway): State<Arc<Gateway>>) -> Result<Json<WorkflowList>, ApiProblem> {
    let CatalogueListing { workflows, broken, problems } = gateway.list_workflows().await?;
    Ok(Json(WorkflowList { schema: "burnin/workflows/v1", workflows, problems, broken }))
}

impl Gateway {
    /// Workflows by name with their state, and invalid files.
    ///
    /// # Errors
    /// Returns an error if the catalogue or the ledgers cannot be read.
    pub async fn list_workflows(&self) -> Result<CatalogueListing, ApiProblem> {
        let read = self.catalogue.read().await.map_err(|error| ApiProblem::unavailable(&error))?;
        let validated = self.run_index.last_verdict_times().await?;
        let now = self.clock.now();
        let mut workflows = Vec::new();
        for (name, entry) in &read.workflows {
            let offered = entry.offered.clone();
            let schedules = offered.on.schedule.iter();
            let next = schedules.filter_map(|on| on.read().ok()?.next(now)).collect();
            let nights = self.schedule_records.nights(name, now).await;
            let nights = nights.map_err(|error| ApiProblem::unavailable(&error))?;
            let validated_at = validated.get(name).copied();
            let overdue = match offered.on.validated_every {
                None => None,
                Some(every) => {
                    let overdue = self.schedule_records.overdue(name, every, validated_at, now).await;
                    overdue.map_err(|error| ApiProblem::unavailable(&error))?
                }
            };
            workflows.push(WorkflowOffer {
                name: offered.name,
                description: offered.description,
                parameters: offered.parameters,
                stale: overdue.is_some(),
                startable: entry.startable,
                problems: lines(&entry.problems),
                notify: entry.notify.clone(),
                on: offered.on,
                next,
                nights,
                validated_at,
            });
        }
        let broken = read.broken.into_iter();
        let broken =
            broken.map(|file| BrokenFile { file: file.file, problems: lines(&file.problems) }).collect();
        Ok(CatalogueListing { workflows, broken, problems: lines(&read.problems.0) })
    }
}

fn lines(problems: &[workflow::FileProblem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
