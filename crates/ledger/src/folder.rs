//! A bucket as a local folder with readable files.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use crate::{Creation, Digest, Digester, ObjectReader, Store, StoreError, check_name};

/// Drafts are written here and then hard-linked to their name, which either succeeds completely or fails
/// because the name exists.
const DRAFTS: &str = ".drafts";

/// Objects as files under a folder.
#[derive(Debug)]
pub struct FolderStore {
    root: PathBuf,
    drafts: AtomicU64,
}

impl FolderStore {
    /// Opens a folder and creates it if absent.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        fs::create_dir_all(root.join(DRAFTS))?;
        Ok(Self { root, drafts: AtomicU64::new(0) })
    }

    /// An existing folder, for reading. Unlike `open`, this call creates nothing.
    pub fn existing(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), drafts: AtomicU64::new(0) }
    }

    fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        check_name(name)?;
        if name.split('/').next() == Some(DRAFTS) {
            return Err(StoreError::Name { name: name.to_owned(), why: "is reserved for drafts" });
        }
        Ok(self.root.join(name))
    }

    /// Several processes may share the folder, so the draft name includes the process id.
    fn draft(&self) -> PathBuf {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        self.root.join(DRAFTS).join(format!("{}-{number}", std::process::id()))
    }

    async fn commit(&self, draft: PathBuf, name: &str) -> Result<Creation, StoreError> {
        let path = self.path(name)?;
        let linked = tokio::task::spawn_blocking(move || link(&draft, &path)).await;
        linked
            .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
            .map_err(StoreError::io("create", name))
    }
}

/// Links the draft to its name, durably, and removes the draft in every case.
fn link(draft: &Path, path: &Path) -> io::Result<Creation> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let linked = fs::create_dir_all(folder).and_then(|()| match fs::hard_link(draft, path) {
        Ok(()) => Ok(Creation::Created),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Creation::Exists),
        Err(error) => Err(error),
    });
    fs::remove_file(draft)?;
    // The name is durable only after its folder is synced.
    File::open(folder)?.sync_all()?;
    linked
}

#[async_trait::async_trait]
impl Store for FolderStore {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        Ok(self.create_from(name, Box::new(io::Cursor::new(body))).await?.0)
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.path(name)?;
        let draft = self.draft();
        let mut digester = Digester::new(body);
        let written = async {
            let mut file = match tokio::fs::File::create(&draft).await {
                Err(error) if error.kind() == ErrorKind::NotFound && self.root.is_dir() => {
                    tokio::fs::create_dir_all(self.root.join(DRAFTS)).await?;
                    tokio::fs::File::create(&draft).await?
                }
                created => created?,
            };
            tokio::io::copy(&mut digester, &mut file).await?;
            file.flush().await?;
            file.sync_all().await
        };
        if let Err(error) = written.await {
            drop(tokio::fs::remove_file(&draft).await); // report the error of the write instead
            return Err(StoreError::io("write", name)(error));
        }
        Ok((self.commit(draft, name).await?, digester.finish()))
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let Some(mut body) = self.open(name).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        match tokio::io::AsyncReadExt::read_to_end(&mut body, &mut bytes).await {
            Ok(_) => Ok(Some(bytes.into())),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(StoreError::io("read", name)(error)),
        }
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        let path = self.path(name)?;
        // Opening a named pipe would block forever.
        match tokio::fs::metadata(&path).await {
            Ok(found) if !found.is_file() && !found.is_dir() => {
                return Err(StoreError::io("open", name)(io::Error::other("it is not a regular file")));
            }
            _ => {}
        }
        match tokio::fs::File::open(path).await {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(StoreError::io("open", name)(error)),
        }
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        let root = self.root.clone();
        let (wanted, from) = (prefix.to_owned(), from.to_owned());
        let walked = tokio::task::spawn_blocking(move || {
            let mut names = Vec::new();
            // Only the folder part of the prefix can be traversed; the rest is compared.
            let folder = wanted.rsplit_once('/').map_or("", |(folder, _)| folder);
            walk(&root, &root.join(folder), &mut names)?;
            names.retain(|name| name.starts_with(&wanted) && *name >= from);
            Ok(names)
        });
        walked
            .await
            .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
            .map_err(StoreError::io("list", prefix))
    }

    async fn children(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let path = self.root.join(folder);
        let read = tokio::task::spawn_blocking(move || match fs::read_dir(path) {
            Err(error) if absent(&error) => Ok(Vec::new()),
            entries => entries?
                .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
                .filter(|name| !matches!(name, Ok(name) if name == DRAFTS))
                .collect(),
        });
        read.await
            .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
            .map_err(StoreError::io("list", folder))
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        match tokio::fs::remove_file(self.path(name)?).await {
            Err(error) if !absent(&error) => Err(StoreError::io("remove", name)(error)),
            _ => Ok(()),
        }
    }

    fn locate(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }
}

/// A name below an object, or the name of a folder, is absent as an object.
fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}

fn walk(root: &Path, folder: &Path, names: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if absent(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name() == DRAFTS {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(root, &path, names)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            names.push(name.to_owned());
        }
    }
    Ok(())
}
