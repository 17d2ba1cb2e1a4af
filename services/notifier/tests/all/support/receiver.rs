//! A webhook receiver on 127.0.0.1, and a GitHub stand-in with statuses and check runs as documented.
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use notifier::conformance::{PlannedReply, TestReceiver};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Planned response to a request.
#[derive(Clone, Debug)]
pub enum ReceiverResponse {
    /// Responds with this status and these headers.
    Responds(u16, Vec<(&'static str, String)>),
    /// Accepts the request, and delays the response.
    Hangs,
    /// Accepts the request, and closes the connection.
    Breaks,
}

#[derive(Default)]
struct Inner {
    answers: VecDeque<ReceiverResponse>,
    requests: Vec<ReceivedRequest>,
    /// Accepted notices by id; for GitHub the displayed state.
    taken: Vec<(String, Value)>,
    planned_replies: VecDeque<PlannedReply>,
}

#[derive(Clone, Default)]
pub struct Receiver(Arc<Mutex<Inner>>);

impl Receiver {
    /// Serves, and returns the URL.
    pub async fn serve(&self) -> String {
        let any = post(hook).get(hook);
        let github = Router::new()
            .route("/repos/{owner}/{name}/statuses/{sha}", post(status))
            .route("/repos/{owner}/{name}/check-runs", post(check))
            .route("/repos/{owner}/{name}/commits/{sha}/check-runs", get(list));
        let router = Router::new().nest("/api", github).fallback(any).with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        format!("http://{address}")
    }

    pub fn answers(&self, answer: ReceiverResponse) {
        self.0.lock().unwrap().answers.push_back(answer);
    }

    /// Clears the planned responses.
    pub fn forgets(&self) {
        self.0.lock().unwrap().answers.clear();
    }

    pub fn responds(&self, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.answers(ReceiverResponse::Responds(status, headers));
    }

    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.0.lock().unwrap().requests.clone()
    }

    pub fn taken(&self) -> Vec<(String, Value)> {
        self.0.lock().unwrap().taken.clone()
    }

    /// Records a request; returns a planned response, and whether the request is accepted.
    fn note(&self, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> (bool, Option<ReceiverResponse>) {
        let mut inner = self.0.lock().unwrap();
        inner.requests.push(ReceivedRequest {
            path: uri.to_string(),
            headers: headers.clone(),
            body: body.clone(),
        });
        // Planned responses are for notices, not for lookups.
        if let Some(planned) = (!body.is_empty()).then(|| inner.planned_replies.pop_front()).flatten() {
            return match planned {
                PlannedReply::Accepts => (true, None),
                PlannedReply::AcceptsWithoutResponse => (true, Some(ReceiverResponse::Breaks)),
                PlannedReply::Busy(seconds) => {
                    (false, Some(ReceiverResponse::Responds(429, vec![("retry-after", seconds.to_string())])))
                }
                PlannedReply::Refuses => (false, Some(ReceiverResponse::Responds(410, Vec::new()))),
            };
        }
        let answer = inner.answers.pop_front();
        let taken = match &answer {
            Some(ReceiverResponse::Responds(status, _)) => *status < 300,
            Some(ReceiverResponse::Hangs | ReceiverResponse::Breaks) | None => true,
        };
        (taken, answer)
    }

    fn take(&self, id: &str, what: Value) {
        self.0.lock().unwrap().taken.push((id.to_owned(), what));
    }
}

impl TestReceiver for Receiver {
    fn plan(&self, planned: PlannedReply) {
        let mut inner = self.0.lock().unwrap();
        inner.planned_replies.clear();
        inner.planned_replies.push_back(planned);
    }

    fn arrived(&self) -> Vec<String> {
        self.taken().into_iter().map(|(id, _)| id).collect()
    }
}

async fn to_response(answer: ReceiverResponse) -> Response {
    match answer {
        ReceiverResponse::Responds(status, headers) => {
            let mut response = StatusCode::from_u16(status).unwrap().into_response();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
        ReceiverResponse::Hangs => std::future::pending().await,
        // A panic in a handler ends the connection without a response.
        ReceiverResponse::Breaks => panic!("injected fault"),
    }
}

async fn hook(State(here): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let (taken, answer) = here.note(&uri, &headers, &body);
    if taken {
        let id = headers.get("idempotency-key").map_or("", |value| value.to_str().unwrap());
        here.take(id, serde_json::from_slice(&body).unwrap_or_default());
    }
    match answer {
        Some(answer) => to_response(answer).await,
        None => "ok".into_response(),
    }
}

/// GitHub answers 401 to a wrong token, and 404 for a repository that the token may not read.
fn denied(headers: &HeaderMap) -> Option<Response> {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    if header("authorization") != "Bearer ghs_s3cr3t" {
        let body = json!({"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest"});
        return Some((StatusCode::UNAUTHORIZED, Json(body)).into_response());
    }
    assert_eq!(header("accept"), "application/vnd.github+json");
    assert_eq!(header("x-github-api-version"), "2022-11-28");
    assert!(header("user-agent").starts_with("burnin/"), "GitHub rejects requests without a user agent");
    None
}

fn invalid(why: &str) -> Response {
    let body = json!({"message": "Validation Failed", "errors": [{"message": why}]});
    (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response()
}

async fn status(
    State(here): State<Receiver>,
    Path((_, _, sha)): Path<(String, String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (taken, answer) = here.note(&uri, &headers, &body);
    if let Some(denied) = denied(&headers) {
        return denied;
    }
    let mut status: Value = serde_json::from_slice(&body).unwrap();
    let state = status["state"].as_str().unwrap_or_default().to_owned();
    if !["error", "failure", "pending", "success"].contains(&&*state) {
        return invalid("state is not included in the list");
    }
    if status["description"].as_str().is_some_and(|text| text.chars().count() > 140) {
        return invalid("description is too long (maximum is 140 characters)");
    }
    status["sha"] = json!(sha);
    if taken {
        here.take(&state, status.clone());
    }
    match answer {
        Some(answer) => to_response(answer).await,
        None => (StatusCode::CREATED, Json(status.clone())).into_response(),
    }
}

async fn check(State(here): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let (taken, answer) = here.note(&uri, &headers, &body);
    if let Some(denied) = denied(&headers) {
        return denied;
    }
    let run: Value = serde_json::from_slice(&body).unwrap();
    let known = ["action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out"];
    if !known.contains(&run["conclusion"].as_str().unwrap_or_default()) || run["status"] != "completed" {
        return invalid("conclusion is not included in the list");
    }
    for field in ["name", "head_sha", "external_id"] {
        assert!(run[field].is_string(), "{field}: {run}");
    }
    for field in ["title", "summary"] {
        assert!(run["output"][field].is_string(), "{field}: {run}");
    }
    if taken {
        here.take(run["external_id"].as_str().unwrap(), run.clone());
    }
    match answer {
        Some(answer) => to_response(answer).await,
        None => (StatusCode::CREATED, Json(run)).into_response(),
    }
}

#[derive(serde::Deserialize)]
struct CheckRunQuery {
    check_name: String,
    filter: String,
    per_page: usize,
    page: usize,
}

async fn list(
    State(here): State<Receiver>,
    Path((_, _, sha)): Path<(String, String, String)>,
    Query(wanted): Query<CheckRunQuery>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let (_, answer) = here.note(&uri, &headers, &Bytes::new());
    if let Some(denied) = denied(&headers) {
        return denied;
    }
    if let Some(answer) = answer {
        return to_response(answer).await;
    }
    assert_eq!(wanted.filter, "all");
    let runs: Vec<_> = here
        .taken()
        .into_iter()
        .map(|(_, run)| run)
        .filter(|run| run["head_sha"] == sha.as_str() && run["name"] == wanted.check_name.as_str())
        .collect();
    let page: Vec<_> = runs.iter().skip(wanted.per_page * (wanted.page - 1)).take(wanted.per_page).collect();
    Json(json!({"total_count": runs.len(), "check_runs": page})).into_response()
}
