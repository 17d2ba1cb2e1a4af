//! The workflows that may be requested, by name, and the problems of files that are not workflows.
//!
//! A file is checked whole, with everything it names, when it changes and every [`FRESH`]. Where a changed file has
//! problems, the last version without any is used until the file is repaired, or this process ends.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use ledger::Store;
use model::Notify;
use service::telemetry::meters::broken_workflows;
use tempfile::TempDir;
use tracing::{error, info};
use workflow::{Document, Offered, Override, Problem, Problems, Resolved};

/// Maximum age of files read from a bucket, and of the check of an unchanged file.
const FRESH: Duration = Duration::from_secs(60);
/// More files in a bucket are somebody's mistake.
const MOST_FILES: usize = 2000;

/// A workflow.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// What it offers.
    pub offered: Offered,
    /// Channels that it notifies.
    pub notify: Vec<Notify>,
    /// Problems of the current file.
    pub problems: Vec<Problem>,
    /// It can be started: its file has no problems, or an earlier version without any is in use.
    pub startable: bool,
    /// The version in use.
    document: Document,
}

/// Every `*.yaml` of a folder, not of those in it.
pub struct Catalogue {
    source: Source,
    /// Result of each file's check.
    known: Mutex<BTreeMap<OsString, Known>>,
    broken: AtomicUsize,
}

/// A file when it was last checked.
struct Known {
    /// When it was changed, and its size.
    version: (SystemTime, u64),
    checked: Instant,
    found: Found,
}

/// Result of a file's check.
#[derive(Clone, Default)]
struct Found {
    /// The version in use: the newest without problems, or one that can be read though it cannot be started.
    version: Option<Version>,
    /// Problems of the current file.
    problems: Vec<Problem>,
}

/// A version of a file.
#[derive(Clone)]
struct Version {
    document: Document,
    offered: Offered,
    notify: Vec<Notify>,
    good: bool,
}

enum Source {
    Folder(PathBuf),
    Bucket {
        store: Arc<dyn Store>,
        prefix: String,
        copy: tokio::sync::Mutex<Option<(Instant, Arc<TempDir>)>>,
    },
}

/// The workflows, and files that are none.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// Workflows, by name.
    pub workflows: BTreeMap<String, Entry>,
    /// Files that cannot be read as workflows, each with its problems.
    pub broken: Vec<Broken>,
    /// All problems of all files.
    pub problems: Problems,
    /// Keeps a copy of a bucket while it is used.
    _copy: Option<Arc<TempDir>>,
}

/// A file that cannot be read as a workflow.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Its name in the folder.
    pub file: String,
    /// Its problems.
    pub problems: Vec<Problem>,
}

impl Catalogue {
    /// Of a folder on this machine.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self { source: Source::Folder(folder.into()), known: Mutex::default(), broken: AtomicUsize::new(0) }
    }

    /// Of what lies below `prefix` in a bucket, such as `workflows/`.
    pub fn bucket(store: Arc<dyn Store>, prefix: &str) -> Self {
        let copy = tokio::sync::Mutex::default();
        Self {
            source: Source::Bucket { store, prefix: prefix.to_owned(), copy },
            known: Mutex::default(),
            broken: AtomicUsize::new(0),
        }
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

    /// The number of files with problems at the last check.
    pub fn broken(&self) -> usize {
        self.broken.load(Ordering::Relaxed)
    }

    fn read_folder(&self, folder: &Path) -> io::Result<Read> {
        let mut read = Read::default();
        let mut paths =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "yaml"));
        paths.sort();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| paths.iter().any(|path| path.file_name() == Some(name)));
        let mut count = 0;
        for path in paths {
            let file = path.file_name().unwrap_or_default();
            let Found { version, mut problems } = checked(&mut known, &path, file.to_owned());
            let file = file.to_string_lossy().into_owned();
            match version {
                Some(Version { document, offered, notify, good }) => {
                    match read.workflows.get(&offered.name) {
                        None => {
                            let name = offered.name.clone();
                            let entry = Entry {
                                path,
                                offered,
                                notify,
                                problems: problems.clone(),
                                startable: good,
                                document,
                            };
                            read.workflows.insert(name, entry);
                        }
                        Some(other) => {
                            let name = &offered.name;
                            let message = format!("`{name}` is the name of {} as well", other.path.display());
                            let whole = path.display().to_string();
                            problems.push(Problem {
                                file: whole,
                                position: None,
                                field: "name".into(),
                                message,
                            });
                            read.broken.push(Broken { file, problems: problems.clone() });
                        }
                    }
                }
                None => read.broken.push(Broken { file, problems: problems.clone() }),
            }
            count += usize::from(!problems.is_empty());
            read.problems.0.extend(problems);
        }
        self.broken.store(count, Ordering::Relaxed);
        broken_workflows(count);
        Ok(read)
    }
}

/// The result of checking a file, now or at its last check.
fn checked(known: &mut BTreeMap<OsString, Known>, path: &Path, file: OsString) -> Found {
    let metadata = fs::metadata(path);
    let version = metadata.map_or((SystemTime::UNIX_EPOCH, 0), |metadata| {
        (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len())
    });
    let before = match known.get(&file) {
        Some(known) if known.version == version && known.checked.elapsed() < FRESH => {
            return known.found.clone();
        }
        Some(known) => known.found.clone(),
        None => Found::default(),
    };
    let found = found(path, before.version);
    report(path, &before.problems, &found);
    known.insert(file, Known { version, checked: Instant::now(), found: found.clone() });
    found
}

/// Checks a file and everything it names.
fn found(path: &Path, before: Option<Version>) -> Found {
    let (document, problems) = match Document::read(path) {
        Err(problems) => (None, problems),
        Ok(document) => match good(&document, path) {
            Ok(version) => return Found { version: Some(version), problems: Vec::new() },
            Err(problems) => (Some(document), problems),
        },
    };
    // Files that the earlier version names may have changed too.
    let earlier = before.filter(|before| before.good && good(&before.document, path).is_ok());
    let version = earlier.or_else(|| {
        let document = document?;
        let offered = workflow::offered_by(&document).ok()?;
        Some(Version { document, offered, notify: Vec::new(), good: false })
    });
    Found { version, problems: problems.0 }
}

/// The version of a file that has no problems, nor has anything it names.
fn good(document: &Document, path: &Path) -> Result<Version, Problems> {
    let resolved = workflow::resolve_document(document.clone(), path, &[], None)?;
    let offered = workflow::offered_by(document)?;
    Ok(Version { document: document.clone(), offered, notify: resolved.workflow.notify, good: true })
}

/// Logs the problems of a file once, and its repair once.
fn report(path: &Path, before: &[Problem], found: &Found) {
    let file = path.display();
    if found.problems.is_empty() {
        if !before.is_empty() {
            info!("{file} has no problems any more");
        }
    } else if found.problems != before {
        let problems = Problems(found.problems.clone());
        if found.version.as_ref().is_some_and(|version| version.good) {
            error!("{file} was changed and has problems; its last good version stays active: {problems}");
        } else {
            error!("{file} has problems and cannot be started: {problems}");
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
        let (document, path, set) = (self.document.clone(), self.path.clone(), set.to_vec());
        let resolving =
            tokio::task::spawn_blocking(move || workflow::resolve_document(document, &path, &set, existing));
        resolving.await.unwrap_or_else(|stopped| {
            let problem = Problem {
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
    let failed = |error: ledger::StoreError| io::Error::other(service::worker::chain(&error));
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
