//! Callers without valid credentials are refused, and keys are per caller.

use std::sync::Arc;

use crate::support::GatewayBed;
use axum::{body::Body, http::Request};
use http_body_util::BodyExt;
use serde_json::Value;
use service::auth::{Authenticator, Caller, Denied, HeaderMap, Method};
use tower::ServiceExt;

/// Accepts every non-empty token.
struct AcceptsAnyUser;

#[async_trait::async_trait]
impl Authenticator for AcceptsAnyUser {
    async fn authenticate(&self, _: &Method, headers: &HeaderMap) -> Result<Caller, Denied> {
        match headers.get("authorization") {
            Some(email) => Ok(Caller { email: email.to_str().unwrap().to_owned(), subscription: None }),
            None => Err(Denied::Unproven("the token is missing".to_owned())),
        }
    }
}

async fn send(bed: &GatewayBed, method: &str, path: &str, by: Option<&str>, body: &str) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    request = request.header("content-type", "application/json").header("idempotency-key", "k");
    if let Some(by) = by {
        request = request.header("authorization", by);
    }
    let router = bed.router_behind(Some(Arc::new(AcceptsAnyUser)));
    let response = router.oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn unauthenticated_callers_are_refused_and_keys_are_per_caller() {
    let bed = GatewayBed::new(&[("w", "")]);
    let request = r#"{"workflow":"w"}"#;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/api/v1/runs"),
        ("POST", "/api/v1/runs"),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/api/v1/nothing"),
        ("POST", "/chores/schedule"),
        ("POST", "/"),
    ] {
        assert_eq!(send(&bed, method, path, None, request).await.0, 401, "{method} {path}");
    }
    // A webhook needs a signature, and this request has no signature.
    assert_eq!(send(&bed, "POST", "/hooks/github", Some("a@x"), request).await.0, 401);
    assert_eq!(send(&bed, "GET", "/healthz", None, "").await.0, 200);
    assert!(bed.runs().await.is_empty());
    let (status, a) = send(&bed, "POST", "/api/v1/runs", Some("a@x"), request).await;
    let (_, again) = send(&bed, "POST", "/api/v1/runs", Some("a@x"), request).await;
    let (_, b) = send(&bed, "POST", "/api/v1/runs", Some("b@x"), request).await;
    assert_eq!((status, &a["run"]), (202, &again["run"]));
    assert_ne!(a["run"], b["run"], "keys of different callers are distinct");
    let (_, shown) = send(&bed, "GET", a["links"]["run"].as_str().unwrap(), Some("b@x"), "").await;
    assert_eq!(shown["trigger"]["by"], "a@x");
}
