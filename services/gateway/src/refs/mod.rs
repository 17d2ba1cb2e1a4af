//! Pushes that nobody told of: GitHub sends a webhook once, and what gets lost is found by looking.

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
use triggers::Push;

pub use git::GitRefs;
#[cfg(feature = "gcp")]
pub use http::HttpRefs;

use crate::{Gateway, Refused, github, start};

/// How long a push may be on its way to us by itself.
const GRACE: Span = Span::from_secs(120);
/// How long a repository may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A branch or a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// `refs/heads/...` or `refs/tags/...`.
    pub name: String,
    /// What it points to.
    pub commit: String,
}

/// Where refs are read.
#[async_trait::async_trait]
pub trait Refs: Send + Sync + 'static {
    /// Branches and tags of a repository.
    ///
    /// # Errors
    /// Why they cannot be read.
    async fn list(&self, url: &str) -> Result<Vec<Ref>, String>;
}

/// The refs as they were when the repository was first looked at: they were not pushed to us.
#[derive(Default, Deserialize, Serialize)]
struct First {
    refs: BTreeMap<String, String>,
}

#[derive(Deserialize, Serialize)]
struct Noticed {
    at: Timestamp,
}

impl Gateway {
    /// Looks at the refs of every repository that names a URL, and deals with pushes that nobody told of.
    ///
    /// # Errors
    /// What may pass, after every repository had its turn.
    pub async fn look_at_refs(&self) -> Result<(), Refused> {
        let read = self.catalogue.read().await.map_err(Refused::later)?;
        let pushes = || read.workflows.values().flat_map(|entry| &entry.offered.on.push);
        let looked_at: BTreeSet<_> =
            pushes().filter_map(|on| Some((on.repository.to_ascii_lowercase(), on.url.clone()?))).collect();
        let mut result = Ok(());
        for (repository, url) in looked_at {
            let mut refs = match self.refs.list(&url).await {
                Ok(refs) => refs,
                Err(why) => {
                    warn!(repository, "its refs cannot be read: {why}");
                    result = result.and(Err(Refused::Later(format!("{repository}: {why}"))));
                    continue;
                }
            };
            refs.retain(|on| pushes().any(|push| push.concerns(&repository) && push.wants_ref(&on.name)));
            result = result.and(self.compare(&repository, &url, refs).await);
        }
        result
    }

    async fn compare(&self, repository: &str, url: &str, refs: Vec<Ref>) -> Result<(), Refused> {
        let digest = start::hex(&start::digest(&[repository, url]));
        let name = format!("pushes/first/{}.json", digest.get(..32).unwrap_or(&digest));
        let first: First = match self.store.read(&name).await.map_err(Refused::later)? {
            Some(body) => serde_json::from_slice(&body).unwrap_or_default(),
            None => {
                let seen =
                    First { refs: refs.iter().map(|on| (on.name.clone(), on.commit.clone())).collect() };
                let body = serde_json::to_vec(&seen).map_err(Refused::later)?;
                self.store.create(&name, body.into()).await.map_err(Refused::later)?;
                return Ok(());
            }
        };
        for Ref { name, commit } in refs {
            let dealt = github::mark(repository, &name, &commit);
            let old = first.refs.get(&name) == Some(&commit);
            if old || self.store.read(&dealt).await.map_err(Refused::later)?.is_some() {
                continue;
            }
            if !self.secrets.is_empty() && !self.overdue(&dealt).await? {
                continue;
            }
            let push = Push { repository: repository.to_owned(), reference: name, paths: None, bot: false };
            self.pushed(github::Known { push, commit, told_by: "a look at the refs".to_owned() }).await?;
        }
        Ok(())
    }

    /// A webhook knows more of a push than its ref does, so it has a while to come.
    async fn overdue(&self, dealt: &str) -> Result<bool, Refused> {
        let name = dealt.replacen("pushes/", "pushes/noticed/", 1);
        let now = self.clock.now();
        let body = serde_json::to_vec(&Noticed { at: now }).map_err(Refused::later)?;
        if self.store.create(&name, body.into()).await.map_err(Refused::later)? == Creation::Created {
            return Ok(false);
        }
        let body = self.store.read(&name).await.map_err(Refused::later)?.unwrap_or_default();
        Ok(serde_json::from_slice::<Noticed>(&body).is_ok_and(|noticed| now.since(noticed.at) >= GRACE))
    }
}
