//! Runs builds in Cloud Build, with the same configs as local builds.
//!
//! | module | responsibility |
//! |---|---|
//! | [`client`] | API requests and the interpretation of responses |
//! | [`journal`] | records of a command's builds, in the bucket |
//! | [`submissions`] | one build per command, despite lost responses |
//! | [`mod@translate`] | converts a config to the API's build |
//! | [`notification`] | messages of the topic `cloud-builds` |
//! | [`outcome`] | meaning of a status, and results of a build |
//!
//! Only this module and [`outcome`] depend on the kind of a build's results.

pub mod client;
pub mod journal;
pub mod notification;
pub mod outcome;
pub mod submissions;
pub mod tags;
pub mod translate;

use std::{io::Write, sync::Arc};

use ::model::{BuildSpec, Class, Failure, FileDigest, Image, ManifestObject, Span};
use cloudbuild::BuildStatus;
use flate2::{Compression, GzBuilder};
use futures::{StreamExt, TryStreamExt, stream};
use google_cloud_build_v1::model;
use ledger::{Artefacts, Committed, Digest, ObjectReader, Store};
use service::{Clock, PortError};
use tokio::io::AsyncReadExt;
use tracing::warn;

use crate::{
    files::{QUOTED_LINES, content, refuse_reserved},
    port::{BuildKey, BuildPhase, Builds},
    redacted::Redacted,
};
use client::CloudBuildClient;
use submissions::{Submissions, Submitted, Timing};
use translate::{BuildContext, translate};

/// Maximum number of a build's files that are copied at the same time: the copies happen within one request.
const COPIES: usize = 8;
/// Maximum bytes of a log that are read to find its last lines.
const LOG_READ: u64 = 64 << 20;

/// Builds in Cloud Build. Sources and results are in one bucket.
pub struct CloudBuilds {
    submissions: Submissions,
    store: Arc<dyn Store>,
    artefacts: Artefacts,
    bucket: String,
    account: Option<String>,
    logs: Option<LogBucket>,
}

/// A bucket for logs only: Cloud Build rewrites a log while the build runs, which needs more permissions than the account of the build has
/// on the bucket of results.
pub struct LogBucket {
    /// Name of the log bucket, without `gs://`.
    pub name: String,
    /// The bucket, for reading.
    pub store: Arc<dyn Store>,
}

impl CloudBuilds {
    /// Runs builds through a client; `store` is the bucket named `bucket`, which Cloud Build itself reads and writes.
    pub fn new(
        client: CloudBuildClient,
        store: Arc<dyn Store>,
        bucket: &str,
        clock: Arc<dyn Clock>,
        timing: Timing,
    ) -> Self {
        let submissions = Submissions::new(client, Arc::clone(&store), clock, timing);
        let artefacts = Artefacts::new(Arc::clone(&store));
        Self { submissions, artefacts, store, bucket: bucket.to_owned(), account: None, logs: None }
    }

    /// Builds run as this service account, `projects/PROJECT/serviceAccounts/EMAIL`, and log into this bucket.
    /// Defaults: the project's default account, and the bucket of the results.
    #[must_use]
    pub fn running_as(self, account: Option<String>, logs: Option<LogBucket>) -> Self {
        Self { account, logs, ..self }
    }

    /// Submissions, for operations on a command's builds without a config.
    pub fn submissions(&self) -> &Submissions {
        &self.submissions
    }

    /// The source archive in the form that Cloud Build accepts: gzipped. The object is named by
    /// the digest, so that it is created once.
    async fn source(&self, build: &BuildSpec) -> Result<Option<String>, PortError> {
        let Some(source) = &build.source else { return Ok(None) };
        let missing = || {
            let why = format!(
                "the source archive {} is absent from the bucket; start a new run to upload it",
                source.object
            );
            PortError::Permanent(Failure::new(Class::Input, "SOURCE_MISSING", why))
        };
        let tar = self.store.read(&source.object).await.map_err(PortError::transient)?.ok_or_else(missing)?;
        if Digest::of(&tar).sha256 != source.sha256 {
            let why = format!("the source archive {} differs from its digest", source.object);
            return Err(PortError::Permanent(Failure::new(Class::Infrastructure, "ARTEFACT_DAMAGED", why)));
        }
        let name = format!("sources/{}.tar.gz", source.sha256);
        let zipped = tokio::task::spawn_blocking(move || {
            let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
            writer.write_all(&tar).and_then(|()| writer.finish())
        });
        let zipped = zipped.await.map_err(PortError::transient)?.map_err(PortError::transient)?;
        self.store.create(&name, zipped.into()).await.map_err(PortError::transient)?;
        Ok(Some(name))
    }

    /// Results of a build: an image in a registry, or files, copied to the folder of the stage.
    async fn image(&self, key: &BuildKey, build: &model::Build) -> Result<Image, PortError> {
        if let Some((reference, digest)) = outcome::pushed(build) {
            return Ok(Image { reference, digest, files: Vec::new(), manifest_sha256: None });
        }
        let committed = match self.artefacts.committed(key).await? {
            Some(committed) => committed,
            None => self.collect(key, build).await?,
        };
        let manifest_sha256 = Some(committed.digest.sha256);
        let files = committed.manifest.objects.into_iter().map(|object| FileDigest {
            name: object.name,
            size_bytes: object.size_bytes,
            sha256: object.sha256,
        });
        let files: Vec<_> = files.filter(|file| file.name != crate::files::LOG).collect();
        Ok(Image { reference: Artefacts::folder(key), digest: content(&files), files, manifest_sha256 })
    }

    async fn collect(&self, key: &BuildKey, build: &model::Build) -> Result<Committed, PortError> {
        let listed =
            build.results.as_ref().map(|results| results.artifact_manifest.as_str()).unwrap_or_default();
        let mut objects = Vec::new();
        if !listed.is_empty() {
            let manifest = self.read(listed).await?.ok_or_else(|| unsound(listed, "is missing"))?;
            let artifacts =
                outcome::artifacts(&manifest, &self.bucket).map_err(|why| unsound(listed, &why))?;
            let copies: Vec<_> = artifacts.iter().map(|object| self.copy(key, object)).collect();
            objects = stream::iter(copies).buffered(COPIES).try_collect().await?;
        }
        if let Some(body) = self.log(build).await? {
            let body: ObjectReader = Box::new(Redacted::new(body, None).map_err(PortError::transient)?);
            objects.push(self.artefacts.put(key, crate::files::LOG, body).await?);
        }
        self.artefacts.commit(key, objects).await.map_err(PortError::from)
    }

    async fn copy(&self, key: &BuildKey, object: &str) -> Result<ManifestObject, PortError> {
        let name = object.rsplit('/').next().unwrap_or_default();
        refuse_reserved(name)?;
        let body = self.store.open(object).await.map_err(PortError::transient)?;
        let body = body.ok_or_else(|| unsound(object, "is missing"))?;
        self.artefacts.put(key, name, body).await.map_err(PortError::from)
    }

    /// The object name in `gs://bucket/object`, if it is in Burnin's bucket.
    fn object(&self, place: &str) -> Option<String> {
        object_in(place, &self.bucket)
    }

    async fn read(&self, place: &str) -> Result<Option<Vec<u8>>, PortError> {
        let object = self.object(place).ok_or_else(|| unsound(place, "is not in Burnin's bucket"))?;
        let body = self.store.read(&object).await.map_err(PortError::transient)?;
        Ok(body.map(|body| body.to_vec()))
    }

    /// A build's log, if it is in the bucket of logs or of builds.
    async fn log(&self, build: &model::Build) -> Result<Option<ObjectReader>, PortError> {
        let Some(place) = outcome::log(build) else { return Ok(None) };
        let in_own_bucket =
            self.logs.as_ref().and_then(|logs| Some((&logs.store, object_in(&place, &logs.name)?)));
        let found = in_own_bucket.or_else(|| Some((&self.store, self.object(&place)?)));
        let Some((store, object)) = found else { return Ok(None) };
        store.open(&object).await.map_err(PortError::transient)
    }

    /// The last lines of a build's log, if readable. Without a log the failure is reported without these lines.
    async fn last_lines(&self, build: &model::Build) -> String {
        let Ok(Some(body)) = self.log(build).await else { return String::new() };
        let Ok(body) = Redacted::new(body, None) else { return String::new() };
        let mut text = Vec::new();
        if body.take(LOG_READ).read_to_end(&mut text).await.is_err() {
            return String::new();
        }
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    }
}

/// The object name in `gs://bucket/object`, if the bucket has the given name.
fn object_in(place: &str, bucket: &str) -> Option<String> {
    Some(place.strip_prefix("gs://")?.strip_prefix(bucket)?.strip_prefix('/')?.to_owned())
}

/// Error for a build's result that contradicts Cloud Build's report.
fn unsound(place: &str, why: &str) -> PortError {
    PortError::Permanent(Failure::new(Class::Infrastructure, "ARTEFACT_DAMAGED", format!("{place} {why}")))
}

#[async_trait::async_trait]
impl Builds for CloudBuilds {
    async fn start(&self, key: &BuildKey, build: &BuildSpec, timeout: Span) -> Result<String, PortError> {
        let source = self.source(build).await?;
        let submitted = self.submissions.submit(key, |claim| {
            // A folder per claim: a build presumed lost must not overwrite another build's files.
            let folder = format!("{}/{claim}", journal::folder(key));
            let context = BuildContext {
                limit: timeout,
                bucket: &self.bucket,
                source,
                outputs: format!("{folder}/files"),
                logs: folder,
                log_bucket: self.logs.as_ref().map_or(&self.bucket, |logs| &logs.name),
                account: self.account.as_deref(),
            };
            translate(build, &context).map_err(|problems| {
                let list: Vec<_> = problems.iter().map(ToString::to_string).collect();
                PortError::Permanent(Failure::new(Class::Input, "CONFIG", list.join("\n")))
            })
        });
        Ok(match submitted.await? {
            Submitted::Build(build) => self.submissions.client().name(&build.id),
            Submitted::Cancelled => tags::key_tag(key),
        })
    }

    async fn poll(&self, key: &BuildKey) -> Result<Option<BuildPhase>, PortError> {
        let submissions = self.submissions.submissions(key).await?;
        let Some(build) = submissions.build else {
            return Ok(if submissions.pending {
                Some(BuildPhase::Running)
            } else if submissions.cancelled {
                let why = "cancelled before it started";
                Some(BuildPhase::Failed(Failure::new(Class::Cancelled, BuildStatus::Cancelled.as_str(), why)))
            } else {
                None
            });
        };
        Ok(Some(match outcome::status(&build) {
            None => {
                warn!(command = %key, build = build.id, status = %build.status, "unknown build status");
                BuildPhase::Running
            }
            Some(status) if !status.is_final() => BuildPhase::Running,
            Some(BuildStatus::Success) => BuildPhase::Built(self.image(key, &build).await?),
            Some(status) => {
                BuildPhase::Failed(outcome::failure(&build, status, &self.last_lines(&build).await))
            }
        }))
    }

    async fn cancel(&self, key: &BuildKey) -> Result<(), PortError> {
        self.submissions.cancel(key).await
    }
}
