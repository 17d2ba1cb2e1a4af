//! Artefacts: a stage's files, committed by a manifest that is written last.
//!
//! ```text
//! artefacts/{run}/{stage}/{attempt}/...             files of one attempt
//! artefacts/{run}/{stage}/{attempt}/manifest.json   created last and once; unlisted files do not count
//! artefacts/{run}/{stage}/{attempt}/{part}/...      the same for each part of an attempt with several parts
//! ```

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use model::{Attempt, CommandId, LeftOut, Logs, MANIFEST_FORMAT, Manifest, ManifestObject};
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;
use tokio_util::io::SyncIoBridge;

use crate::{Creation, Digest, Digester, ObjectReader, Store, StoreError};

/// Maximum manifest size, bytes; tens of thousands of objects fit.
const MAX_MANIFEST: u64 = 16 << 20;
/// Maximum number of logs that are read at the same time: a fleet has one log for each node, and a request to Cloud Storage takes tens of
/// milliseconds.
const AT_ONCE: usize = 16;

/// The artefacts of all runs in one bucket.
#[derive(Clone)]
pub struct Artefacts {
    store: Arc<dyn Store>,
    /// Whether blocking readers run on the calling thread, so that a simulation is reproducible.
    in_place: bool,
}

/// An artefact that cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum ArtefactError {
    /// The store request failed: retry.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object is missing or changed: permanent.
    #[error("artefact {name}: {why}")]
    Damaged {
        /// Object name in the bucket.
        name: String,
        /// Reason, for display: the object is missing, changed or invalid.
        why: String,
    },
}

/// Owner of files: a stage's attempt, or one part of an attempt with several parts.
#[derive(Clone, Copy, Debug)]
pub struct ArtifactOwner<'a> {
    /// Command of the attempt; the verb is ignored.
    pub command: &'a CommandId,
    /// Part name, valid in object names.
    pub part: Option<&'a str>,
}

impl<'a> From<&'a CommandId> for ArtifactOwner<'a> {
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
    /// Content of the manifest, as committed first.
    pub manifest: Manifest,
}

impl Artefacts {
    /// Artefacts in `store`; blocking readers run on separate threads.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, in_place: false }
    }

    /// Uses an in-memory store without any thread, so that a simulation is reproducible. Objects are read
    /// completely before they are passed to a blocking reader.
    pub fn in_place(store: Arc<dyn Store>) -> Self {
        Self { store, in_place: true }
    }

    /// Bucket of the artefacts.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// The folder of a stage's attempt, ending in `/`.
    pub fn folder<'a>(owner: impl Into<ArtifactOwner<'a>>) -> String {
        let ArtifactOwner { command: CommandId { run, stage, attempt, .. }, part } = owner.into();
        let folder = format!("artefacts/{run}/{stage}/{attempt}/");
        part.map_or_else(|| folder.clone(), |part| format!("{folder}{part}/"))
    }

    /// Address of an object for display.
    pub fn locate(&self, name: &str) -> String {
        self.store.locate(name)
    }

    /// Stores one file of a stage. The file may already exist after a crash; its content must then be
    /// identical.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the object exists with different content.
    pub async fn put<'a>(
        &self,
        owner: impl Into<ArtifactOwner<'a>>,
        name: &str,
        body: ObjectReader,
    ) -> Result<ManifestObject, ArtefactError> {
        let owner = owner.into();
        self.try_put(owner, name, body).await?.ok_or_else(|| ArtefactError::Damaged {
            name: Self::folder(owner) + name,
            why: "different content was stored before".to_owned(),
        })
    }

    /// Stores one file of a stage; returns `None` if the object exists with different content. This is not
    /// corruption if the file may have changed since an earlier attempt: retry under another name.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn try_put<'a>(
        &self,
        owner: impl Into<ArtifactOwner<'a>>,
        name: &str,
        body: ObjectReader,
    ) -> Result<Option<ManifestObject>, ArtefactError> {
        let full = Self::folder(owner) + name;
        let (creation, digest) = self.store.create_from(&full, body).await?;
        if creation == Creation::Exists && self.digest(&full).await? != Some(digest.clone()) {
            return Ok(None);
        }
        let Digest { size_bytes, sha256, crc32c } = digest;
        Ok(Some(ManifestObject { name: name.to_owned(), size_bytes, sha256, crc32c, collected: None }))
    }

    /// A small JSON document by its object name, if it exists.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the object is not a valid document.
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

    /// Commits a stage. A second commit returns the manifest of the first.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the existing manifest is unreadable.
    pub async fn commit<'a>(
        &self,
        owner: impl Into<ArtifactOwner<'a>>,
        objects: Vec<ManifestObject>,
    ) -> Result<Committed, ArtefactError> {
        self.commit_with(owner, objects, Vec::new()).await
    }

    /// Commits a stage, including the list of files left out.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the existing manifest is unreadable.
    pub async fn commit_with<'a>(
        &self,
        owner: impl Into<ArtifactOwner<'a>>,
        mut objects: Vec<ManifestObject>,
        left_out: Vec<LeftOut>,
    ) -> Result<Committed, ArtefactError> {
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        let is_extended = !left_out.is_empty() || objects.iter().any(|object| object.collected.is_some());
        let format = if is_extended { MANIFEST_FORMAT } else { 1 };
        let owner = owner.into();
        let CommandId { run, stage, attempt, .. } = owner.command.clone();
        let manifest = Manifest { format, run, stage, attempt, objects, left_out };
        let name = Self::folder(owner) + "manifest.json";
        let body = serde_json::to_vec_pretty(&manifest)
            .map_err(|error| ArtefactError::Damaged { name: name.clone(), why: error.to_string() })?;
        self.store.create(&name, body.into()).await?;
        let damaged =
            || ArtefactError::Damaged { name: name.clone(), why: "is missing after it was written".into() };
        self.committed(owner).await?.ok_or_else(damaged)
    }

    /// The committed manifest of a stage, if any.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the manifest is unreadable.
    pub async fn committed<'a>(
        &self,
        owner: impl Into<ArtifactOwner<'a>>,
    ) -> Result<Option<Committed>, ArtefactError> {
        self.manifest(&(Self::folder(owner) + "manifest.json")).await
    }

    /// A manifest by its object name.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the manifest is unreadable.
    pub async fn manifest(&self, name: &str) -> Result<Option<Committed>, ArtefactError> {
        let Some(body) = self.store.open(name).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        body.take(MAX_MANIFEST).read_to_end(&mut bytes).await.map_err(StoreError::io("read", name))?;
        let damaged = |why: String| ArtefactError::Damaged { name: name.to_owned(), why };
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if manifest.format > MANIFEST_FORMAT {
            return Err(damaged(format!(
                "format {} is newer than {MANIFEST_FORMAT}, the newest that this program supports; update the program",
                manifest.format
            )));
        }
        Ok(Some(Committed { name: name.to_owned(), digest: Digest::of(&bytes), manifest }))
    }

    /// Reads an object of at most `most` bytes and verifies its digest.
    ///
    /// # Errors
    /// Returns an error if the store request fails, or the object is missing, larger or changed.
    pub async fn read_verified(&self, name: &str, sha256: &str, most: u64) -> Result<Vec<u8>, ArtefactError> {
        let damaged = |why: &str| ArtefactError::Damaged { name: name.to_owned(), why: why.to_owned() };
        let body = self.store.open(name).await?.ok_or_else(|| damaged("is missing"))?;
        let mut bytes = Vec::new();
        body.take(most + 1).read_to_end(&mut bytes).await.map_err(StoreError::io("read", name))?;
        if bytes.len() as u64 > most {
            return Err(damaged(&format!("has more than {most} bytes")));
        }
        if Digest::of(&bytes).sha256 != sha256 {
            return Err(damaged(&format!("its SHA-256 is not {sha256}, which the ledger records")));
        }
        Ok(bytes)
    }

    /// Reads every log of a job attempt, by object. A missing manifest, or one with another digest, is
    /// corruption.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the logs differ from the commit.
    pub async fn logs<T: Send + 'static>(
        &self,
        logs: &Logs,
        job: Attempt,
        read: impl Fn(&mut dyn std::io::Read) -> std::io::Result<T> + Clone + Send + 'static,
    ) -> Result<Vec<(ManifestObject, T)>, ArtefactError> {
        let damaged = |why: &str| ArtefactError::Damaged { name: logs.manifest.clone(), why: why.to_owned() };
        let committed = self.manifest(&logs.manifest).await?;
        let committed = committed.ok_or_else(|| damaged("the manifest is missing"))?;
        if committed.digest.sha256 != logs.sha256 {
            return Err(damaged("the manifest differs from the committed manifest"));
        }
        let prefix = format!("{job}/");
        let of_job = committed.manifest.objects.into_iter().filter(|object| object.name.starts_with(&prefix));
        let reading = of_job.map(|object| {
            let read = read.clone();
            async move {
                let log = self.read(&logs.manifest, &object, read).await?;
                Ok((object, log))
            }
        });
        // A simulation must be reproducible, so it reads the logs one after another.
        let at_once = if self.in_place { 1 } else { AT_ONCE };
        stream::iter(reading).buffered(at_once).try_collect().await
    }

    /// Reads a committed object with a blocking reader, then verifies its digest.
    ///
    /// # Errors
    /// Returns an error if the store request fails, or the object is missing or changed.
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
            Err(damaged("differs from its manifest"))
        }
    }
}

type HashedRead<T> = std::io::Result<(T, Digest)>;

async fn read_aside<T: Send + 'static>(
    body: ObjectReader,
    read: impl FnOnce(&mut dyn std::io::Read) -> std::io::Result<T> + Send + 'static,
) -> HashedRead<T> {
    let reading = tokio::task::spawn_blocking(move || {
        let mut bridge = SyncIoBridge::new(Digester::new(body));
        let value = read(&mut bridge)?;
        // Bytes that the caller did not read also count toward the digest.
        std::io::copy(&mut bridge, &mut std::io::sink())?;
        Ok((value, bridge.into_inner().finish()))
    });
    reading.await.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)))
}

async fn read_in_place<T>(
    mut body: ObjectReader,
    read: impl FnOnce(&mut dyn std::io::Read) -> std::io::Result<T>,
) -> HashedRead<T> {
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes).await?;
    Ok((read(&mut bytes.as_slice())?, Digest::of(&bytes)))
}
