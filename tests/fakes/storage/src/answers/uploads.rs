//! Simple, multipart and resumable uploads (Google's pages "Upload objects" and "Resumable uploads").

use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde_json::{Map, Value, json};

use super::{Answer, ParsedRequest};
use crate::{
    ServerState, StorageRequest, multipart,
    state::{Refusal, Session, StorageState},
};

/// Storage unit of incomplete uploads, bytes. Each chunk except the last is a multiple of it.
const QUANTUM: usize = 256 << 10;
/// Lifetime of an incomplete upload.
const LIFETIME: Duration = Duration::from_hours(7 * 24);

pub(super) fn route(
    shared: &ServerState,
    wants: StorageRequest,
    bucket: &str,
    request: &ParsedRequest,
) -> Result<Answer, Refusal> {
    let mut state = shared.state();
    let id = request.query.get("upload_id").cloned().unwrap_or_default();
    match wants {
        StorageRequest::Insert => insert(&mut state, bucket, request),
        StorageRequest::Start => start(shared, &mut state, bucket, request),
        StorageRequest::Status | StorageRequest::Chunk => {
            let mut session = state.sessions.remove(&id).ok_or((404, format!("no upload {id}")))?;
            if session.began.elapsed() >= LIFETIME.saturating_sub(state.older) {
                return Err((410, format!("upload {id} has expired")));
            }
            let answer = continue_upload(&mut state, &mut session, request);
            state.sessions.insert(id, session);
            answer
        }
        _ if request.method == "DELETE" && state.sessions.remove(&id).is_some() => Ok(Answer::empty(499)),
        _ => Err((404, format!("no upload {id}"))),
    }
}

fn name(request: &ParsedRequest, metadata: &Map<String, Value>) -> Result<String, Refusal> {
    let name = request.query.get("name").map(String::as_str).or(metadata.get("name").and_then(Value::as_str));
    name.filter(|name| !name.is_empty()).map(str::to_owned).ok_or((400, "Required object name".to_owned()))
}

/// Copies the checksums in the request's headers into the metadata.
fn announced(request: &ParsedRequest, metadata: &mut Map<String, Value>) {
    for hash in request.header("x-goog-hash").split(',') {
        if let Some((kind, value)) = hash.trim().split_once('=') {
            let field = if kind == "md5" { "md5Hash" } else { kind };
            metadata.insert(field.to_owned(), json!(value));
        }
    }
}

fn insert(state: &mut StorageState, bucket: &str, request: &ParsedRequest) -> Result<Answer, Refusal> {
    if !request.whole {
        return Err((400, "the body is incomplete".to_owned()));
    }
    let kind = request.header("content-type");
    let (mut metadata, media) = match request.query.get("uploadType").map(String::as_str) {
        Some("multipart") => multipart::read(kind, &request.body).map_err(|why| (400, why))?,
        Some("media") => (Map::from_iter([("contentType".to_owned(), json!(kind))]), request.body.clone()),
        kind => return Err((400, format!("uploadType {kind:?}"))),
    };
    announced(request, &mut metadata);
    let name = name(request, &metadata)?;
    Ok(Answer::json(&state.write(bucket, &name, &request.query, metadata, media)?))
}

fn start(
    shared: &ServerState,
    state: &mut StorageState,
    bucket: &str,
    request: &ParsedRequest,
) -> Result<Answer, Refusal> {
    let given = request.document()?;
    let name = name(request, &given)?;
    state.may_write(bucket, &name, &request.query)?;
    state.last += 1;
    let id = format!("upload-{}", state.last);
    let location =
        format!("{}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={id}", shared.base);
    let (bucket, query, began) = (bucket.to_owned(), request.query.clone(), Instant::now());
    state
        .sessions
        .insert(id, Session { bucket, name, query, given, body: BytesMut::new(), done: None, began });
    Ok(Answer { headers: vec![("location", location)], ..Answer::empty(200) })
}

/// A chunk, or a query of the progress; the last chunk creates the object.
fn continue_upload(
    state: &mut StorageState,
    session: &mut Session,
    request: &ParsedRequest,
) -> Result<Answer, Refusal> {
    if let Some(done) = &session.done {
        return Ok(Answer::json(done));
    }
    let wrong = || (400, format!("content-range {}", request.header("content-range")));
    let range = request.header("content-range").strip_prefix("bytes ");
    let (span, total) = match range.map(|range| range.split_once('/').ok_or_else(wrong)).transpose()? {
        Some((span, total)) => (span, total.parse::<usize>().ok()),
        // Without the header the request contains the whole object.
        None => ("0-", request.whole.then_some(request.body.len())),
    };
    let mut ends = total == Some(session.body.len());
    if span != "*" {
        let (from, to) = span.split_once('-').ok_or_else(wrong)?;
        let from: usize = from.parse().map_err(|_| wrong())?;
        if from > session.body.len() {
            return Err((400, format!("there were {} bytes of data missing", from - session.body.len())));
        }
        let before = session.body.len();
        let known = (before - from).min(request.body.len());
        session.body.extend_from_slice(&request.body[known..]);
        let open = to == "*" && total.is_none();
        ends = request.whole && (open || total == Some(session.body.len()));
        if total.is_some_and(|total| session.body.len() > total) {
            return Err(wrong());
        }
        if !ends && request.whole && !request.body.len().is_multiple_of(QUANTUM) {
            session.body.truncate(before);
            let found = request.body.len();
            return Err((
                400,
                format!(
                    "expected a multiple of {QUANTUM} bytes in each chunk except the last, found {found}"
                ),
            ));
        }
        if !ends {
            let kept = session.body.len() / QUANTUM * QUANTUM;
            session.body.truncate(kept);
        }
    }
    if !ends {
        let kept = session.body.len();
        let range = (kept > 0).then(|| ("range", format!("bytes=0-{}", kept - 1)));
        return Ok(Answer { headers: range.into_iter().collect(), ..Answer::empty(308) });
    }
    announced(request, &mut session.given);
    let (bucket, name, query) = (session.bucket.clone(), session.name.clone(), session.query.clone());
    let body = session.body.clone().freeze();
    let done = state.write(&bucket, &name, &query, session.given.clone(), body)?;
    session.body = BytesMut::new();
    Ok(Answer::json(session.done.insert(done)))
}
