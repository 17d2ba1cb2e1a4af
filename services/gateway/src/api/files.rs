//! Operations that return the logs and the report of a run.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::{Path, State},
    http::{
        HeaderMap, StatusCode,
        header::{
            ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RANGE,
        },
    },
    response::{IntoResponse, Response},
};
use model::{LeftOut, ManifestObject, RunId};
use run_index::{ExternalAddresses, RunLogs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, copy, sink};
use tokio_util::io::ReaderStream;

use super::{
    extract::{Filtered, PathParam},
    problem::ApiProblem,
};
use crate::Gateway;

/// Response of `GET /api/v1/runs/{run}/logs`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileList {
    /// Schema of the document: always `burnin/logs/v1`.
    schema: &'static str,
    /// Whether the logs are complete and final.
    safe: bool,
    /// Collected files with their digests.
    files: Vec<ManifestObject>,
    /// Files that were not collected, with the reason.
    left_out: Vec<LeftOut>,
}

async fn logs(gateway: &Gateway, run: &RunId) -> Result<RunLogs, ApiProblem> {
    gateway.run_index.logs(run).await?.ok_or_else(|| ApiProblem::no_run(run.as_str()))
}

pub async fn list(
    State(gateway): State<Arc<Gateway>>,
    PathParam(run): PathParam,
) -> Result<Json<FileList>, ApiProblem> {
    let RunLogs { complete: safe, files, left_out } = logs(&gateway, &run).await?;
    let files = files.into_iter().map(|log| log.file).collect();
    Ok(Json(FileList { schema: "burnin/logs/v1", safe, files, left_out }))
}

pub async fn fetch(
    State(gateway): State<Arc<Gateway>>,
    PathParam(run): PathParam,
    Path((_, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let not_yet = || {
        ApiProblem::new(
            StatusCode::NOT_FOUND,
            format!("{run} has no logs yet; GET /api/v1/runs/{run} shows its stage"),
        )
    };
    let logs = logs(&gateway, &run).await?;
    if logs.files.is_empty() {
        return Err(not_yet());
    }
    // Serve only objects named in a manifest.
    let log = logs.named(&name).ok_or_else(|| {
        let why = format!("{run} has no log `{name}`; GET /api/v1/runs/{run}/logs lists them");
        ApiProblem::new(StatusCode::NOT_FOUND, why)
    })?;
    let size = log.file.size_bytes;
    let range =
        headers.get(RANGE).and_then(|range| range.to_str().ok()).and_then(|range| parse_range(range, size));
    let opened = gateway.store.open(&log.object).await.map_err(|error| ApiProblem::unavailable(&error))?;
    let mut body = opened.ok_or_else(|| {
        ApiProblem::new(
            StatusCode::NOT_FOUND,
            format!("the log `{name}` of {run} is missing in the bucket; check whether it was removed"),
        )
    })?;
    let headers = |length: u64| {
        [
            (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
            (CONTENT_LENGTH, length.to_string()),
            (ACCEPT_RANGES, "bytes".to_owned()),
        ]
    };
    let stream = |body| Body::from_stream(ReaderStream::with_capacity(body, 64 << 10));
    match range {
        None => Ok((headers(size), stream(body)).into_response()),
        Some(Err(())) => {
            let problem = ApiProblem::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                format!("the log has {size} bytes; request a range of them"),
            );
            Ok(([(CONTENT_RANGE, format!("bytes */{size}"))], problem).into_response())
        }
        Some(Ok((first, last))) => {
            let skipped = copy(&mut (&mut body).take(first), &mut sink()).await;
            skipped.map_err(|error| ApiProblem::unavailable(&error))?;
            let length = last - first + 1;
            let part: ledger::ObjectReader = Box::new(body.take(length));
            let range = [(CONTENT_RANGE, format!("bytes {first}-{last}/{size}"))];
            Ok((StatusCode::PARTIAL_CONTENT, headers(length), range, stream(part)).into_response())
        }
    }
}

/// Parses a byte range into first and last byte. Multi-range and invalid headers are ignored; a range beyond the end is an
/// error.
fn parse_range(range: &str, size: u64) -> Option<Result<(u64, u64), ()>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| (!text.is_empty()).then(|| text.parse::<u64>().ok());
    match (number(first), number(last)) {
        (Some(Some(first)), last) => {
            let last = last.map_or(Some(u64::MAX), |last| last)?;
            if first > last {
                return None;
            }
            Some(if first < size { Ok((first, last.min(size - 1))) } else { Err(()) })
        }
        (None, Some(Some(tail))) => {
            Some(if tail > 0 && size > 0 { Ok((size.saturating_sub(tail), size - 1)) } else { Err(()) })
        }
        _ => None,
    }
}

/// Format of a report.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileForm {
    #[default]
    Html,
    Text,
    Markdown,
    Json,
    Csv,
    Junit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReportQuery {
    form: FileForm,
    check: Option<String>,
}

pub async fn report(
    State(gateway): State<Arc<Gateway>>,
    PathParam(run): PathParam,
    Filtered(ReportQuery { form, check }): Filtered<ReportQuery>,
) -> Result<Response, ApiProblem> {
    let addresses = ExternalAddresses { warehouse: gateway.warehouse.clone(), report: None };
    let no_run = || ApiProblem::no_run(run.as_str());
    let check = match check {
        Some(name) => Some(gateway.check_named(&run, &name).await?),
        None => None,
    };
    let report = gateway.run_index.report_of(&run, check, addresses).await?.ok_or_else(no_run)?;
    let input = report.input();
    let (media, text) = match form {
        FileForm::Html => ("text/html; charset=utf-8", report::html(&input)),
        FileForm::Text => ("text/plain; charset=utf-8", report::terminal(&input, report::Style::Plain)),
        FileForm::Markdown => ("text/markdown; charset=utf-8", report::markdown(&input)),
        FileForm::Csv => ("text/csv; charset=utf-8", report::csv(&input)),
        FileForm::Junit => ("application/xml", report::junit(&input)),
        FileForm::Json => {
            let none = || {
                ApiProblem::new(
                    StatusCode::NOT_FOUND,
                    format!("{run} has no verdict yet; GET /api/v1/runs/{run} shows its stage"),
                )
            };
            return Ok(Json(input.judgement.ok_or_else(none)?).into_response());
        }
    };
    // The page loads no resources, and text from logs must not load any either.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";
    Ok(([(CONTENT_TYPE, media), (CONTENT_SECURITY_POLICY, policy)], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_headers_are_parsed_per_rfc_9110() {
        let cases = [
            ("bytes=0-9", Some(Ok((0, 9)))),
            ("bytes=90-", Some(Ok((90, 99)))),
            ("bytes=90-1000", Some(Ok((90, 99)))),
            ("bytes=-10", Some(Ok((90, 99)))),
            ("bytes=-1000", Some(Ok((0, 99)))),
            ("bytes=100-", Some(Err(()))),
            ("bytes=-0", Some(Err(()))),
            ("bytes=9-0", None),
            ("bytes=0-1,5-6", None),
            ("lines=0-1", None),
            ("bytes=a-b", None),
            ("bytes=-", None),
        ];
        for (range, expected) in cases {
            assert_eq!(parse_range(range, 100), expected, "{range}");
        }
        assert_eq!(parse_range("bytes=0-", 0), Some(Err(())));
    }
}
