//! Pinned reference runs of workflows.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use model::RunId;
use pins::{DecidedBy, NewPin, PinHistory, PinOutcome, Pins};
use run_index::ReferenceError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use verdict::pin::PinSource;

use super::{
    extract::{CallerName, Filtered, JsonBody},
    operation::{ParameterLocation, parameter},
    problem::ApiProblem,
};
use crate::Gateway;

/// Maximum length of a reason, characters.
pub const LONGEST_WHY: usize = 500;

/// Body of `PUT /api/v1/baselines/{workflow}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// Closed run of the workflow with verdict pass.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9-]{0,49}$"))]
    run: String,
    /// Pinned baseline: the run's measurements, or the baseline that judged it.
    #[serde(default)]
    source: PinSource,
    /// Reason, shown in the history.
    #[serde(default)]
    #[schemars(length(max = LONGEST_WHY))]
    why: String,
}

/// Response of `GET /api/v1/baselines`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Baselines {
    /// Schema of the document: always `burnin/baselines/v1`.
    schema: &'static str,
    /// Workflows with at least one pin, current or released, by name.
    workflows: Vec<PinHistory>,
}

/// Query of `DELETE /api/v1/baselines/{workflow}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Released {
    why: String,
}

/// Path parameter of these operations.
pub fn workflow() -> Value {
    let schema = json!({"type": "string", "pattern": "^[a-z][a-z0-9-]{0,30}$"});
    parameter(ParameterLocation::Path, "workflow", schema, "Workflow name.")
}

/// Query parameter of the operation that releases a pin.
pub fn reason() -> Value {
    let schema = json!({"type": "string", "maxLength": LONGEST_WHY});
    parameter(ParameterLocation::Query, "why", schema, "Reason, shown in the history.")
}

pub async fn list(State(gateway): State<Arc<Gateway>>) -> Result<Json<Baselines>, ApiProblem> {
    let workflows = gateway.pins().all().await?;
    Ok(Json(Baselines { schema: "burnin/baselines/v1", workflows }))
}

pub async fn show(
    State(gateway): State<Arc<Gateway>>,
    Path(workflow): Path<String>,
) -> Result<Json<PinHistory>, ApiProblem> {
    history(&gateway, &valid_name(&workflow)?).await
}

pub async fn pin(
    State(gateway): State<Arc<Gateway>>,
    CallerName(by): CallerName,
    Path(workflow): Path<String>,
    JsonBody(PinRequest { run, source, why }): JsonBody<PinRequest>,
) -> Result<Json<PinHistory>, ApiProblem> {
    let workflow = valid_name(&workflow)?;
    let why = short(why, StatusCode::UNPROCESSABLE_ENTITY)?;
    let unprocessable = |why: String| ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, why);
    let run: RunId = run.parse().map_err(|error: model::InvalidId| unprocessable(format!("run: {error}")))?;
    let reference = gateway.run_index.reference(Some(&workflow), &run, source).await;
    let baseline = match reference {
        Ok(reference) => reference.baseline,
        Err(ReferenceError::Index(error)) => return Err(error.into()),
        Err(refused) => return Err(unprocessable(format!("run: {refused}"))),
    };
    let who = DecidedBy { by, at: gateway.clock.now(), why };
    gateway.pins().pin(&workflow, NewPin { run, source, baseline }, who).await?;
    history(&gateway, &workflow).await
}

pub async fn release(
    State(gateway): State<Arc<Gateway>>,
    CallerName(by): CallerName,
    Path(workflow): Path<String>,
    Filtered(Released { why }): Filtered<Released>,
) -> Result<Json<PinHistory>, ApiProblem> {
    let workflow = valid_name(&workflow)?;
    let who = DecidedBy { by, at: gateway.clock.now(), why: short(why, StatusCode::BAD_REQUEST)? };
    match gateway.pins().release(&workflow, who).await? {
        PinOutcome::Never => Err(not_found(&workflow)),
        PinOutcome::Now | PinOutcome::Before => history(&gateway, &workflow).await,
    }
}

async fn history(gateway: &Gateway, workflow: &str) -> Result<Json<PinHistory>, ApiProblem> {
    gateway.pins().history(workflow).await?.map(Json).ok_or_else(|| not_found(workflow))
}

fn not_found(workflow: &str) -> ApiProblem {
    ApiProblem::new(
        StatusCode::NOT_FOUND,
        format!("workflow {workflow} has no pin; pin a run with PUT /api/v1/baselines/{workflow}"),
    )
}

/// Checks a workflow name; an invalid name results in status 404.
fn valid_name(workflow: &str) -> Result<String, ApiProblem> {
    let fit = workflow.len() <= 31
        && workflow.starts_with(|first: char| first.is_ascii_lowercase())
        && workflow.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if fit {
        return Ok(workflow.to_owned());
    }
    let shown: String = workflow.chars().take(80).collect();
    Err(ApiProblem::new(
        StatusCode::NOT_FOUND,
        format!("no workflow {shown}; GET /api/v1/workflows lists them"),
    ))
}

fn short(why: String, status: StatusCode) -> Result<String, ApiProblem> {
    if why.chars().count() <= LONGEST_WHY {
        return Ok(why);
    }
    Err(ApiProblem::new(
        status,
        format!("why: expected at most {LONGEST_WHY} characters, found {}", why.chars().count()),
    ))
}

impl Gateway {
    fn pins(&self) -> Pins {
        Pins::new(Arc::clone(&self.store))
    }
}
