//! Pushes, as GitHub tells them.

use std::{str::FromStr, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Sha256;
use terms::{EventKey, Origin, RunId, Trigger};
use tracing::{error, info, warn};
use triggers::Push;

use crate::{Gateway, Refused, Wish, api::Problem, start};

/// Where GitHub's webhooks come.
pub(crate) const PATH: &str = "/hooks/github";
/// GitHub sends no more.
const BODY_LIMIT: usize = 25 << 20;
/// GitHub lists no more; those that it leaves out may change anything.
const MOST_COMMITS: usize = 2048;

/// With what GitHub signs. Two of them while one is being replaced by another; they are never shown.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl FromStr for Secrets {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let secrets: Vec<_> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if secrets.iter().any(|secret| secret.len() < 16) {
            return Err("expected secrets of at least 16 characters, one a line");
        }
        Ok(Self(secrets))
    }
}

impl Secrets {
    /// Nobody can sign.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of the secrets made this signature, `sha256=` and hex, of these bytes.
    fn made(&self, signature: &str, body: &[u8]) -> bool {
        let Some(signature) = signature.strip_prefix("sha256=").and_then(bytes) else { return false };
        let made = |secret: &String| {
            let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
            mac.is_ok_and(|mut mac| {
                mac.update(body);
                mac.verify_slice(&signature).is_ok() // in constant time
            })
        };
        self.0.iter().any(made)
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

#[derive(Deserialize)]
struct Told {
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
    repository: Repository,
    #[serde(default)]
    sender: Option<Sender>,
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
struct Repository {
    full_name: String,
}

#[derive(Deserialize)]
struct Sender {
    login: String,
    #[serde(default, rename = "type")]
    kind: String,
}

impl Told {
    /// Files that the push changes; none where that cannot be known: a new branch, a rewritten one, or too much.
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

/// A push that became known.
pub(crate) struct Known {
    pub push: Push,
    pub commit: String,
    /// Who told it.
    pub told_by: String,
}

/// What became of a push, as it is kept.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Dealt {
    pub repository: String,
    pub reference: String,
    pub commit: String,
    pub told_by: String,
    pub runs: Vec<RunId>,
    pub refused: Vec<String>,
}

pub(crate) fn route(gateway: &Arc<Gateway>) -> Router {
    Router::new()
        .route(PATH, post(hook))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(Arc::clone(gateway))
}

async fn hook(State(gateway): State<Arc<Gateway>>, headers: HeaderMap, body: Bytes) -> Response {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !gateway.rates.lets(&"github".to_owned(), &Method::GET) {
        return Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many deliveries").into_response();
    }
    if !gateway.secrets.made(said("x-hub-signature-256"), &body) {
        warn!(delivery = said("x-github-delivery"), "a webhook that nobody signed is not let in");
        let why = "X-Hub-Signature-256 is not made with the secret of this webhook";
        return Problem::new(StatusCode::UNAUTHORIZED, why).into_response();
    }
    match said("x-github-event") {
        "ping" => return StatusCode::NO_CONTENT.into_response(),
        "push" => {}
        // The webhook was told to send more than is used.
        _ => return StatusCode::NO_CONTENT.into_response(),
    }
    let told: Told = match serde_json::from_slice(&body) {
        Ok(told) => told,
        Err(error) => {
            let why = format!("the payload is no push: {error}; the webhook must send application/json");
            return Problem::new(StatusCode::BAD_REQUEST, why).into_response();
        }
    };
    if told.deleted || told.after.bytes().all(|byte| byte == b'0') {
        return StatusCode::NO_CONTENT.into_response();
    }
    if !is_commit(&told.after) {
        return Problem::new(StatusCode::BAD_REQUEST, "after: expected a commit, in hex").into_response();
    }
    let (paths, bot) = (told.paths(), told.bot());
    let push = Push { repository: told.repository.full_name, reference: told.reference, paths, bot };
    let told_by = format!("delivery {}", said("x-github-delivery").chars().take(80).collect::<String>());
    match gateway.pushed(Known { push, commit: told.after, told_by }).await {
        Ok(dealt) => (StatusCode::ACCEPTED, Json(json!({"runs": dealt.runs, "refused": dealt.refused})))
            .into_response(),
        Err(refused) => Problem::from(refused).into_response(),
    }
}

impl Gateway {
    /// Starts what a push starts, once for each repository, ref and commit.
    pub(crate) async fn pushed(&self, known: Known) -> Result<Dealt, Refused> {
        let Known { push, commit, told_by } = known;
        if !is_commit(&commit) {
            return Err(Refused::Later(format!("`{commit}` is no commit")));
        }
        let mark = mark(&push.repository, &push.reference, &commit);
        if let Some(body) = self.store.read(&mark).await.map_err(Refused::later)? {
            return Ok(serde_json::from_slice(&body).unwrap_or_default());
        }
        let mut dealt = Dealt {
            repository: push.repository.clone(),
            reference: push.reference.clone(),
            commit: commit.clone(),
            told_by,
            ..Dealt::default()
        };
        let short = commit.get(..12).unwrap_or(&commit);
        let read = self.catalogue.read().await.map_err(Refused::later)?;
        for (name, entry) in &read.workflows {
            if !entry.offered.on.push.iter().any(|on| on.wants(&push)) {
                continue;
            }
            let id = [push.repository.to_ascii_lowercase().as_str(), &push.reference, &commit].join(" ");
            let wish = Wish {
                key: EventKey { source: "//burnin/pushes".to_owned(), id },
                workflow: name.clone(),
                set: Default::default(),
                image: None,
                cluster: None,
                trigger: Trigger {
                    kind: "push".to_owned(),
                    by: format!("{} {} {short}", push.repository, push.reference),
                },
                origin: Some(Origin::Push(terms::Push {
                    repository: push.repository.clone(),
                    reference: push.reference.clone(),
                    commit: commit.clone(),
                })),
            };
            match self.starter.start(&wish).await {
                Ok(started) => dealt.runs.push(started.run),
                Err(refused) if refused.is_final() => {
                    error!(workflow = name, commit, "a push starts no run: {refused}");
                    dealt.refused.push(format!("{name}: {refused}"));
                }
                Err(later) => return Err(later),
            }
        }
        info!(
            repository = push.repository,
            reference = push.reference,
            commit,
            runs = dealt.runs.len(),
            "pushed"
        );
        // The mark last: whatever happens before it, the push is dealt with again, and its runs are the same.
        let body = serde_json::to_vec(&dealt).map_err(Refused::later)?;
        self.store.create(&mark, body.into()).await.map_err(Refused::later)?;
        Ok(dealt)
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where it is noted that a push was dealt with.
pub(crate) fn mark(repository: &str, reference: &str, commit: &str) -> String {
    let digest = start::digest(&[&repository.to_ascii_lowercase(), reference, commit]);
    format!("pushes/{}.json", start::hex(&digest).get(..32).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_of_githubs_own_example_is_good_and_no_other() {
        let secrets: Secrets = "another one, still in use\nIt's a Secret to Everybody\n".parse().unwrap();
        let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert!(secrets.made(good, b"Hello, World!"));
        assert!(!secrets.made(good, b"Hello, World"));
        assert!(!secrets.made(&good.replace("17", "18"), b"Hello, World!"));
        for bad in ["", "sha256=", "sha1=75", "sha256=zz", "sha256=7", "sha256=é0", &good[..good.len() - 2]]
        {
            assert!(!secrets.made(bad, b"Hello, World!"), "{bad}");
        }
        assert!(!Secrets::default().made(good, b"Hello, World!"));
        assert!("short".parse::<Secrets>().is_err());
    }
}
