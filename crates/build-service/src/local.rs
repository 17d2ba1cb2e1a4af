//! Local builds: the same configs, each in its own supervisor process.

use std::path::PathBuf;

use cloudbuild::BuildStatus;
use ledger::{Artefacts, ObjectReader, Store};
use model::{BuildSpec, Class, Failure, FileDigest, Image, Span};
use service::PortError;
use supervisor::{BuildOutcome, BuildRequest, BuildState};

use crate::{
    files::{LOG, QUOTED_LINES, content, refuse_reserved},
    limit,
    port::{BuildKey, BuildPhase, Builds},
    redacted::Redacted,
};

/// Builds on this host; images are sets of files in the artefact bucket.
pub struct LocalBuilds {
    builds: supervisor::BuildFolder,
    store: std::sync::Arc<dyn Store>,
    artefacts: Artefacts,
    secrets: Option<PathBuf>,
}

impl LocalBuilds {
    /// Builds under a folder, and stores results in a bucket. `secrets` is a folder with one file per secret,
    /// named after it.
    pub fn new(
        builds: supervisor::BuildFolder,
        store: std::sync::Arc<dyn Store>,
        secrets: Option<PathBuf>,
    ) -> Self {
        let artefacts = Artefacts::new(std::sync::Arc::clone(&store));
        Self { builds, store, artefacts, secrets }
    }

    /// Downloads the source archive to a file for the supervisor.
    async fn fetch(&self, name: &str, build: &BuildSpec) -> Result<Option<PathBuf>, PortError> {
        let Some(source) = &build.source else { return Ok(None) };
        let folder = self.builds.folder(name);
        let path = folder.join(format!("source-{}.tar", source.sha256));
        let missing = || {
            let why = format!(
                "the source archive {} is absent from the bucket; start a new run to upload it",
                source.object
            );
            PortError::Permanent(Failure::new(Class::Input, "SOURCE_MISSING", why))
        };
        let mut body =
            self.store.open(&source.object).await.map_err(PortError::transient)?.ok_or_else(missing)?;
        tokio::fs::create_dir_all(&folder).await.map_err(PortError::transient)?;
        // Atomic: a supervisor may read the file while another builder downloads it again.
        let draft = folder.join(format!("source-{}.part", service::ids::unique()));
        let mut file = tokio::fs::File::create(&draft).await.map_err(PortError::transient)?;
        tokio::io::copy(&mut body, &mut file).await.map_err(PortError::transient)?;
        tokio::io::AsyncWriteExt::flush(&mut file).await.map_err(PortError::transient)?;
        tokio::fs::rename(&draft, &path).await.map_err(PortError::transient)?;
        Ok(Some(path))
    }

    /// Stores the results of the build in the bucket. Idempotent.
    async fn store(&self, key: &BuildKey, name: &str, outcome: &BuildOutcome) -> Result<Image, PortError> {
        let mut objects = vec![self.put_log(key, self.builds.log(name)).await?];
        for artifact in &outcome.artifacts {
            refuse_reserved(&artifact.name)?;
            objects.push(self.put(key, &artifact.name, artifact.path.clone()).await?);
        }
        let committed = self.artefacts.commit(key, objects).await?;
        let mut files: Vec<_> = (outcome.artifacts.iter())
            .map(|artifact| FileDigest {
                name: artifact.name.clone(),
                size_bytes: artifact.size_bytes,
                sha256: artifact.sha256.clone(),
            })
            .collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let manifest_sha256 = Some(committed.digest.sha256);
        Ok(Image { reference: Artefacts::folder(key), digest: content(&files), files, manifest_sha256 })
    }

    /// Stores the log. Redacts it again, because the supervisor's rules lack the secrets in the environment of this process.
    async fn put_log(&self, key: &BuildKey, path: PathBuf) -> Result<model::ManifestObject, PortError> {
        let file = tokio::fs::File::open(&path).await.map_err(PortError::transient)?;
        let body = Redacted::new(Box::new(file), self.secrets.as_deref()).map_err(PortError::transient)?;
        self.artefacts.put(key, LOG, Box::new(body)).await.map_err(PortError::from)
    }

    async fn put(
        &self,
        key: &BuildKey,
        name: &str,
        path: PathBuf,
    ) -> Result<model::ManifestObject, PortError> {
        let file = tokio::fs::File::open(&path).await.map_err(PortError::transient)?;
        let body: ObjectReader = Box::new(file);
        self.artefacts.put(key, name, body).await.map_err(PortError::from)
    }

    fn failed(&self, name: &str, outcome: &BuildOutcome) -> Failure {
        let class = match outcome.status {
            BuildStatus::InternalError | BuildStatus::Expired => Class::Infrastructure,
            BuildStatus::Cancelled => Class::Cancelled,
            _ => Class::Workload,
        };
        let log = std::fs::read(self.builds.log(name)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
        let why = outcome.failure.as_deref().unwrap_or("the build failed without a message");
        let message = format!("{why}\n{last}\nthe whole log: {}", self.builds.log(name).display());
        Failure::new(class, outcome.status.as_str(), message)
    }
}

#[async_trait::async_trait]
impl Builds for LocalBuilds {
    async fn start(&self, key: &BuildKey, build: &BuildSpec, timeout: Span) -> Result<String, PortError> {
        let name = key.resource_name();
        let source = self.fetch(&name, build).await?;
        let request = BuildRequest {
            config: limit::with_limit(timeout, &build.config),
            source,
            repository: build.repository.clone(),
            substitutions: build.substitutions.clone(),
            id: name.clone(),
            secrets: self.secrets.clone(),
        };
        let builds = self.builds.clone();
        let started = tokio::task::spawn_blocking(move || builds.start(&name, &request).map(|()| name));
        started.await.map_err(PortError::transient)?.map_err(PortError::transient)
    }

    async fn poll(&self, key: &BuildKey) -> Result<Option<BuildPhase>, PortError> {
        let name = key.resource_name();
        match self.builds.poll(&name).map_err(PortError::transient)? {
            BuildState::Absent => Ok(None),
            BuildState::Working => Ok(Some(BuildPhase::Running)),
            BuildState::Ended(outcome) if outcome.status == BuildStatus::Success => {
                self.store(key, &name, &outcome).await.map(|image| Some(BuildPhase::Built(image)))
            }
            BuildState::Ended(outcome) => Ok(Some(BuildPhase::Failed(self.failed(&name, &outcome)))),
            BuildState::Lost => {
                let builds = self.builds.clone();
                let recorded = tokio::task::spawn_blocking(move || {
                    builds.record_end(
                        &name,
                        BuildStatus::InternalError,
                        "the build's supervisor ended before it recorded a result",
                    )
                });
                recorded.await.map_err(PortError::transient)?.map_err(PortError::transient)?;
                Ok(Some(BuildPhase::Running)) // the next poll reads the recorded result
            }
        }
    }

    async fn cancel(&self, key: &BuildKey) -> Result<(), PortError> {
        let (builds, name) = (self.builds.clone(), key.resource_name());
        let cancelled = tokio::task::spawn_blocking(move || builds.cancel(&name));
        cancelled.await.map_err(PortError::transient)?.map_err(PortError::transient)
    }
}
