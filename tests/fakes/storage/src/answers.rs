//! Routes requests and applies faults.

mod objects;
mod uploads;

use std::{future::pending, io, sync::Arc};

use axum::{
    body::Body,
    extract::{ConnectInfo, Query as InQuery, Request, State},
    http::{HeaderMap, Method, StatusCode},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::{
    ConnectionControl, FaultKind, ServerState, StorageRequest, notify,
    state::{Bucket, Query, Refusal, crc32c},
};

/// The response without a fault.
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Answer {
    fn json(value: &Value) -> Self {
        let headers = vec![("content-type", "application/json; charset=UTF-8".to_owned())];
        Self { status: 200, headers, body: value.to_string().into() }
    }

    fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// An error in the API's format.
    fn refusal((status, message): Refusal) -> Self {
        let reason = match status {
            412 => "conditionNotMet",
            429 => "rateLimitExceeded",
            _ => "invalid",
        };
        let error = json!({"code": status, "message": message, "errors": [{"message": message, "domain": "global", "reason": reason}]});
        Self { status, ..Self::json(&json!({ "error": error })) }
    }
}

pub(crate) struct ParsedRequest {
    method: Method,
    /// Parts of the path, decoded; an object's name is a single part.
    path: Vec<String>,
    query: Query,
    headers: HeaderMap,
    body: Bytes,
    /// Whether the body is complete.
    whole: bool,
}

impl ParsedRequest {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn document(&self) -> Result<Map<String, Value>, Refusal> {
        if self.body.is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_slice(&self.body).map_err(|error| (400, format!("the body: {error}")))
    }

    fn wants(&self) -> StorageRequest {
        let path: Vec<_> = self.path.iter().map(String::as_str).collect();
        let resumable = self.query.get("uploadType").is_some_and(|kind| kind == "resumable");
        match (self.method.as_str(), &path[..]) {
            ("PUT", ["upload", ..]) if self.header("content-range").starts_with("bytes */") => {
                StorageRequest::Status
            }
            ("PUT", ["upload", ..]) => StorageRequest::Chunk,
            ("POST", ["upload", ..]) if resumable => StorageRequest::Start,
            ("POST", ["upload", ..]) => StorageRequest::Insert,
            ("GET", ["b", _, "o"]) => StorageRequest::List,
            ("GET", ["b", _, "o", _]) if self.media() => StorageRequest::Media,
            ("GET", ["b", _, "o", _]) => StorageRequest::Get,
            ("DELETE", ["b", _, "o", _]) => StorageRequest::Delete,
            _ => StorageRequest::Other,
        }
    }

    fn media(&self) -> bool {
        self.query.get("alt").is_some_and(|alt| alt == "media")
    }
}

/// Parts of `b/{bucket}/o/{object}` after any prefix that clients use; for uploads the first part is `upload`.
fn path(raw: &str) -> Vec<String> {
    let (upload, rest) = match raw.split_once("/upload/storage/v1/") {
        Some((_, rest)) => (true, rest),
        None => (false, raw.split_once("/storage/v1/").map_or(raw, |(_, rest)| rest)),
    };
    let parts = rest.trim_start_matches('/').splitn(4, '/');
    let parts = parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned());
    upload.then(|| "upload".to_owned()).into_iter().chain(parts).collect()
}

/// The received part of the body, and whether it is complete.
async fn body(body: Body, most: Option<usize>) -> (Bytes, bool) {
    let mut body = body;
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return (bytes.freeze(), false) };
        bytes.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        if let Some(most) = most.filter(|most| bytes.len() >= *most) {
            return (bytes.split_to(most).freeze(), false);
        }
    }
    (bytes.freeze(), most.is_none())
}

pub(crate) async fn answer(
    State(shared): State<Arc<ServerState>>,
    ConnectInfo(control): ConnectInfo<ConnectionControl>,
    InQuery(query): InQuery<Query>,
    request: Request,
) -> Response {
    let (head, arriving) = request.into_parts();
    let path = path(head.uri.path());
    let (method, headers) = (head.method, head.headers);
    let mut decoded = ParsedRequest { method, path, query, headers, body: Bytes::new(), whole: true };
    let wants = decoded.wants();
    let fault = shared.faults.take(wants);
    let noted = |status| {
        let mut log = shared.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        log.push((wants, status));
    };
    match fault {
        Some(FaultKind::Refuse(status)) => {
            noted(status);
            return to_response(Answer::refusal((status, "injected fault".to_owned())), None);
        }
        Some(FaultKind::CutBefore) => {
            noted(0);
            control.cut();
            return Response::default();
        }
        Some(FaultKind::StallBefore) => {
            noted(0);
            pending::<()>().await;
        }
        _ => {}
    }
    let most = if let Some(FaultKind::CutWithin(most)) = fault { Some(most) } else { None };
    (decoded.body, decoded.whole) = body(arriving, most).await;
    if let Some(FaultKind::Late(millis)) = fault {
        noted(0);
        let later = std::time::Duration::from_millis(millis);
        tokio::spawn(async move {
            tokio::time::sleep(later).await;
            drop(route(&shared, wants, &decoded)); // the client receives no response
        });
        return pending().await;
    }
    let answer = route(&shared, wants, &decoded).unwrap_or_else(Answer::refusal);
    match fault {
        Some(FaultKind::FailAfter(status)) => {
            noted(status);
            to_response(Answer::refusal((status, "injected fault after the request".to_owned())), None)
        }
        Some(FaultKind::CutWithin(_) | FaultKind::CutAfter) => {
            noted(0);
            control.cut();
            Response::default()
        }
        Some(FaultKind::StallAfter) => {
            noted(0);
            pending().await
        }
        fault => {
            noted(answer.status);
            to_response(answer, fault)
        }
    }
}

/// Converts to a response, with the fault applied.
fn to_response(mut answer: Answer, fault: Option<FaultKind>) -> Response {
    let length = answer.body.len();
    match fault {
        Some(FaultKind::Flip) => {
            let mut bytes = answer.body.to_vec();
            if let Some(byte) = bytes.get_mut(length / 2) {
                *byte ^= 1;
            }
            answer.body = bytes.into();
        }
        Some(FaultKind::WrongCrc) => {
            let wrong = crc32c(b"something else");
            for (name, value) in &mut answer.headers {
                if *name == "x-goog-hash" {
                    *value = format!("crc32c={wrong}");
                }
            }
            if let Ok(mut object) = serde_json::from_slice::<Map<String, Value>>(&answer.body)
                && object.contains_key("crc32c")
            {
                object["crc32c"] = json!(wrong);
                answer.body = json!(object).to_string().into();
            }
        }
        _ => {}
    }
    let half = stream::iter([Ok(answer.body.slice(..answer.body.len() / 2))]);
    let mut response = Response::new(match fault {
        Some(FaultKind::HalfAnswer) => {
            Body::from_stream(half.chain(stream::iter([Err(io::Error::other("cut off"))])))
        }
        Some(FaultKind::HalfThenStall) => {
            Body::from_stream(half.chain(stream::pending::<io::Result<Bytes>>()))
        }
        _ => Body::from(answer.body.clone()),
    });
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::IM_A_TEAPOT);
    if answer.status != 304 {
        answer.headers.push(("content-length", answer.body.len().to_string()));
    }
    for (name, value) in answer.headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn route(
    shared: &Arc<ServerState>,
    wants: StorageRequest,
    request: &ParsedRequest,
) -> Result<Answer, Refusal> {
    let path: Vec<_> = request.path.iter().map(String::as_str).collect();
    match (request.method.as_str(), &path[..]) {
        (_, ["upload", "b", bucket, "o"]) => uploads::route(shared, wants, bucket, request),
        ("GET", ["b", bucket, "o"]) => Ok(Answer::json(&shared.state().list(bucket, &request.query)?)),
        (_, ["b", bucket, "o", name]) => objects::route(shared, bucket, name, request),
        (_, ["b", bucket, "notificationConfigs"]) => notifications(shared, bucket, request),
        ("POST", ["b"]) => {
            let document = request.document()?;
            let name = document.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let retention =
                document.get("retentionPolicy").and_then(|policy| policy["retentionPeriod"].as_str());
            let retention =
                std::time::Duration::from_secs(retention.and_then(|text| text.parse().ok()).unwrap_or(0));
            let mut state = shared.state();
            if state.buckets.contains_key(&name) {
                return Err((409, format!("bucket {name} exists")));
            }
            state.buckets.insert(name.clone(), Bucket { retention, ..Bucket::default() });
            Ok(Answer::json(&json!({"kind": "storage#bucket", "name": name, "id": name})))
        }
        ("GET", ["b", bucket]) => {
            shared.state().bucket(bucket)?;
            Ok(Answer::json(&json!({"kind": "storage#bucket", "name": bucket, "id": bucket})))
        }
        ("POST", ["standin", "faults"]) => {
            let fault = serde_json::from_slice(&request.body).map_err(|error| (400, error.to_string()))?;
            shared.faults.add(fault);
            Ok(Answer::empty(204))
        }
        ("POST", ["standin", "push"]) => {
            let url = request.document()?["url"].as_str().unwrap_or_default().to_owned();
            tokio::spawn(notify::push(Arc::clone(shared), url));
            Ok(Answer::empty(204))
        }
        ("GET", ["standin", "events"]) => Ok(Answer::json(&json!(shared.state().events))),
        _ => Err((404, format!("this stand-in does not support {} {}", request.method, path.join("/")))),
    }
}

fn notifications(shared: &ServerState, bucket: &str, request: &ParsedRequest) -> Result<Answer, Refusal> {
    let mut state = shared.state();
    let there = &mut state.bucket(bucket)?.notifications;
    if request.method != Method::POST {
        return Ok(Answer::json(&json!({"kind": "storage#notifications", "items": there})));
    }
    let mut notification = request.document()?;
    let id = (there.len() + 1).to_string();
    notification.insert(
        "selfLink".to_owned(),
        json!(format!("projects/_/buckets/{bucket}/notificationConfigs/{id}")),
    );
    notification.insert("id".to_owned(), json!(id));
    there.push(json!(notification));
    Ok(Answer::json(&json!(notification)))
}
