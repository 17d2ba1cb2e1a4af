//! An address of one of Google's REST services for one caller: each request is checked, then forwarded to the stand-in.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    grants::Resource,
    iam::{Denial, Iam},
    methods::{Call, GoogleApi, needs, permission, permission_to_overwrite},
};

/// Maximum size of a body.
const LARGEST: usize = 64 << 20;

struct ProxyState {
    api: GoogleApi,
    member: String,
    upstream: String,
    iam: Arc<Iam>,
    /// Whether the permission to overwrite is checked before the precondition.
    strict: bool,
    http: reqwest::Client,
}

/// A running proxy; it stops on drop.
pub struct Proxy {
    /// `http://host:port`.
    pub url: String,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Opens an address for requests of `member`.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn open(
        api: GoogleApi,
        member: &str,
        upstream: &str,
        iam: Arc<Iam>,
        strict: bool,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (member, upstream) = (member.to_owned(), upstream.to_owned());
        let shared =
            Arc::new(ProxyState { api, member, upstream, iam, strict, http: reqwest::Client::new() });
        let router = Router::new().fallback(answer).with_state(shared);
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { url, serving })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A 403 in the form of Google's JSON APIs.
fn refusal(denial: &Denial) -> Response {
    let message = format!("{denial} (or it may not exist).");
    let errors = json!([{"message": message, "domain": "global", "reason": "forbidden"}]);
    let error =
        json!({"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED", "errors": errors}});
    let headers = [(header::CONTENT_TYPE, "application/json; charset=UTF-8")];
    (StatusCode::FORBIDDEN, headers, error.to_string()).into_response()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(&value.replace('+', " ")))
    };
    pairs.map(pair).collect()
}

async fn answer(State(shared): State<Arc<ProxyState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else {
        return (StatusCode::BAD_REQUEST, "the body is incomplete").into_response();
    };
    let path: Vec<_> = head.uri.path().trim_start_matches('/').split('/').map(decoded).collect();
    let query = query(head.uri.query().unwrap_or_default());
    let json: Value = serde_json::from_slice(&body).unwrap_or_default();
    let is_of_another = shared.iam.is_job_of_another(&shared.member, job_in(shared.api, &path));
    let call = Call { method: head.method.as_str(), path, query, body: json, is_of_another };
    let Some(needs) = needs(shared.api, &call) else {
        return refusal(
            &shared.iam.unknown(&shared.member, &format!("{:?} {} {}", shared.api, head.method, head.uri)),
        );
    };
    for (permission, resource) in &needs {
        if let Err(denial) = shared.iam.check(&shared.member, permission, resource) {
            return refusal(&denial);
        }
    }
    if shared.strict
        && let Some(denial) = overwrites(&shared, &call).await
    {
        return refusal(&denial);
    }
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut forwarded = shared.http.request(head.method.clone(), format!("{}{target}", shared.upstream));
    for (name, value) in &head.headers {
        if ![header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION]
            .contains(name)
        {
            forwarded = forwarded.header(name, value);
        }
    }
    let Ok(answered) = forwarded.body(body).send().await else {
        return (StatusCode::BAD_GATEWAY, "the stand-in does not answer").into_response();
    };
    if let Some(denial) = absent(&shared, &call, answered.status()) {
        return refusal(&denial);
    }
    let (response, body) = returned(answered).await;
    if (shared.api, call.method) == (GoogleApi::BigQuery, "POST") {
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        for job in [&call.body, &answer] {
            if let Some(id) = job["jobReference"]["jobId"].as_str() {
                shared.iam.job_created(&shared.member, id);
            }
        }
    }
    response
}

/// The id of the job of BigQuery that a path names.
fn job_in(api: GoogleApi, path: &[String]) -> Option<&str> {
    let path: Vec<_> = path.iter().map(String::as_str).collect();
    match (api, &path[..]) {
        (GoogleApi::BigQuery, ["bigquery", "v2", "projects", _, "jobs" | "queries", id]) => Some(id),
        _ => None,
    }
}

/// Denial of an upload that would replace an existing object. Not recorded, because the precondition refuses the upload as well.
async fn overwrites(shared: &ProxyState, call: &Call<'_>) -> Option<Denial> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    let (GoogleApi::Storage, "POST", ["upload", "storage", "v1", "b", bucket, "o"]) =
        (shared.api, call.method, &path[..])
    else {
        return None;
    };
    let name = call.query.get("name")?;
    let resource = Resource::object(bucket, name);
    if shared.iam.would_allow(&shared.member, permission_to_overwrite(), &resource) {
        return None;
    }
    let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
    let found =
        shared.http.get(format!("{}/storage/v1/b/{bucket}/o/{name}", shared.upstream)).send().await.ok()?;
    let permission = permission_to_overwrite().to_owned();
    found.status().is_success().then(|| Denial { member: shared.member.clone(), permission, resource })
}

/// Denial for the read of an absent object if the caller may not list the object's name. With `strict` also for a removal, and for a caller
/// that may list only below a prefix; these denials are not recorded, because a list shows the caller that the object is absent.
fn absent(shared: &ProxyState, call: &Call<'_>, status: StatusCode) -> Option<Denial> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    let (GoogleApi::Storage, "GET" | "DELETE", 404, ["storage", "v1", "b", bucket, "o", name]) =
        (shared.api, call.method, status.as_u16(), &path[..])
    else {
        return None;
    };
    if shared.strict {
        let (permission, resource) = (permission("storage.objects.list"), Resource::list(bucket, ""));
        return (!shared.iam.would_allow(&shared.member, permission, &resource)).then(|| Denial {
            member: shared.member.clone(),
            permission: permission.to_owned(),
            resource,
        });
    }
    if call.method == "DELETE" {
        return None;
    }
    // A caller that may list this name can learn that the object is absent.
    shared.iam.check(&shared.member, permission("storage.objects.list"), &Resource::list(bucket, name)).err()
}

async fn returned(answered: reqwest::Response) -> (Response, Bytes) {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answered.status();
    for (name, value) in answered.headers() {
        if ![HeaderName::from_static("transfer-encoding"), header::CONNECTION].contains(name) {
            response.headers_mut().append(name, value.clone());
        }
    }
    let body = answered.bytes().await.unwrap_or_else(|_| Bytes::new());
    *response.body_mut() = Body::from(body.clone());
    (response, body)
}
