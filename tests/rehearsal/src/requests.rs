//! Requests for runs, as callers send them: by the API, a message and a push.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    cloud_run::{BY_PROXY, Invocation, RequestOrigin},
    deployment::{Failed, Rehearsal, WEBHOOK_SECRET},
    grants::Resource,
    members,
    methods::permission,
    plan::PROJECT,
    tokens::{GCLOUD, GOOGLE},
};

/// Calls the gateway as an operator, with the token of `gcloud auth print-identity-token`.
pub async fn operator(rehearsal: &Rehearsal, request: Invocation<'_>) -> (u16, String) {
    let token = GOOGLE.token(members::OPERATOR_EMAIL, GCLOUD);
    rehearsal.cloud_run.invoke(RequestOrigin::Internet, Some(&token), "burnin-gateway", request).await
}

/// Sends a request to the gateway's API as the operator.
///
/// # Errors
/// Returns an error if the response has no status of success or no JSON.
pub async fn api(
    rehearsal: &Rehearsal,
    method: &str,
    path: &str,
    key: &str,
    body: &Value,
) -> Result<Value, Failed> {
    let headers = vec![("content-type", "application/json".to_owned()), ("idempotency-key", key.to_owned())];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
    let request = Invocation { method, path, headers, body };
    let (status, text) = operator(rehearsal, request).await;
    if !(200..300).contains(&status) {
        return Err(format!("{method} {path}: {status}: {text}"));
    }
    serde_json::from_str(&text).map_err(|error| format!("{method} {path}: {error}: {text}"))
}

/// Sends a request as a page of this site in a browser does: through the proxy of the user, which adds the user's token. Returns status
/// and body. `site` is the browser's `Sec-Fetch-Site`.
pub async fn browser(
    rehearsal: &Rehearsal,
    email: &str,
    site: &str,
    (method, path): (&str, &str),
    body: &Value,
) -> (u16, String) {
    let token = format!("Bearer {}", GOOGLE.token(email, GCLOUD));
    let headers = vec![
        (BY_PROXY, token),
        ("sec-fetch-site", site.to_owned()),
        ("content-type", "application/json".to_owned()),
    ];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
    let request = Invocation { method, path, headers, body };
    // A program may forward another token in `Authorization`, which must not change the identity.
    let other = GOOGLE.token("eve@example.com", GCLOUD);
    rehearsal.cloud_run.invoke(RequestOrigin::Internet, Some(&other), "burnin-gateway", request).await
}

/// Publishes a run request on the gateway's topic, with the requester's account.
///
/// # Errors
/// Returns an error if the requester may not publish.
pub fn message(rehearsal: &Rehearsal, workflow: &str, id: &str) -> Result<(), Failed> {
    let topic = format!("projects/{PROJECT}/topics/burnin-gateway");
    rehearsal
        .iam
        .check(members::REQUESTER, permission("pubsub.projects.topics.publish"), &Resource::topic(&topic))
        .map_err(|denial| denial.to_string())?;
    let attributes = [
        ("ce-specversion", "1.0"),
        ("ce-type", "dev.burnin.run.request.v1"),
        ("ce-source", "//rehearsal"),
        ("ce-id", id),
        ("content-type", "application/json"),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let data = json!({"workflow": workflow}).to_string().into();
    rehearsal.broker.publish(
        &topic,
        pubsub_standin::PubsubMessage { data, attributes, ..pubsub_standin::PubsubMessage::default() },
    );
    Ok(())
}

/// The commit of push number `number`.
pub fn commit(number: usize) -> String {
    format!("{number:0>8x}{}", "b".repeat(32))
}

/// Delivers a signed GitHub push webhook.
///
/// # Errors
/// Returns an error if the response has no status of success.
pub async fn push(rehearsal: &Rehearsal, number: usize, delivery: &str) -> Result<(), Failed> {
    let commit = commit(number);
    let body = json!({
        "ref": "refs/heads/main", "before": "a".repeat(40), "after": commit, "created": false, "deleted": false, "forced": false,
        "commits": [{"id": commit, "added": [], "removed": [], "modified": ["build.yaml"]}],
        "head_commit": {"id": commit}, "repository": {"id": 1, "full_name": "acme/images"},
        "pusher": {"name": "a"}, "sender": {"login": "a", "id": 1, "type": "User"},
    })
    .to_string();
    let mut mac =
        Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).map_err(|error| error.to_string())?;
    mac.update(body.as_bytes());
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("x-github-event", "push".to_owned()),
        ("x-github-delivery", delivery.to_owned()),
        ("x-hub-signature-256", format!("sha256={}", hex::encode(mac.finalize().into_bytes()))),
    ];
    let request = Invocation { method: "POST", path: "/hooks/github", headers, body: body.into() };
    match rehearsal.cloud_run.invoke(RequestOrigin::Internet, None, "burnin-hooks", request).await {
        (200..300, _) => Ok(()),
        (status, text) => Err(format!("the webhook: {status}: {text}")),
    }
}
