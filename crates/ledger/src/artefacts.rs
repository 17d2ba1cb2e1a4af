//! Artefacts: a stage's files, committed by a manifest that is written last.
//!
//! ```text
//! artefacts/{run}/{stage}/{attempt}/...             names carry the attempt
//! artefacts/{run}/{stage}/{attempt}/manifest.json   last, create-only: what it does not name does not exist
//! artefacts/{run}/{stage}/{attempt}/{part}/...      the same for each part, where an attempt has several
//! ```

use std::sync::Arc;

use model::{Attempt, CommandId, LeftOut, Logs, MANIFEST_FORMAT, Manifest, ManifestObject};
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;
use tokio_util::io::SyncIoBridge;

use crate::{Creation, Digest, Digester, Reader, Store, StoreError};

/// Larger manifests would not be read back whole; tens of thousands of objects fit.
const MAX_MANIFEST: u64 = 16 << 20;

/// The artefacts of all runs in one bucket.
#[derive(Clone)]
pub struct Artefacts {
    store: Arc<dyn Store>,
    /// Blocking readers run where they are called, not on a thread of their own.
    in_place: bool,
}

/// An artefact that is not what its manifest says.
#[derive(Debug, thiserror::Error)]
pub enum ArtefactError {
    /// The store did not answer: try again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object is missing or changed: no repetition helps.
    #[error("artefact {name}: {why}")]
    Damaged {
        /// The object.
        name: String,
        /// The problem.
        why: String,
    },
}

/// Whose files: a stage's attempt, or one part of several that the attempt has.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The attempt, whatever the verb.
    pub command: &'a CommandId,
    /// The part, a word that is legal in names.
    pub part: Option<&'a str>,
}

impl<'a> From<&'a CommandId> for Owner<'a> {
    fn from(command: &'a CommandId) -> Self {
        Self { command, part: None }
    }
}

/// A committed stage.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Object name of the manifest.
    pub name: String,
    /// Digest of the manifest.
    pub digest: Digest,
    /// What it says.
    pub manifest: Manifest,
}

impl Artefacts {
    /// On a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, in_place: false }
    }

    /// On a store in memory, without any thread, so that a simulation repeats itself. Objects are read whole before they
    /// are handed to a blocking reader.
    pub fn in_place(store: Arc<dyn Store>) -> Self {
        Self { store, in_place: true }
    }

    /// The bucket.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// The folder of a stage's attempt, ending in `/`.
    pub fn folder<'a>(owner: impl Into<Owner<'a>>) -> String {
        let Owner { command: CommandId { run, stage, attempt, .. }, part } = owner.into();
        let folder = format!("artefacts/{run}/{stage}/{attempt}/");
        part.map_or_else(|| folder.clone(), |part| format!("{folder}{part}/"))
    }

    /// Where a person finds an object.
    pub fn locate(&self, name: &str) -> String {
        self.store.locate(name)
    }

    /// Stores one file of a stage. After a crash the same file may be there already; then it must be the same.
    ///
    /// # Errors
    /// When the store does not answer, or another content lies under that name.
    pub async fn put<'a>(
        &self,
        owner: impl Into<Owner<'a>>,
        name: &str,
        body: Reader,
    ) -> Result<ManifestObject, ArtefactError> {
        let owner = owner.into();
        self.offer(owner, name, body).await?.ok_or_else(|| ArtefactError::Damaged {
            name: Self::folder(owner) + name,
            why: "another content was stored before".to_owned(),
        })
    }

    /// Stores one file of a stage, unless another content lies under that name: then none. Of something that may have
    /// changed since an earlier try, that is no damage, and another name will do.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn offer<'a>(
        &self,
        owner: impl Into<Owner<'a>>,
        name: &str,
        body: Reader,
    ) -> Result<Option<ManifestObject>, ArtefactError> {
        let full = Self::folder(owner) + name;
        let (creation, digest) = self.store.create_from(&full, body).await?;
        if creation == Creation::Exists && self.digest(&full).await? != Some(digest.clone()) {
            return Ok(None);
        }
        let Digest { size_bytes, sha256, crc32c } = digest;
        Ok(Some(ManifestObject { name: name.to_owned(), size_bytes, sha256, crc32c, collected: None }))
    }

    /// A small JSON document by its object name, if it is there.
    ///
    /// # Errors
    /// When the store does not answer, or the object is no such document.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ArtefactError> {
        let Some(body) = self.store.open(name).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        body.take(MAX_MANIFEST).read_to_end(&mut bytes).await.map_err(StoreError::io("read", name))?;
        let document = serde_json::from_slice(&bytes);
        let damaged = |error: serde_json::Error| ArtefactError::Damaged {
            name: name.to_owned(),
            why: error.to_string(),
        };
        document.map(Some).map_err(damaged)
    }

    async fn digest(&self, name: &str) -> Result<Option<Digest>, StoreError> {
        let Some(body) = self.store.open(name).await? else { return Ok(None) };
        let mut digester = Digester::new(body);
        tokio::io::copy(&mut digester, &mut tokio::io::sink()).await.map_err(StoreError::io("read", name))?;
        Ok(Some(digester.finish()))
    }

    /// Commits a stage. Whoever comes second finds what the first one committed.
    ///
    /// # Errors
    /// When the store does not answer or an unreadable manifest is in the way.
    pub async fn commit<'a>(
        &self,
        owner: impl Into<Owner<'a>>,
        objects: Vec<ManifestObject>,
    ) -> Result<Committed, ArtefactError> {
        self.commit_with(owner, objects, Vec::new()).await
    }

    /// Commits a stage, and says what of it was left out.
    ///
    /// # Errors
    /// Those of [`Artefacts::commit`].
    pub async fn commit_with<'a>(
        &self,
        owner: impl Into<Owner<'a>>,
        mut objects: Vec<ManifestObject>,
        left_out: Vec<LeftOut>,
    ) -> Result<Committed, ArtefactError> {
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        let tells = !left_out.is_empty() || objects.iter().any(|object| object.collected.is_some());
        let format = if tells { MANIFEST_FORMAT } else { 1 };
        let owner = owner.into();
        let CommandId { run, stage, attempt, .. } = owner.command.clone();
        let manifest = Manifest { format, run, stage, attempt, objects, left_out };
        let name = Self::folder(owner) + "manifest.json";
        let body = serde_json::to_vec_pretty(&manifest)
            .map_err(|error| ArtefactError::Damaged { name: name.clone(), why: error.to_string() })?;
        self.store.create(&name, body.into()).await?;
        let damaged =
            || ArtefactError::Damaged { name: name.clone(), why: "vanished after it was written".into() };
        self.committed(owner).await?.ok_or_else(damaged)
    }

    /// What a stage committed, if it did.
    ///
    /// # Errors
    /// When the store does not answer or the manifest cannot be read.
    pub async fn committed<'a>(
        &self,
        owner: impl Into<Owner<'a>>,
    ) -> Result<Option<Committed>, ArtefactError> {
        self.manifest(&(Self::folder(owner) + "manifest.json")).await
    }

    /// A manifest by its object name.
    ///
    /// # Errors
    /// When the store does not answer or the manifest cannot be read.
    pub async fn manifest(&self, name: &str) -> Result<Option<Committed>, ArtefactError> {
        let Some(body) = self.store.open(name).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        body.take(MAX_MANIFEST).read_to_end(&mut bytes).await.map_err(StoreError::io("read", name))?;
        let damaged = |why: String| ArtefactError::Damaged { name: name.to_owned(), why };
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if manifest.format > MANIFEST_FORMAT {
            return Err(damaged(format!("format {} is later than this program", manifest.format)));
        }
        Ok(Some(Committed { name: name.to_owned(), digest: Digest::of(&bytes), manifest }))
    }

    /// Reads every log of a job attempt, by object. A manifest that is named but missing, or another one than was told,
    /// is damage.
    ///
    /// # Errors
    /// When the store does not answer, or the logs are not what was committed.
    pub async fn logs<T: Send + 'static>(
        &self,
        logs: &Logs,
        job: Attempt,
        read: fn(&mut dyn std::io::Read) -> std::io::Result<T>,
    ) -> Result<Vec<(ManifestObject, T)>, ArtefactError> {
        let damaged = |why: &str| ArtefactError::Damaged { name: logs.manifest.clone(), why: why.to_owned() };
        let committed = self.manifest(&logs.manifest).await?;
        let committed = committed.ok_or_else(|| damaged("the manifest is missing"))?;
        if committed.digest.sha256 != logs.sha256 {
            return Err(damaged("the manifest is not the one that was committed"));
        }
        let prefix = format!("{job}/");
        let mut read_logs = Vec::new();
        for object in committed.manifest.objects.into_iter().filter(|object| object.name.starts_with(&prefix))
        {
            let log = self.read(&logs.manifest, &object, read).await?;
            read_logs.push((object, log));
        }
        Ok(read_logs)
    }

    /// Reads a committed object with a blocking reader, and checks afterwards that it was what the manifest says.
    ///
    /// # Errors
    /// When the store does not answer, or the object is missing or was changed.
    pub async fn read<T: Send + 'static>(
        &self,
        manifest: &str,
        object: &ManifestObject,
        read: impl FnOnce(&mut dyn std::io::Read) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, ArtefactError> {
        let folder = manifest.strip_suffix("manifest.json").unwrap_or(manifest);
        let name = format!("{folder}{}", object.name);
        let damaged = |why: &str| ArtefactError::Damaged { name: name.clone(), why: why.to_owned() };
        let body = self.store.open(&name).await?.ok_or_else(|| damaged("is missing"))?;
        let reading =
            if self.in_place { read_in_place(body, read).await } else { read_aside(body, read).await };
        let (value, digest) = reading.map_err(StoreError::io("read", &name))?;
        if digest.sha256 == object.sha256 && digest.size_bytes == object.size_bytes {
            Ok(value)
        } else {
            Err(damaged("is not what its manifest says"))
        }
    }
}

type Reading<T> = std::io::Result<(T, Digest)>;

async fn read_aside<T: Send + 'static>(
    body: Reader,
    read: impl FnOnce(&mut dyn std::io::Read) -> std::io::Result<T> + Send + 'static,
) -> Reading<T> {
    let reading = tokio::task::spawn_blocking(move || {
        let mut bridge = SyncIoBridge::new(Digester::new(body));
        let value = read(&mut bridge)?;
        // What the caller did not care to read counts as well.
        std::io::copy(&mut bridge, &mut std::io::sink())?;
        Ok((value, bridge.into_inner().finish()))
    });
    reading.await.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)))
}

async fn read_in_place<T>(
    mut body: Reader,
    read: impl FnOnce(&mut dyn std::io::Read) -> std::io::Result<T>,
) -> Reading<T> {
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes).await?;
    Ok((read(&mut bytes.as_slice())?, Digest::of(&bytes)))
}
