//! The workflows that may be asked for.

use std::sync::Arc;

use axum::{Json, extract::State};
use model::{Notify, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use triggers::On;

use super::problem::Problem;
use crate::{Gateway, schedule::Night};

/// `GET /api/v1/workflows`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Workflows {
    /// `burnin/workflows/v1`.
    schema: &'static str,
    /// By name.
    workflows: Vec<Offer>,
    /// Problems of files, each as `file:line:column: field: what was expected`.
    problems: Vec<String>,
    /// Files that cannot be read as workflows.
    broken: Vec<BrokenFile>,
}

/// A file that cannot be read as a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BrokenFile {
    /// Its name in the folder.
    pub file: String,
    /// Its problems, each as `file:line:column: field: what was expected`.
    pub problems: Vec<String>,
}

/// One workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// Fields that a request may replace.
    pub parameters: Vec<String>,
    /// What starts it by itself.
    pub on: On,
    /// The next moment of each of its schedules.
    pub next: Vec<Timestamp>,
    /// Nights of the last week that are dealt with, newest first.
    pub nights: Vec<Night>,
    /// When it last had a verdict.
    pub validated_at: Option<Timestamp>,
    /// It had none for longer than it should.
    pub stale: bool,
    /// It can be started. With `problems` it is the last version of its file without any.
    pub startable: bool,
    /// Problems of its current file, each as `file:line:column: field: what was expected`.
    pub problems: Vec<String>,
    /// Channels that it notifies.
    #[serde(skip)]
    pub notify: Vec<Notify>,
}

/// The workflows of the catalogue.
#[derive(Debug)]
pub struct Offers {
    /// By name.
    pub workflows: Vec<Offer>,
    /// Files that cannot be read as workflows.
    pub broken: Vec<BrokenFile>,
    /// All problems of all files.
    pub problems: Vec<String>,
}

/// `GET /api/v1/workflows`.
pub async fn list(State(gateway): State<Arc<Gateway>>) -> Result<Json<Workflows>, Problem> {
    let Offers { workflows, broken, problems } = gateway.offers().await?;
    Ok(Json(Workflows { schema: "burnin/workflows/v1", workflows, problems, broken }))
}

impl Gateway {
    /// The workflows that may be requested, by name, and what is wrong with files that are none.
    ///
    /// # Errors
    /// When the catalogue or the ledgers cannot be read.
    pub async fn offers(&self) -> Result<Offers, Problem> {
        let read = self.catalogue.read().await.map_err(|error| Problem::unavailable(&error))?;
        let validated = self.view.validated().await?;
        let now = self.clock.now();
        let mut workflows = Vec::new();
        for (name, entry) in &read.workflows {
            let offered = entry.offered.clone();
            let schedules = offered.on.schedule.iter();
            let next = schedules.filter_map(|on| on.read().ok()?.next(now)).collect();
            let nights = self.calendar.nights(name, now).await;
            let nights = nights.map_err(|error| Problem::unavailable(&error))?;
            let validated_at = validated.get(name).copied();
            let overdue = match offered.on.validated_every {
                None => None,
                Some(every) => {
                    let overdue = self.calendar.overdue(name, every, validated_at, now).await;
                    overdue.map_err(|error| Problem::unavailable(&error))?
                }
            };
            workflows.push(Offer {
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
        Ok(Offers { workflows, broken, problems: lines(&read.problems.0) })
    }
}

fn lines(problems: &[workflow::Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
