//! Error responses, RFC 9457.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use run_index::RunIndexError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::StartError;

/// `application/problem+json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ApiProblem {
    /// `about:blank`: the status identifies the kind of problem.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Text of the status code.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// Error and next step.
    pub detail: String,
    /// All input errors, each as `file:line:column: field: expectation`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

impl ApiProblem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("unknown").to_owned();
        Self {
            kind: "about:blank",
            title,
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// 404 for an unknown run.
    pub fn no_run(run: &str) -> Self {
        let run: String = run.chars().take(80).collect();
        Self::new(StatusCode::NOT_FOUND, format!("no run {run}; GET /api/v1/runs lists them"))
    }

    /// 503 for an error of the store.
    pub fn unavailable(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!("{}", service::worker::chain(error));
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the store is unavailable; repeat the request")
    }
}

impl From<StartError> for ApiProblem {
    fn from(refused: StartError) -> Self {
        let status = match &refused {
            StartError::Unknown { .. } => StatusCode::NOT_FOUND,
            StartError::Forbidden { .. } => StatusCode::FORBIDDEN,
            StartError::Invalid(_) | StartError::Reused { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            StartError::Transient(_) => return Self::unavailable(&refused),
        };
        match refused {
            StartError::Invalid(problems) => {
                let errors = problems.0.iter().map(ToString::to_string).collect();
                Self { errors, ..Self::new(status, "the workflow cannot run with these settings") }
            }
            other => Self::new(status, other.to_string()),
        }
    }
}

impl From<pins::PinError> for ApiProblem {
    fn from(error: pins::PinError) -> Self {
        match error {
            pins::PinError::Damaged { .. } => {
                tracing::error!("{error}");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
            other => Self::unavailable(&other),
        }
    }
}

impl From<RunIndexError> for ApiProblem {
    fn from(error: RunIndexError) -> Self {
        Self::unavailable(&error)
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
        }
        response
    }
}
