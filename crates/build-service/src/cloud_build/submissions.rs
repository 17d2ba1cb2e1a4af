//! One build for each command, whatever gets lost on the way.
//!
//! | what may happen | what holds |
//! |---|---|
//! | the same command twice at once | a claim in the bucket: one of them creates, the other comes again |
//! | the answer to `create` is lost | the list is read until it shows the build; until then nobody creates another |
//! | the list shows it late | the claim stands for it, for [`Timing::settle`] |
//! | later still | a second build is created; when both are known the older is kept, the other cancelled |
//! | cancelled before it began | a mark in the bucket, looked for before and after `create` |
//!
//! Nothing here knows of images: whoever needs one build for each of their commands can use it.

use std::{collections::BTreeMap, sync::Arc};

use google_cloud_build_v1::model::{Build, build::Status};
use ledger::Store;
use model::Span;
use service::{Clock, PortError};
use tracing::warn;

use super::{
    client::{Client, Refusal},
    journal::{Journal, Noted},
    tags,
};
use crate::Key;

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// After this a build that the list does not show does not exist.
    pub settle: Span,
    /// Between two readings of the list after a lost answer.
    pub pause: Span,
    /// How often the list is read after a lost answer before the command has to come again.
    pub readings: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self { settle: Span::from_secs(120), pause: Span::from_secs(1), readings: 4 }
    }
}

/// One build for each command.
#[derive(Clone)]
pub struct Submissions {
    client: Client,
    journal: Journal,
    clock: Arc<dyn Clock>,
    timing: Timing,
}

/// What is known of a command's builds.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The one that counts: the oldest.
    pub build: Option<Build>,
    /// None may begin any more.
    pub cancelled: bool,
    /// One may have been created that nobody has seen yet.
    pub pending: bool,
    next: u32,
}

/// What became of a submission.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// This build is the command's.
    Build(Box<Build>),
    /// It was cancelled before it began.
    Cancelled,
}

/// A build that will change no more. A status that nobody here knows is one on the way.
pub fn ended(build: &Build) -> bool {
    use Status::{Cancelled, Expired, Failure, InternalError, Success, Timeout};
    matches!(build.status, Success | Failure | InternalError | Timeout | Cancelled | Expired)
}

impl Submissions {
    /// On a client, with a journal in a bucket.
    pub fn new(client: Client, store: Arc<dyn Store>, clock: Arc<dyn Clock>, timing: Timing) -> Self {
        Self { client, journal: Journal::new(store), clock, timing }
    }

    /// The client it uses.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Submits a build unless there is one. `make` is given the claim, and makes what is to be created.
    ///
    /// # Errors
    /// [`PortError::Passing`] when it is not certain yet whether there is one.
    pub async fn submit(
        &self,
        key: &Key,
        make: impl FnOnce(u32) -> Result<Build, PortError>,
    ) -> Result<Submitted, PortError> {
        let survey = self.survey(key).await?;
        if let Some(build) = survey.build {
            return Ok(Submitted::Build(Box::new(build)));
        }
        if survey.cancelled {
            return Ok(Submitted::Cancelled);
        }
        if survey.pending {
            let why = "a build was asked for, and Cloud Build does not show it yet";
            return Err(PortError::Passing(format!("{key}: {why}")));
        }
        let claim = survey.next;
        let mut build = make(claim)?;
        build.tags.extend(tags::all(key, claim));
        let now = self.clock.now();
        if !self.journal.claim(key, claim, now).await.map_err(PortError::passing)? {
            return Err(PortError::Passing(format!("{key}: another builder is about to create it")));
        }
        // Whoever cancels leaves the mark first and reads the claims then: one of us sees the other.
        if self.journal.cancelled(key).await.map_err(PortError::passing)? {
            self.journal.release(key, claim).await.map_err(PortError::passing)?;
            return Ok(Submitted::Cancelled);
        }
        match self.client.create(build).await {
            Ok(build) => self.created(key, claim, build).await,
            Err(Refusal::Unclear(why)) => self.read_back(key, why).await,
            Err(certain) => {
                self.journal.release(key, claim).await.map_err(PortError::passing)?;
                Err(certain.into())
            }
        }
    }

    async fn created(&self, key: &Key, claim: u32, build: Build) -> Result<Submitted, PortError> {
        self.journal.note(key, claim, &build.id).await.map_err(PortError::passing)?;
        if self.journal.cancelled(key).await.map_err(PortError::passing)? {
            self.client.cancel(&build.id).await?;
        }
        Ok(Submitted::Build(Box::new(build)))
    }

    async fn read_back(&self, key: &Key, why: String) -> Result<Submitted, PortError> {
        warn!(command = %key, "the answer to a new build was lost: {why}");
        for reading in 0..self.timing.readings {
            if reading > 0 {
                self.clock.sleep(self.timing.pause).await;
            }
            if let Some(build) = self.survey(key).await?.build {
                return Ok(Submitted::Build(Box::new(build)));
            }
        }
        Err(PortError::Passing(format!("{key}: it is not certain whether the build was created: {why}")))
    }

    /// Looks at what there is, and mends it: of several builds the oldest stays, of a cancelled command none goes on.
    ///
    /// # Errors
    /// When Cloud Build or the bucket does not answer.
    pub async fn survey(&self, key: &Key) -> Result<Survey, PortError> {
        let mut noted = self.journal.read(key).await.map_err(PortError::passing)?;
        let mut seen = BTreeMap::new();
        if noted.open().next().is_some() {
            self.discover(key, &mut noted, &mut seen).await?;
        }
        for build in noted.builds() {
            if !seen.contains_key(&build)
                && let Some(found) = self.client.get(&build).await?
            {
                seen.insert(build, found);
            }
        }
        let mut builds: Vec<_> = seen.into_values().collect();
        builds.sort_by_key(age);
        for (index, build) in builds.iter().enumerate().filter(|(_, build)| !ended(build)) {
            if index > 0 {
                warn!(command = %key, kept = builds[0].id, cancelled = build.id, "one command, two builds");
            }
            if index > 0 || noted.cancelled {
                self.client.cancel(&build.id).await?;
            }
        }
        let build = builds.into_iter().next();
        Ok(Survey {
            build,
            cancelled: noted.cancelled,
            pending: self.pending(key, &noted).await?,
            next: noted.next(),
        })
    }

    /// Brings what the list shows into the journal.
    async fn discover(
        &self,
        key: &Key,
        noted: &mut Noted,
        seen: &mut BTreeMap<String, Build>,
    ) -> Result<(), PortError> {
        for build in self.client.list(&tags::wish(key)).await? {
            let Some((owner, claim)) = tags::owner(&build) else { continue };
            if owner != *key {
                continue;
            }
            if noted.claims.entry(claim).or_default().insert(build.id.clone()) {
                self.journal.note(key, claim, &build.id).await.map_err(PortError::passing)?;
            }
            seen.insert(build.id.clone(), build);
        }
        Ok(())
    }

    async fn pending(&self, key: &Key, noted: &Noted) -> Result<bool, PortError> {
        let now = self.clock.now();
        for claim in noted.open() {
            let claimed = self.journal.claimed(key, claim).await.map_err(PortError::passing)?;
            if claimed.is_none_or(|then| now.since(then) < self.timing.settle) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a build into the journal that a notification told of, if it is what it says. Its own list may be behind.
    ///
    /// # Errors
    /// When Cloud Build or the bucket does not answer.
    pub async fn told_of(&self, key: &Key, build: &str) -> Result<(), PortError> {
        if self.journal.read(key).await.map_err(PortError::passing)?.builds().contains(build) {
            return Ok(());
        }
        let Some(found) = self.client.get(build).await? else { return Ok(()) };
        match tags::owner(&found) {
            Some((owner, claim)) if owner == *key => {
                self.journal.note(key, claim, build).await.map_err(PortError::passing)
            }
            _ => Ok(()),
        }
    }

    /// None may begin any more, and what is there is asked to end.
    ///
    /// # Errors
    /// When Cloud Build or the bucket does not answer.
    pub async fn cancel(&self, key: &Key) -> Result<(), PortError> {
        self.journal.cancel(key).await.map_err(PortError::passing)?;
        self.survey(key).await.map(drop)
    }
}

/// Oldest first; of two of the same moment the same one everywhere.
fn age(build: &Build) -> (i64, i32, String) {
    let created = build.create_time.as_ref();
    let seconds = created.map_or(i64::MAX, |time| time.seconds());
    (seconds, created.map_or(0, |time| time.nanos()), build.id.clone())
}
