//! One build per command, despite lost responses.
//!
//! | event | consequence |
//! |---|---|
//! | the same command arrives twice concurrently | a claim in the bucket: one of them creates the build; the other is redelivered |
//! | the response to `create` is lost | the list is polled until it contains the build; until then no other build is created |
//! | the list contains the build late | the claim blocks another build for [`Timing::settle`] |
//! | the list contains the build after `settle` | a second build is created; once both are known, the older is kept and the other is cancelled |
//! | the command is cancelled before its build starts | a mark in the bucket is checked before and after `create` |
//!
//! This module does not depend on images: any service that needs one build per command can use it.

use std::{collections::BTreeMap, sync::Arc};

use google_cloud_build_v1::model::{Build, build::Status};
use ledger::Store;
use model::Span;
use service::{Clock, PortError};
use tracing::warn;

use super::{
    client::{CloudBuildClient, RequestFailure},
    journal::{Journal, JournalEntry},
    tags,
};
use crate::BuildKey;

/// Timeouts and intervals.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Timeout after which a build missing from the list is treated as never created.
    pub settle: Span,
    /// Interval between polls of the list after a lost response.
    pub pause: Span,
    /// Maximum polls of the list after a lost response, before the command must be redelivered.
    pub readings: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self { settle: Span::from_secs(120), pause: Span::from_secs(1), readings: 4 }
    }
}

/// One build per command.
#[derive(Clone)]
pub struct Submissions {
    client: CloudBuildClient,
    journal: Journal,
    clock: Arc<dyn Clock>,
    timing: Timing,
}

/// State of a command's builds, from the journal and Cloud Build's list.
#[derive(Clone, Debug)]
pub struct FoundSubmissions {
    /// The authoritative build: the oldest.
    pub build: Option<Build>,
    /// Whether a cancellation prevents further builds of the command.
    pub cancelled: bool,
    /// Whether a claim may have a build whose id is unknown.
    pub pending: bool,
    next: u32,
}

/// Outcome of submitting a command: its build, or a cancellation before the start.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// The new or existing build of the command.
    Build(Box<Build>),
    /// The command was cancelled before it started.
    Cancelled,
}

/// Whether a build has ended. An unknown status is treated as running.
pub fn ended(build: &Build) -> bool {
    use Status::{Cancelled, Expired, Failure, InternalError, Success, Timeout};
    matches!(build.status, Success | Failure | InternalError | Timeout | Cancelled | Expired)
}

impl Submissions {
    /// Creates the submissions of a client, with their journal in a bucket.
    pub fn new(
        client: CloudBuildClient,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        timing: Timing,
    ) -> Self {
        Self { client, journal: Journal::new(store), clock, timing }
    }

    /// Client of Cloud Build's API, for requests about a known build.
    pub fn client(&self) -> &CloudBuildClient {
        &self.client
    }

    /// Submits a build unless one exists. `make` receives the claim and creates the request.
    ///
    /// # Errors
    /// Returns an error if a request fails: [`PortError::Transient`] if it is not certain yet whether a build exists.
    pub async fn submit(
        &self,
        key: &BuildKey,
        make: impl FnOnce(u32) -> Result<Build, PortError>,
    ) -> Result<Submitted, PortError> {
        let submissions = self.submissions(key).await?;
        if let Some(build) = submissions.build {
            return Ok(Submitted::Build(Box::new(build)));
        }
        if submissions.cancelled {
            return Ok(Submitted::Cancelled);
        }
        if submissions.pending {
            let why = "a build was requested, and Cloud Build does not list it yet";
            return Err(PortError::Transient(format!("{key}: {why}")));
        }
        let claim = submissions.next;
        let mut build = make(claim)?;
        build.tags.extend(tags::all(key, claim));
        let now = self.clock.now();
        if !self.journal.claim(key, claim, now).await.map_err(PortError::transient)? {
            return Err(PortError::Transient(format!("{key}: another builder is creating the build")));
        }
        // A cancellation writes its mark before it reads the claims, and a builder claims before it reads the mark.
        // Therefore the cancellation finds the claim, or the builder finds the mark.
        if self.journal.cancelled(key).await.map_err(PortError::transient)? {
            self.journal.release(key, claim).await.map_err(PortError::transient)?;
            return Ok(Submitted::Cancelled);
        }
        match self.client.create(build).await {
            Ok(build) => self.created(key, claim, build).await,
            Err(RequestFailure::OutcomeUnknown(why)) => self.read_back(key, why).await,
            Err(certain) => {
                self.journal.release(key, claim).await.map_err(PortError::transient)?;
                Err(certain.into())
            }
        }
    }

    async fn created(&self, key: &BuildKey, claim: u32, build: Build) -> Result<Submitted, PortError> {
        self.journal.note(key, claim, &build.id).await.map_err(PortError::transient)?;
        if self.journal.cancelled(key).await.map_err(PortError::transient)? {
            self.client.cancel(&build.id).await?;
        }
        Ok(Submitted::Build(Box::new(build)))
    }

    async fn read_back(&self, key: &BuildKey, why: String) -> Result<Submitted, PortError> {
        warn!(command = %key, "the response to a new build was lost: {why}");
        for reading in 0..self.timing.readings {
            if reading > 0 {
                self.clock.sleep(self.timing.pause).await;
            }
            if let Some(build) = self.submissions(key).await?.build {
                return Ok(Submitted::Build(Box::new(build)));
            }
        }
        Err(PortError::Transient(format!(
            "{key}: it is unknown whether the build was created; poll before submitting it again: {why}"
        )))
    }

    /// Reads the builds and cancels surplus ones: only the oldest build continues, and no build of a cancelled command.
    ///
    /// # Errors
    /// Returns an error if a request to Cloud Build or the bucket fails.
    pub async fn submissions(&self, key: &BuildKey) -> Result<FoundSubmissions, PortError> {
        let mut noted = self.journal.read(key).await.map_err(PortError::transient)?;
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
                warn!(command = %key, kept = builds[0].id, cancelled = build.id, "one command has two builds");
            }
            if index > 0 || noted.cancelled {
                self.client.cancel(&build.id).await?;
            }
        }
        let build = builds.into_iter().next();
        Ok(FoundSubmissions {
            build,
            cancelled: noted.cancelled,
            pending: self.pending(key, &noted).await?,
            next: noted.next(),
        })
    }

    /// Adds the listed builds to the journal.
    async fn discover(
        &self,
        key: &BuildKey,
        noted: &mut JournalEntry,
        seen: &mut BTreeMap<String, Build>,
    ) -> Result<(), PortError> {
        for build in self.client.list(&tags::key_tag(key)).await? {
            let Some((owner, claim)) = tags::owner(&build) else { continue };
            if owner != *key {
                continue;
            }
            if noted.claims.entry(claim).or_default().insert(build.id.clone()) {
                self.journal.note(key, claim, &build.id).await.map_err(PortError::transient)?;
            }
            seen.insert(build.id.clone(), build);
        }
        Ok(())
    }

    async fn pending(&self, key: &BuildKey, noted: &JournalEntry) -> Result<bool, PortError> {
        let now = self.clock.now();
        for claim in noted.open() {
            let claimed = self.journal.claimed(key, claim).await.map_err(PortError::transient)?;
            if claimed.is_none_or(|then| now.since(then) < self.timing.settle) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a build from a notification to the journal, if its tags match. The list may not contain it yet.
    ///
    /// # Errors
    /// Returns an error if a request to Cloud Build or the bucket fails.
    pub async fn on_notification(&self, key: &BuildKey, build: &str) -> Result<(), PortError> {
        if self.journal.read(key).await.map_err(PortError::transient)?.builds().contains(build) {
            return Ok(());
        }
        let Some(found) = self.client.get(build).await? else { return Ok(()) };
        match tags::owner(&found) {
            Some((owner, claim)) if owner == *key => {
                self.journal.note(key, claim, build).await.map_err(PortError::transient)
            }
            _ => Ok(()),
        }
    }

    /// Prevents further builds and cancels existing ones.
    ///
    /// # Errors
    /// Returns an error if a request to Cloud Build or the bucket fails.
    pub async fn cancel(&self, key: &BuildKey) -> Result<(), PortError> {
        self.journal.cancel(key).await.map_err(PortError::transient)?;
        self.submissions(key).await.map(drop)
    }
}

/// Sort key: oldest first, with a deterministic order for equal times.
fn age(build: &Build) -> (i64, i32, String) {
    let created = build.create_time.as_ref();
    let seconds = created.map_or(i64::MAX, |time| time.seconds());
    (seconds, created.map_or(0, |time| time.nanos()), build.id.clone())
}
