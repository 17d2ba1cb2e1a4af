//! The workflows that may be asked for.

use std::sync::Arc;

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;
use terms::Timestamp;
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
    /// What is wrong with files that are no workflows, each as `file:line:column: field: what was expected`.
    problems: Vec<String>,
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
}

/// `GET /api/v1/workflows`.
pub async fn list(State(gateway): State<Arc<Gateway>>) -> Result<Json<Workflows>, Problem> {
    let (workflows, problems) = gateway.offers().await?;
    Ok(Json(Workflows { schema: "burnin/workflows/v1", workflows, problems }))
}

impl Gateway {
    /// The workflows that may be asked for, by name, and what is wrong with files that are none.
    ///
    /// # Errors
    /// When the catalogue or the ledgers cannot be read.
    pub async fn offers(&self) -> Result<(Vec<Offer>, Vec<String>), Problem> {
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
            let overdue = |every: terms::Span| validated_at.is_none_or(|at| now.since(at) > every);
            workflows.push(Offer {
                name: offered.name,
                description: offered.description,
                parameters: offered.parameters,
                stale: offered.on.validated_every.is_some_and(overdue),
                on: offered.on,
                next,
                nights,
                validated_at,
            });
        }
        let problems = read.problems.0.iter().map(ToString::to_string).collect();
        Ok((workflows, problems))
    }
}
