//! Pushes reported by GitHub's webhooks.

use std::{str::FromStr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, header::CONTENT_LENGTH},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::BytesMut;
use futures::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use model::{EventKey, Origin, RunId, Trigger};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Sha256;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{error, info, warn};
use triggers::PushEvent;

use crate::{Gateway, StartError, StartRequest, api::ApiProblem, start};

pub(crate) const PATH: &str = "/hooks/github";
/// GitHub's maximum payload, bytes.
const BODY_LIMIT: usize = 25 << 20;
/// Maximum total bytes of bodies with unchecked signatures: such a body may come from any caller.
const MAX_UNVERIFIED_BYTES: usize = 2 * BODY_LIMIT;
/// GitHub's timeout of a delivery.
const DELIVERY: Duration = Duration::from_secs(10);
/// GitHub's maximum number of listed commits; a push that omits commits may change any file.
const MOST_COMMITS: usize = 2048;

/// Webhook secrets: two secrets during a rotation. They are never printed.
#[derive(Clone, Default)]
pub struct WebhookSecrets(Vec<String>);

impl FromStr for WebhookSecrets {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let secrets: Vec<_> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if secrets.iter().any(|secret| secret.len() < 16) {
            return Err("expected secrets of at least 16 characters, one per line");
        }
        Ok(Self(secrets))
    }
}

impl WebhookSecrets {
    /// Whether no secret is set: without a secret every webhook is refused.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is the signature of the body by one of the secrets.
    fn verify(&self, signature: &[u8], body: &[u8]) -> bool {
        let matches = |secret: &String| {
            let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
            mac.is_ok_and(|mut mac| {
                mac.update(body);
                mac.verify_slice(signature).is_ok() // compares in constant time
            })
        };
        self.0.iter().any(matches)
    }
}

/// Parses `sha256=` and 64 hex digits.
fn signature(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("sha256=").filter(|digits| digits.len() == 64)?;
    hex::decode(digits).ok()
}

#[derive(Deserialize)]
struct PushPayload {
    #[serde(rename = "ref")]
    reference: String,
    after: String,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    forced: bool,
    #[serde(default)]
    created: bool,
    #[serde(default)]
    commits: Vec<Commit>,
    repository: PushedRepository,
    #[serde(default)]
    sender: Option<GithubUser>,
}

#[derive(Deserialize)]
struct Commit {
    #[serde(default)]
    added: Vec<String>,
    #[serde(default)]
    removed: Vec<String>,
    #[serde(default)]
    modified: Vec<String>,
}

#[derive(Deserialize)]
struct PushedRepository {
    full_name: String,
}

#[derive(Deserialize)]
struct GithubUser {
    login: String,
    #[serde(default, rename = "type")]
    kind: String,
}

impl PushPayload {
    /// Files changed by the push; `None` if unknown: a new or rewritten branch, or more commits than GitHub lists.
    fn paths(&self) -> Option<Vec<String>> {
        if self.forced || self.created || self.commits.len() >= MOST_COMMITS {
            return None;
        }
        let files = self.commits.iter().flat_map(|commit| [&commit.added, &commit.removed, &commit.modified]);
        Some(files.flatten().cloned().collect())
    }

    fn bot(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.kind == "Bot" || sender.login.ends_with("[bot]"))
    }
}

/// A push from a webhook or from polling.
pub(crate) struct ReceivedPush {
    pub push: PushEvent,
    pub commit: String,
    /// Source of the push, for the log.
    pub told_by: String,
}

/// Stored result of a push.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct RecordedPush {
    pub repository: String,
    pub reference: String,
    pub commit: String,
    pub told_by: String,
    pub runs: Vec<RunId>,
    pub refused: Vec<String>,
}

pub(crate) fn route(gateway: &Arc<Gateway>) -> Router {
    Router::new().route(PATH, post(hook)).with_state(Arc::clone(gateway))
}

/// Memory budget for payloads whose signatures are not verified yet.
pub(crate) struct UnverifiedBodies(Semaphore);

impl Default for UnverifiedBodies {
    fn default() -> Self {
        Self(Semaphore::new(MAX_UNVERIFIED_BYTES))
    }
}

/// Reason why a body was not read.
#[derive(Debug, PartialEq, Eq)]
enum ReadFailure {
    TooLarge,
    TooSlow,
    Broken,
    /// The bodies of other requests already use the maximum memory.
    Full,
}

impl UnverifiedBodies {
    /// Reads a body. Bytes count on arrival: a length that is only announced reserves no memory.
    async fn read(
        &self,
        body: Body,
        announced: Option<usize>,
    ) -> Result<(Bytes, SemaphorePermit<'_>), ReadFailure> {
        if announced.is_some_and(|length| length > BODY_LIMIT) {
            return Err(ReadFailure::TooLarge);
        }
        let reading = async {
            let (mut frames, mut read) = (body.into_data_stream(), BytesMut::new());
            let mut held = self.0.try_acquire_many(0).map_err(|_| ReadFailure::Full)?;
            while let Some(frame) = frames.next().await {
                let frame = frame.map_err(|_| ReadFailure::Broken)?;
                if read.len() + frame.len() > BODY_LIMIT {
                    return Err(ReadFailure::TooLarge);
                }
                let count = u32::try_from(frame.len()).map_err(|_| ReadFailure::TooLarge)?;
                held.merge(self.0.try_acquire_many(count).map_err(|_| ReadFailure::Full)?);
                read.extend_from_slice(&frame);
            }
            Ok((read.freeze(), held))
        };
        tokio::time::timeout(DELIVERY, reading).await.unwrap_or(Err(ReadFailure::TooSlow))
    }
}

async fn hook(State(gateway): State<Arc<Gateway>>, headers: HeaderMap, body: Body) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let problem = |status, why: &str| ApiProblem::new(status, why).into_response();
    // Check for the signature header first: without it the body is not read.
    let Some(signature) = signature(header("x-hub-signature-256")) else {
        warn!(delivery = header("x-github-delivery"), "webhook refused: no signature");
        return problem(StatusCode::UNAUTHORIZED, "X-Hub-Signature-256: expected sha256= and 64 hex digits");
    };
    let announced = header(CONTENT_LENGTH.as_str()).parse().ok();
    let read = gateway.unverified_bodies.read(body, announced).await;
    let body = match read {
        Ok((body, held)) => {
            if !gateway.secrets.verify(&signature, &body) {
                warn!(delivery = header("x-github-delivery"), "webhook refused: wrong signature");
                let why = "X-Hub-Signature-256 does not match the secret of this webhook";
                return problem(StatusCode::UNAUTHORIZED, why);
            }
            drop(held);
            body
        }
        Err(ReadFailure::TooLarge) => {
            return problem(StatusCode::PAYLOAD_TOO_LARGE, "the body exceeds 25 MiB, GitHub's maximum");
        }
        Err(ReadFailure::TooSlow) => {
            return problem(StatusCode::REQUEST_TIMEOUT, "the body took longer than 10 s; redeliver");
        }
        Err(ReadFailure::Broken) => {
            return problem(StatusCode::BAD_REQUEST, "the body is incomplete; redeliver");
        }
        Err(ReadFailure::Full) => {
            warn!(
                delivery = header("x-github-delivery"),
                "webhook refused temporarily: bodies with unchecked signatures use the maximum of 50 MiB"
            );
            return problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "concurrent deliveries use the maximum of 50 MiB; redeliver later",
            );
        }
    };
    // Count after the signature check: unsigned requests must not use up GitHub's rate.
    if !gateway.rates.allows(&"github".to_owned(), &Method::GET) {
        return problem(StatusCode::TOO_MANY_REQUESTS, "deliveries exceed the maximum rate; redeliver later");
    }
    match header("x-github-event") {
        "ping" => return StatusCode::NO_CONTENT.into_response(),
        "push" => {}
        // The webhook is configured to send more event types than are used.
        _ => return StatusCode::NO_CONTENT.into_response(),
    }
    let payload: PushPayload = match serde_json::from_slice(&body) {
        Ok(payload) => payload,
        Err(error) => {
            let why = format!(
                "the payload is not a push: {error}; set the webhook's content type to application/json"
            );
            return ApiProblem::new(StatusCode::BAD_REQUEST, why).into_response();
        }
    };
    if payload.deleted || payload.after.bytes().all(|byte| byte == b'0') {
        return StatusCode::NO_CONTENT.into_response();
    }
    if !is_commit(&payload.after) {
        let found: String = payload.after.chars().take(80).collect();
        let why = format!("after: expected a commit, in hex, found {found:?}");
        return ApiProblem::new(StatusCode::BAD_REQUEST, why).into_response();
    }
    let (paths, bot) = (payload.paths(), payload.bot());
    let push =
        PushEvent { repository: payload.repository.full_name, reference: payload.reference, paths, bot };
    let told_by = format!("delivery {}", header("x-github-delivery").chars().take(80).collect::<String>());
    match gateway.pushed(ReceivedPush { push, commit: payload.after, told_by }).await {
        Ok(push_record) => {
            (StatusCode::ACCEPTED, Json(json!({"runs": push_record.runs, "refused": push_record.refused})))
                .into_response()
        }
        Err(refused) => ApiProblem::from(refused).into_response(),
    }
}

impl Gateway {
    /// Starts the workflows of a push, once for each repository, ref and commit.
    pub(crate) async fn pushed(&self, known: ReceivedPush) -> Result<RecordedPush, StartError> {
        let ReceivedPush { push, commit, told_by } = known;
        if !is_commit(&commit) {
            return Err(StartError::Transient(format!("`{commit}` is not a commit")));
        }
        let mark = mark_path(&push.repository, &push.reference, &commit);
        if let Some(body) = self.store.read(&mark).await.map_err(StartError::transient)? {
            return Ok(serde_json::from_slice(&body).unwrap_or_default());
        }
        let mut push_record = RecordedPush {
            repository: push.repository.clone(),
            reference: push.reference.clone(),
            commit: commit.clone(),
            told_by,
            ..RecordedPush::default()
        };
        let short = commit.get(..12).unwrap_or(&commit);
        let read = self.catalogue.read().await.map_err(StartError::transient)?;
        for (name, entry) in &read.workflows {
            if !entry.offered.on.push.iter().any(|on| on.wants(&push)) {
                continue;
            }
            let id = [push.repository.to_ascii_lowercase().as_str(), &push.reference, &commit].join(" ");
            let request = StartRequest {
                key: EventKey { source: "//burnin/pushes".to_owned(), id },
                workflow: name.clone(),
                set: Default::default(),
                image: None,
                cluster: None,
                trigger: Trigger {
                    kind: "push".to_owned(),
                    by: format!("{} {} {short}", push.repository, push.reference),
                },
                origin: Some(Origin::Push(model::Push {
                    repository: push.repository.clone(),
                    reference: push.reference.clone(),
                    commit: commit.clone(),
                })),
            };
            match self.starter.start(&request).await {
                Ok(started) => push_record.runs.push(started.run),
                Err(refused) if refused.is_permanent() => {
                    error!(workflow = name, commit, "the push starts no run: {refused}");
                    push_record.refused.push(format!("{name}: {refused}"));
                }
                Err(later) => return Err(later),
            }
        }
        info!(
            repository = push.repository,
            reference = push.reference,
            commit,
            runs = push_record.runs.len(),
            "pushed"
        );
        // Write the mark last: after a crash the push is handled again with the same runs.
        self.store.create_json(&mark, &push_record).await.map_err(StartError::transient)?;
        Ok(push_record)
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Object that marks a push as handled.
pub(crate) fn mark_path(repository: &str, reference: &str, commit: &str) -> String {
    let digest = start::digest(&[&repository.to_ascii_lowercase(), reference, commit]);
    format!("pushes/{}.json", hex::encode(&digest).get(..32).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_signature_of_githubs_example_is_valid() {
        let secrets: WebhookSecrets =
            "another one, still in use\nIt's a Secret to Everybody\n".parse().unwrap();
        let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let verifies = |text: &str, body: &[u8]| {
            signature(text).is_some_and(|signature| secrets.verify(&signature, body))
        };
        assert!(verifies(good, b"Hello, World!"));
        assert!(!verifies(good, b"Hello, World"));
        assert!(!verifies(&good.replace("17", "18"), b"Hello, World!"));
        for bad in ["", "sha256=", "sha1=75", "sha256=zz", "sha256=7", "sha256=é0", &good[..good.len() - 2]]
        {
            assert!(signature(bad).is_none(), "{bad}");
        }
        let zz = format!("sha256={}", "zz".repeat(32));
        assert!(signature(&zz).is_none());
        assert!(!WebhookSecrets::default().verify(&signature(good).unwrap(), b"Hello, World!"));
        assert!("short".parse::<WebhookSecrets>().is_err());
    }

    /// A body that never ends: `count` parts of 1 MiB, and then no further data.
    fn unfinished(count: usize) -> Body {
        let parts =
            futures::stream::iter(vec![
                Ok::<_, std::convert::Infallible>(Bytes::from(vec![0; 1 << 20]));
                count
            ]);
        Body::from_stream(parts.chain(futures::stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn unverified_bodies_are_limited_in_total_size_and_time() {
        let unchecked = Arc::new(UnverifiedBodies::default());
        let read = async |body: Body| unchecked.read(body, None).await.map(|(body, _)| body.len());
        let small = async || read(Body::from("{}")).await;
        let senders: Vec<_> = (0..60)
            .map(|_| {
                let unchecked = Arc::clone(&unchecked);
                tokio::spawn(async move { unchecked.read(unfinished(20), None).await.map(drop).unwrap_err() })
            })
            .collect();
        let mut full = 0;
        for sender in senders {
            match sender.await.unwrap() {
                ReadFailure::Full => full += 1,
                why => assert_eq!(why, ReadFailure::TooSlow),
            }
        }
        assert_eq!(full, 58, "two bodies of 20 MiB are in memory at a time");
        assert_eq!(small().await, Ok(2), "the reserved bytes are released");
        assert_eq!(read(unfinished(26)).await, Err(ReadFailure::TooLarge));
        assert_eq!(unchecked.read(unfinished(0), Some(26 << 20)).await.map(drop), Err(ReadFailure::TooLarge));
        assert_eq!(unchecked.0.available_permits(), MAX_UNVERIFIED_BYTES);
    }
}
