//! HTTP under `/api/v1`. One table, `operations::all`, defines the routes and their OpenAPI description, so that both always
//! agree.

mod baselines;
mod extract;
mod files;
mod index;
pub mod limits;
mod openapi;
mod operation;
mod operations;
mod problem;
mod runs;
mod schemas;
pub mod workflows;

use std::sync::Arc;

use axum::{
    Json, Router, extract::DefaultBodyLimit, http::StatusCode, middleware::from_fn_with_state, routing::get,
};

use crate::Gateway;

pub use openapi::document;
pub use problem::ApiProblem;

/// Maximum size of a request body, bytes.
const BODY_LIMIT: usize = 64 << 10;

/// Routes of the API, merged with `pages`, which serves `/`.
pub(crate) fn routes(gateway: &Arc<Gateway>, pages: Router) -> Router {
    let mut router = Router::new();
    for route in operations::all() {
        router = router.route(route.path, route.handler);
    }
    let document = document();
    router
        .route("/api/v1/openapi.json", get(async move || Json(document)))
        .route("/api/v1/{*anything}", get(not_found).fallback(not_found))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(from_fn_with_state(Arc::clone(gateway), limits::limited))
        .route("/api", get(index::page))
        .with_state(Arc::clone(gateway))
        .merge(pages)
}

async fn not_found() -> ApiProblem {
    ApiProblem::new(StatusCode::NOT_FOUND, "no such path; see /api/v1/openapi.json")
}

async fn method_not_allowed() -> ApiProblem {
    ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed on this path; see the header Allow")
}
