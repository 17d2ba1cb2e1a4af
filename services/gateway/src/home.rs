//! A server for the local user who started it.
//!
//! Other users of the host can reach its port, so every request needs a secret of that user ([`LocalAccess`]). A page of
//! another site must not send requests through the user's browser: neither under a DNS name that resolves to 127.0.0.1, nor by a
//! form or script, nor through a proxy.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Query, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, FORWARDED, HOST, ORIGIN, REFERRER_POLICY,
            SET_COOKIE, WWW_AUTHENTICATE,
        },
    },
    middleware::{Next, from_fn_with_state},
    response::{Html, IntoResponse, Response},
};
use serde::Deserialize;

use crate::{
    Gateway,
    access::{CODE, LocalAccess},
    api::ApiProblem,
    github,
};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Accepts only requests of the user who started this server, and only with a local host name. `/healthz` needs no credential,
/// and webhooks are authenticated by their signature, because they may arrive through a tunnel.
pub fn local_only(router: Router, access: Arc<LocalAccess>, gateway: &Arc<Gateway>) -> Router {
    router.layer(from_fn_with_state((access, Arc::clone(gateway)), admit))
}

async fn admit(
    State((access, gateway)): State<(Arc<LocalAccess>, Arc<Gateway>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if path == github::PATH {
        return next.run(request).await;
    }
    if !has_local_host(request.headers()) {
        let why = "expected 127.0.0.1 or localhost in `Host`, the same in `Origin`, and no proxy; open the printed address of this server";
        return ApiProblem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    if path == "/healthz" {
        return next.run(request).await;
    }
    let user = access.user(request.headers());
    if let Some(code) = code(&request).filter(|_| method == Method::GET && path == "/") {
        // A browser that is already signed in opens the page even if the link was used before.
        return match (access.exchange(&code), user) {
            (Some(cookie), _) => signed_in(Some(cookie)),
            (None, Some(_)) => signed_in(None),
            (None, None) => refused(&access, request.headers(), "/"),
        };
    }
    let Some(user) = user else {
        tracing::warn!(path, "request refused: neither token nor cookie of this server");
        return refused(&access, request.headers(), &path);
    };
    // Unreadable events are stored as files, so they count toward the caller's rate of changes.
    if path == "/" && method == Method::POST && !gateway.rates.allows(&"events".to_owned(), &method) {
        return ApiProblem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "events exceed the maximum rate; wait for the time in Retry-After",
        )
        .into_response();
    }
    request.extensions_mut().insert(user);
    next.run(request).await
}

fn has_local_host(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).unwrap_or_default();
    // A proxy in front of this server would make all forwarded requests appear local.
    let forwarded = headers.get_all(X_FORWARDED_HOST).iter().all(|value| value.to_str().is_ok_and(is_local));
    is_local(host)
        && forwarded
        && !headers.contains_key(FORWARDED)
        && text(ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

fn code(request: &Request) -> Option<String> {
    #[derive(Deserialize)]
    struct SignInQuery {
        code: String,
    }
    request.uri().query().filter(|query| query.starts_with(CODE))?;
    Query::<SignInQuery>::try_from_uri(request.uri()).ok().map(|Query(link)| link.code)
}

/// Continues to `/` with a page instead of a redirect: after a redirect that started on another site, a browser would not send
/// the cookie.
fn signed_in(cookie: Option<HeaderValue>) -> Response {
    let page = page(
        r#"<meta http-equiv="refresh" content="0;url=/">"#,
        r#"<p>Signed in. <a href="/">Continue to Burnin</a></p>"#,
    );
    let mut response = (StatusCode::OK, page).into_response();
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn refused(access: &LocalAccess, headers: &HeaderMap, path: &str) -> Response {
    let wants = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let port = access.port();
    let mut response = if wants.contains("text/html") {
        // A link on another site's page does not send the cookie; a link on this page does.
        let here = if path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte)) {
            path
        } else {
            "/"
        };
        let body = format!(
            r#"<h1>Not signed in</h1>
<p>This server is only for the user who started it. Open the link that <code>burnin up</code> printed last; each link works
once, and the next link is then printed. The newest link is also in the data folder: <code>cat .burnin/host/up/{port}.link</code></p>
<p>If this browser is already signed in, <a href="{here}">continue here</a>.</p>"#
        );
        (StatusCode::UNAUTHORIZED, page("", &body)).into_response()
    } else {
        let why = format!(
            "this server accepts only the user who started it: send the header from the data folder, such as \
             `curl -H @.burnin/host/up/{port}.header`"
        );
        ApiProblem::new(StatusCode::UNAUTHORIZED, why).into_response()
    };
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn page(head: &str, body: &str) -> impl IntoResponse {
    let headers = [
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    let page = format!(
        r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{head}
<title>Burnin</title>
{body}
</html>
"#
    );
    (headers, Html(page))
}
