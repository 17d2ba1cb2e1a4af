//! Requests for an object: content, metadata, deletion.

use axum::http::Method;
use serde_json::json;

use super::{Answer, ParsedRequest};
use crate::{
    Object, ServerState,
    state::{Refusal, number},
};

pub(super) fn route(
    shared: &ServerState,
    bucket: &str,
    name: &str,
    request: &ParsedRequest,
) -> Result<Answer, Refusal> {
    let mut state = shared.state();
    match request.method {
        Method::GET if request.media() => {
            let object = state.object(bucket, name, &request.query)?;
            media(&object, request.header("range"))
        }
        Method::GET => Ok(Answer::json(&state.object(bucket, name, &request.query)?.resource(bucket, name))),
        Method::PATCH => {
            state.object(bucket, name, &request.query)?;
            let given = request.document()?;
            let object = state.bucket(bucket)?.objects.get_mut(name).ok_or((404, name.to_owned()))?;
            object.metageneration += 1;
            object
                .given
                .extend(given.into_iter().filter(|(field, _)| field == "metadata" || field == "contentType"));
            Ok(Answer::json(&object.resource(bucket, name)))
        }
        Method::DELETE => {
            number(&request.query, "generation")?;
            state.remove(bucket, name, &request.query)?;
            Ok(Answer::empty(204))
        }
        _ => Err((405, json!(request.method.as_str()).to_string())),
    }
}

/// The content or a range of it, with headers about the whole object.
fn media(object: &Object, range: &str) -> Result<Answer, Refusal> {
    let size = object.body.len();
    let hash = format!("crc32c={},md5={}", object.crc32c, object.md5);
    let mut headers = vec![
        ("content-type", object.field_or("contentType", "application/octet-stream")),
        ("etag", format!("g{}m{}", object.generation, object.metageneration)),
        ("x-goog-generation", object.generation.to_string()),
        ("x-goog-metageneration", object.metageneration.to_string()),
        ("x-goog-stored-content-encoding", "identity".to_owned()),
        ("x-goog-stored-content-length", size.to_string()),
        ("x-goog-storage-class", "STANDARD".to_owned()),
        ("x-goog-hash", hash),
    ];
    let Some(range) = range.strip_prefix("bytes=") else {
        return Ok(Answer { status: 200, headers, body: object.body.clone() });
    };
    let (from, to) = range.split_once('-').unwrap_or((range, ""));
    let (from, to) = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) => (from, to.saturating_add(1).min(size)),
        (Ok(from), Err(_)) => (from, size),
        (Err(_), Ok(last)) => (size.saturating_sub(last), size),
        (Err(_), Err(_)) => return Err((400, format!("range {range}"))),
    };
    if from >= to {
        return Err((416, format!("The requested range {range} cannot be satisfied.")));
    }
    headers.push(("content-range", format!("bytes {from}-{}/{size}", to - 1)));
    Ok(Answer { status: 206, headers, body: object.body.slice(from..to) })
}
