//! A server for this machine alone, which has browsers on it.
//!
//! Nobody is asked for a token here, so a page of another site must not reach it: neither under a name of its own that
//! leads to 127.0.0.1, nor by a form or a script that a browser sends across sites.

use axum::{
    Router,
    extract::Request,
    http::{
        HeaderMap, HeaderName, StatusCode,
        header::{HOST, ORIGIN},
    },
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};

use crate::{api::Problem, github};

/// Answers only what is asked of this machine by its own name, from a page of its own or from no page. Webhooks prove
/// themselves, and may come through a tunnel.
pub fn at_home(router: Router) -> Router {
    router.layer(from_fn(admit))
}

async fn admit(request: Request, next: Next) -> Response {
    if request.uri().path() == github::PATH || at_home_here(request.headers()) {
        return next.run(request).await;
    }
    let why = "this server answers pages of its own, as 127.0.0.1 and localhost only";
    Problem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response()
}

fn at_home_here(headers: &HeaderMap) -> bool {
    let said = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = said(HOST).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let ours = matches!(name, "127.0.0.1" | "localhost" | "[::1]");
    ours && said(ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}
