//! Routes requests, and applies faults before or after their effect.

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{BigQueryState, Fault, FaultTarget, load, query, refusal::Refusal};

pub(crate) fn router(state: BigQueryState) -> Router {
    Router::new()
        .route("/bigquery/v2/projects/{project}/jobs", post(insert))
        .route("/bigquery/v2/projects/{project}/jobs/{id}", get(read))
        .route("/bigquery/v2/projects/{project}/queries", post(ask))
        .route("/bigquery/v2/projects/{project}/queries/{id}", get(results))
        .route("/bigquery/v2/projects/{project}/datasets/{dataset}/tables/{table}", get(table))
        .with_state(state)
}

fn planned(code: u16) -> Response {
    let reason = match code {
        429 => "rateLimitExceeded",
        403 => "quotaExceeded",
        404 => "notFound",
        _ => "backendError",
    };
    Refusal::new(code, reason, "injected fault").into_response()
}

/// A response that is truncated after its first bytes.
fn interrupted(answer: &Value, sent: usize) -> Response {
    let text = answer.to_string();
    let part = Bytes::from(text.as_bytes()[..sent.min(text.len() / 2)].to_vec());
    let interrupted = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let body = Body::from_stream(futures::stream::iter([Ok(part), Err(interrupted)]));
    ([("content-type", "application/json"), ("content-length", &text.len().to_string())], body)
        .into_response()
}

/// Executes the request unless a fault prevents it; responds unless a later fault prevents that.
async fn answered<W>(
    state: &BigQueryState,
    on: FaultTarget,
    work: impl FnOnce(BigQueryState) -> W,
) -> Response
where
    W: Future<Output = Result<Value, Refusal>> + Send + 'static,
{
    let fault = state.lock().fault(on);
    match fault {
        Some(Fault::Refused(code)) => return planned(code),
        Some(Fault::Cut) => return interrupted(&json!({"kind": "cut"}), 0),
        Some(Fault::Late(by)) => {
            let work = work(state.clone());
            tokio::spawn(async move {
                tokio::time::sleep(by).await;
                drop(work.await);
            });
            return planned(503);
        }
        _ => {}
    }
    let done = work(state.clone()).await;
    match (fault, done) {
        (Some(Fault::LandsAndAnswers(code)), _) => planned(code),
        (Some(Fault::LandsAndTears), Ok(answer)) => interrupted(&answer, usize::MAX),
        (Some(Fault::Slow), Ok(mut answer)) => {
            answer["jobComplete"] = false.into();
            if let Some(answer) = answer.as_object_mut() {
                answer.retain(|field, _| field == "jobComplete" || field == "jobReference");
            }
            Json(answer).into_response()
        }
        (_, Ok(answer)) => Json(answer).into_response(),
        (_, Err(refusal)) => refusal.into_response(),
    }
}

async fn insert(
    State(state): State<BigQueryState>,
    Path(project): Path<String>,
    Json(job): Json<Value>,
) -> Response {
    answered(&state, FaultTarget::Insert, |state| async move { load::begin(&state, &project, job) }).await
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ParsedRequest {
    location: String,
    page_token: String,
}

async fn read(
    State(state): State<BigQueryState>,
    Path((project, id)): Path<(String, String)>,
    Query(parameters): Query<ParsedRequest>,
) -> Response {
    answered(&state, FaultTarget::Get, |state| async move {
        let unknown = || {
            Refusal::new(404, "notFound", format!("Not found: Job {project}:{}.{id}", parameters.location))
        };
        state
            .lock()
            .jobs
            .get(&(project.clone(), parameters.location.clone(), id.clone()))
            .cloned()
            .ok_or_else(unknown)
    })
    .await
}

async fn ask(
    State(state): State<BigQueryState>,
    Path(project): Path<String>,
    Json(request): Json<Value>,
) -> Response {
    answered(
        &state,
        FaultTarget::Query,
        |state| async move { query::ask(&mut state.lock(), &project, &request) },
    )
    .await
}

async fn results(
    State(state): State<BigQueryState>,
    Path((project, id)): Path<(String, String)>,
    Query(parameters): Query<ParsedRequest>,
) -> Response {
    answered(&state, FaultTarget::Get, |state| async move {
        query::page(&state.lock(), &(project, parameters.location, id), &parameters.page_token)
    })
    .await
}

async fn table(
    State(state): State<BigQueryState>,
    Path((project, dataset, table)): Path<(String, String, String)>,
) -> Response {
    answered(&state, FaultTarget::Table, |state| async move {
        let inner = state.lock();
        let unknown =
            || Refusal::new(404, "notFound", format!("Not found: Table {project}:{dataset}.{table}"));
        let columns = inner.tables.get(&format!("{project}.{dataset}.{table}")).ok_or_else(unknown)?;
        let fields: Vec<_> = columns
            .iter()
            .map(|column| json!({"name": column.name, "type": column.kind, "mode": column.mode}))
            .collect();
        Ok(json!({
            "kind": "bigquery#table", "id": format!("{project}:{dataset}.{table}"),
            "tableReference": {"projectId": project, "datasetId": dataset, "tableId": table},
            "schema": {"fields": fields}, "location": inner.location, "type": "TABLE",
            "creationTime": "1763600000000", "lastModifiedTime": "1763600000000",
        }))
    })
    .await
}
