//! Routes requests, and applies faults.

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    CloudBuildState, Fault,
    build::{is_final, processors, refused},
};

pub(crate) fn router(state: CloudBuildState) -> Router {
    Router::new()
        .route("/v1/projects/{project}/locations/{location}/builds", post(create).get(list))
        .route("/v1/projects/{project}/locations/{location}/builds/{id}", get(read).post(cancel))
        .with_state(state)
}

/// Message for a build whose machine is larger than the quota (google-github-actions/deploy-cloudrun#480).
const QUOTA: &str = "failed precondition: due to quota restrictions, cannot run builds in this region";

fn error(code: u16, message: &str) -> Response {
    let status = match code {
        400 if message.starts_with(QUOTA) => "FAILED_PRECONDITION",
        400 => "INVALID_ARGUMENT",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    let answer = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (answer, Json(json!({"error": {"code": code, "message": message, "status": status}}))).into_response()
}

async fn create(
    State(state): State<CloudBuildState>,
    Path((project, location)): Path<(String, String)>,
    Json(build): Json<Value>,
) -> Response {
    let mut inner = state.lock();
    inner.creates += 1;
    let fault = inner.faults.pop_front();
    if let Some(Fault::Refused(code)) = fault {
        return error(code, "injected fault");
    }
    if let Some(why) = refused(&build) {
        return error(400, &why);
    }
    if inner.processors.is_some_and(|all| processors(&build) > all) {
        return error(400, QUOTA);
    }
    let at = inner.add(&project, &location, build);
    let build = inner.builds[at].clone();
    let operation = json!({
        "name": format!("operations/build/{project}/{at}"),
        "metadata": {
            "@type": "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata",
            "build": build,
        },
        "done": false,
    });
    match fault {
        Some(Fault::LandsAndAnswers(code)) => error(code, "injected fault: the response is lost"),
        Some(Fault::LandsAndTears) => interrupted(&operation),
        _ => Json(operation).into_response(),
    }
}

/// A response that is truncated in the middle.
fn interrupted(answer: &Value) -> Response {
    let text = answer.to_string();
    let half = Bytes::from(text.as_bytes()[..text.len() / 2].to_vec());
    let interrupted = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let body = Body::from_stream(futures::stream::iter([Ok(half), Err(interrupted)]));
    ([("content-type", "application/json"), ("content-length", &text.len().to_string())], body)
        .into_response()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParsedRequest {
    #[serde(default)]
    filter: String,
    #[serde(default)]
    page_size: usize,
    #[serde(default)]
    page_token: String,
}

async fn list(
    State(state): State<CloudBuildState>,
    Path((project, location)): Path<(String, String)>,
    Query(parameters): Query<ParsedRequest>,
) -> Response {
    let tag = parameters.filter.strip_prefix("tags=\"").and_then(|rest| rest.strip_suffix('"'));
    let Some(tag) = tag.filter(|tag| !tag.contains('"')) else {
        return error(400, &format!("unsupported filter: {}", parameters.filter));
    };
    let Ok(skip) =
        (if parameters.page_token.is_empty() { Ok(0) } else { parameters.page_token.parse::<usize>() })
    else {
        return error(400, "invalid page token");
    };
    let (shown, more) = {
        let mut inner = state.lock();
        inner.lists += 1;
        let known = if inner.stale_lists > 0 { inner.stale_from } else { inner.builds.len() };
        inner.stale_lists = inner.stale_lists.saturating_sub(1);
        let place = format!("projects/{project}/locations/{location}/builds/");
        let ours = |build: &Value| {
            build["name"].as_str().is_some_and(|name| name.starts_with(&place))
                && build["tags"].as_array().is_some_and(|tags| tags.iter().any(|other| other == tag))
        };
        // Cloud Build lists the newest build first.
        let all: Vec<_> = (0..known).rev().filter(|&at| ours(&inner.builds[at])).collect();
        let size = if parameters.page_size == 0 { inner.page } else { parameters.page_size.min(inner.page) };
        let page: Vec<_> = all.iter().copied().skip(skip).take(size).collect();
        (page, (skip + size < all.len()).then(|| (skip + size).to_string()))
    };
    let mut builds = Vec::new();
    for at in shown {
        builds.push(state.read_and_advance(at).await);
    }
    Json(json!({"builds": builds, "nextPageToken": more.unwrap_or_default()})).into_response()
}

fn find(state: &CloudBuildState, project: &str, location: &str, id: &str) -> Option<usize> {
    let name = format!("projects/{project}/locations/{location}/builds/{id}");
    state.lock().builds.iter().position(|build| build["name"] == name.as_str())
}

async fn read(
    State(state): State<CloudBuildState>,
    Path((project, location, id)): Path<(String, String, String)>,
) -> Response {
    match find(&state, &project, &location, &id) {
        Some(at) => Json(state.read_and_advance(at).await).into_response(),
        None => error(404, "no such build"),
    }
}

async fn cancel(
    State(state): State<CloudBuildState>,
    Path((project, location, action)): Path<(String, String, String)>,
) -> Response {
    let Some(id) = action.strip_suffix(":cancel") else { return error(404, "no such method") };
    let Some(at) = find(&state, &project, &location, id) else { return error(404, "no such build") };
    let mut inner = state.lock();
    if is_final(inner.builds[at]["status"].as_str().unwrap_or_default()) {
        return error(400, "the build has ended");
    }
    inner.builds[at]["status"] = "CANCELLED".into();
    inner.notify(at);
    Json(inner.builds[at].clone()).into_response()
}
