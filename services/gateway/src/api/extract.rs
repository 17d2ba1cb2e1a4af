//! Extractors of request parts, with problem responses.

use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::JsonRejection},
    http::{StatusCode, request::Parts},
};
use model::RunId;
use serde::de::DeserializeOwned;
use service::auth::Caller;

use super::problem::ApiProblem;
use crate::LocalUser;

pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiProblem> {
        let read = Json::<T>::from_request(request, state).await;
        let problem = |rejection: JsonRejection| {
            // Valid JSON of another type is invalid input: the status is 422, as for other invalid input.
            let status = match &rejection {
                JsonRejection::JsonDataError(_) => StatusCode::UNPROCESSABLE_ENTITY,
                other => other.status(),
            };
            ApiProblem::new(status, rejection.body_text())
        };
        read.map(|Json(read)| Self(read)).map_err(problem)
    }
}

pub struct Filtered<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Filtered<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(read)) => Ok(Self(read)),
            Err(rejection) => Err(ApiProblem::new(StatusCode::BAD_REQUEST, rejection.body_text())),
        }
    }
}

/// Run in the path. An invalid run name results in status 404.
pub struct PathParam(pub RunId);

impl<S: Send + Sync> FromRequestParts<S> for PathParam {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        #[derive(serde::Deserialize)]
        struct QueryParams {
            run: String,
        }
        let Path(QueryParams { run }) = Path::<QueryParams>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| ApiProblem::new(StatusCode::NOT_FOUND, rejection.body_text()))?;
        run.parse().map(Self).map_err(|_| ApiProblem::no_run(&run))
    }
}

/// Name of the caller, for display.
pub struct CallerName(pub String);

impl<S: Send + Sync> FromRequestParts<S> for CallerName {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let user = parts.extensions.get::<LocalUser>().map(|LocalUser(user)| user.clone());
        Ok(Self(user.unwrap_or_else(|| caller(&parts.extensions))))
    }
}

/// Identity for keys and rates. All requests to `burnin up` belong to one user and have the identity `somebody`, so that keys from versions
/// without users stay valid.
pub struct RequestedBy(pub String);

impl<S: Send + Sync> FromRequestParts<S> for RequestedBy {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(caller(&parts.extensions)))
    }
}

pub(super) fn caller(extensions: &axum::http::Extensions) -> String {
    extensions.get::<Caller>().map_or_else(|| model::UNNAMED.to_owned(), |caller| caller.email.clone())
}
