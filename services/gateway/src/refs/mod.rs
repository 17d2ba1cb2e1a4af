//! Polls repositories for missed pushes: GitHub sends a webhook only once.

mod git;
#[cfg(feature = "gcp")]
mod http;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ledger::Creation;
use model::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use tracing::warn;
use triggers::PushEvent;

pub use git::GitRefs;
#[cfg(feature = "gcp")]
pub use http::HttpRefs;

use crate::{Gateway, StartError, github, start};

/// Maximum delay of a webhook; afterwards polling reports the push.
const GRACE: Span = Span::from_secs(120);
/// Timeout of reading a repository's refs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A branch or a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// `refs/heads/...` or `refs/tags/...`.
    pub name: String,
    pub commit: String,
}

#[async_trait::async_trait]
pub trait Refs: Send + Sync + 'static {
    /// Branches and tags of a repository.
    ///
    /// # Errors
    /// Returns an error with the reason if the refs cannot be read.
    async fn list(&self, url: &str) -> Result<Vec<Ref>, String>;
}

/// Refs at the first poll of a repository: they are not new pushes.
#[derive(Default, Deserialize, Serialize)]
struct First {
    refs: BTreeMap<String, String>,
}

#[derive(Deserialize, Serialize)]
struct FirstSeen {
    at: Timestamp,
}

impl Gateway {
    /// Polls every repository with a URL, and handles missed pushes.
    ///
    /// # Errors
    /// Returns an error if a repository failed temporarily, after all repositories were polled.
    pub async fn poll_refs(&self) -> Result<(), StartError> {
        let read = self.catalogue.read().await.map_err(StartError::transient)?;
        let pushes = || read.workflows.values().flat_map(|entry| &entry.offered.on.push);
        let polled: BTreeSet<_> =
            pushes().filter_map(|on| Some((on.repository.to_ascii_lowercase(), on.url.clone()?))).collect();
        let mut result = Ok(());
        for (repository, url) in polled {
            let mut refs = match self.refs.list(&url).await {
                Ok(refs) => refs,
                Err(why) => {
                    warn!(repository, "refs cannot be read: {why}");
                    result = result.and(Err(StartError::Transient(format!("{repository}: {why}"))));
                    continue;
                }
            };
            refs.retain(|on| pushes().any(|push| push.concerns(&repository) && push.wants_ref(&on.name)));
            result = result.and(self.compare(&repository, &url, refs).await);
        }
        result
    }

    async fn compare(&self, repository: &str, url: &str, refs: Vec<Ref>) -> Result<(), StartError> {
        let digest = hex::encode(start::digest(&[repository, url]));
        let name = format!("pushes/first/{}.json", digest.get(..32).unwrap_or(&digest));
        let first: First = match self.store.read(&name).await.map_err(StartError::transient)? {
            Some(body) => serde_json::from_slice(&body).unwrap_or_default(),
            None => {
                let seen =
                    First { refs: refs.iter().map(|on| (on.name.clone(), on.commit.clone())).collect() };
                self.store.create_json(&name, &seen).await.map_err(StartError::transient)?;
                return Ok(());
            }
        };
        for Ref { name, commit } in refs {
            let mark = github::mark_path(repository, &name, &commit);
            let old = first.refs.get(&name) == Some(&commit);
            if old || self.store.read(&mark).await.map_err(StartError::transient)?.is_some() {
                continue;
            }
            if !self.secrets.is_empty() && !self.overdue(&mark).await? {
                continue;
            }
            let push =
                PushEvent { repository: repository.to_owned(), reference: name, paths: None, bot: false };
            self.pushed(github::ReceivedPush { push, commit, told_by: "a poll of the refs".to_owned() })
                .await?;
        }
        Ok(())
    }

    /// Whether the webhook is overdue. A webhook is preferred because its payload contains more data than the
    /// ref.
    async fn overdue(&self, mark: &str) -> Result<bool, StartError> {
        let name = mark.replacen("pushes/", "pushes/noticed/", 1);
        let now = self.clock.now();
        if self.store.create_json(&name, &FirstSeen { at: now }).await.map_err(StartError::transient)?
            == Creation::Created
        {
            return Ok(false);
        }
        let body = self.store.read(&name).await.map_err(StartError::transient)?.unwrap_or_default();
        Ok(serde_json::from_slice::<FirstSeen>(&body).is_ok_and(|noticed| now.since(noticed.at) >= GRACE))
    }
}
