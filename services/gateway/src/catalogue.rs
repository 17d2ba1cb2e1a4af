//! The workflows that may be asked for, by name.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use ledger::Store;
use tempfile::TempDir;
use workflow::{Offered, Override, Problems, Resolved};

/// How long what was read from a bucket is used.
const FRESH: Duration = Duration::from_secs(60);
/// More files in a bucket are somebody's mistake.
const MOST_FILES: usize = 2000;

/// A workflow file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// What it offers.
    pub offered: Offered,
}

/// Every `*.yaml` of a folder, not of those in it.
pub struct Catalogue {
    source: Source,
    /// What was read of a file, while it does not change.
    read: Mutex<BTreeMap<PathBuf, Known>>,
}

/// A file when it was last changed, and what it offered then.
type Known = (SystemTime, Result<Offered, Problems>);

enum Source {
    Folder(PathBuf),
    Bucket {
        store: Arc<dyn Store>,
        prefix: String,
        copy: tokio::sync::Mutex<Option<(Instant, Arc<TempDir>)>>,
    },
}

/// The workflows, and those that are none.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// Good ones, by name.
    pub workflows: BTreeMap<String, Entry>,
    /// What is wrong with the others.
    pub problems: Problems,
    /// Keeps a copy of a bucket while it is used.
    _copy: Option<Arc<TempDir>>,
}

impl Catalogue {
    /// Of a folder on this machine.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self { source: Source::Folder(folder.into()), read: Mutex::default() }
    }

    /// Of what lies below `prefix` in a bucket, such as `workflows/`.
    pub fn bucket(store: Arc<dyn Store>, prefix: &str) -> Self {
        let copy = tokio::sync::Mutex::default();
        Self { source: Source::Bucket { store, prefix: prefix.to_owned(), copy }, read: Mutex::default() }
    }

    /// Every workflow.
    ///
    /// # Errors
    /// When the folder or the bucket cannot be read.
    pub async fn read(self: &Arc<Self>) -> io::Result<Read> {
        let (folder, copy) = match &self.source {
            Source::Folder(folder) => (folder.clone(), None),
            Source::Bucket { store, prefix, copy } => {
                let mut copy = copy.lock().await;
                let fresh = copy.as_ref().filter(|(at, _)| at.elapsed() < FRESH);
                let folder = match fresh {
                    Some((_, folder)) => Arc::clone(folder),
                    None => {
                        let folder = Arc::new(copied(&**store, prefix).await?);
                        *copy = Some((Instant::now(), Arc::clone(&folder)));
                        folder
                    }
                };
                (folder.path().to_owned(), Some(folder))
            }
        };
        let this = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || this.read_folder(&folder));
        let read = read.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))?;
        Ok(Read { _copy: copy, ..read })
    }

    fn read_folder(&self, folder: &Path) -> io::Result<Read> {
        let mut read = Read::default();
        let mut paths =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "yaml")) {
            match self.offered(&path) {
                Err(problems) => read.problems.0.extend(problems.0),
                Ok(offered) => {
                    let name = offered.name.clone();
                    if let Some(other) = read.workflows.get(&name) {
                        let message = format!("`{name}` is the name of {} as well", other.path.display());
                        let file = path.display().to_string();
                        let problem =
                            workflow::Problem { file, position: None, field: "name".into(), message };
                        read.problems.0.push(problem);
                    } else {
                        read.workflows.insert(name, Entry { path, offered });
                    }
                }
            }
        }
        Ok(read)
    }

    fn offered(&self, path: &Path) -> Result<Offered, Problems> {
        let changed =
            fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(path) {
            Some((at, offered)) if *at == changed => offered.clone(),
            _ => {
                let offered = workflow::offered(path);
                known.insert(path.to_owned(), (changed, offered.clone()));
                offered
            }
        }
    }
}

impl Entry {
    /// The workflow with everything it names, on a cluster that is there where one is named.
    ///
    /// # Errors
    /// Every problem in any of its files.
    pub async fn resolve(
        &self,
        set: &[Override],
        existing: Option<serde_json::Value>,
    ) -> Result<Resolved, Problems> {
        let (path, set) = (self.path.clone(), set.to_vec());
        let resolving = tokio::task::spawn_blocking(move || workflow::resolve_on(&path, &set, existing));
        resolving.await.unwrap_or_else(|stopped| {
            let problem = workflow::Problem {
                file: self.path.display().to_string(),
                position: None,
                field: String::new(),
                message: format!("could not be read: {stopped}"),
            };
            Err(problem.into())
        })
    }
}

/// The objects below a prefix as files: a workflow names others by their paths.
async fn copied(store: &dyn Store, prefix: &str) -> io::Result<TempDir> {
    let failed = |error: ledger::StoreError| io::Error::other(kit::worker::chain(&error));
    let folder = tempfile::tempdir()?;
    let names = store.list(prefix).await.map_err(failed)?;
    if names.len() > MOST_FILES {
        return Err(io::Error::other(format!("{prefix} holds more than {MOST_FILES} objects")));
    }
    for name in names {
        // The store checks names: relative, without `..`.
        let Some(inner) = name.strip_prefix(prefix).filter(|inner| ledger::check_name(inner).is_ok()) else {
            continue;
        };
        let body = store.read(&name).await.map_err(failed)?.unwrap_or_default();
        let path = folder.path().join(inner);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, body)?;
    }
    Ok(folder)
}
