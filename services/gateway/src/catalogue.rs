//! Available workflows by name, and errors in invalid files.
//!
//! A file and its referenced files are checked when the file changes and every [`FRESH`]. If a changed file has errors, its
//! last valid version stays in use until the file is corrected or this process ends.

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
use model::{BuildSpec, ClusterSpec, DEPLOYED, Notify, PROCESSES, System};
use serde::Deserialize;
use service::telemetry::meters::broken_workflows;
use tempfile::TempDir;
use tracing::{error, info};
use workflow::{FileProblem, FileProblems, Override, Resolved, WorkflowHeader, YamlDocument};

/// Maximum age of files from a bucket. An unchanged local file is checked again after this time.
const FRESH: Duration = Duration::from_secs(60);
/// Maximum number of files in a bucket. A larger number of files is an error.
const MOST_FILES: usize = 2000;

#[derive(Clone, Debug)]
pub struct CatalogueEntry {
    pub path: PathBuf,
    /// Workflow with its settings for requests.
    pub offered: WorkflowHeader,
    /// Channels that the workflow notifies.
    pub notify: Vec<Notify>,
    /// Errors in the current file.
    pub problems: Vec<FileProblem>,
    /// Whether the workflow can be started: its file is valid, or an earlier valid version is in use.
    pub startable: bool,
    /// The version in use.
    document: YamlDocument,
}

/// Every `*.yaml` file directly in a folder.
pub struct Catalogue {
    source: CatalogueSource,
    /// Whether runs are executed by the deployed services.
    is_deployed: bool,
    /// Result of each file's check.
    known: Mutex<BTreeMap<OsString, KnownFile>>,
    broken: AtomicUsize,
}

/// State of a workflow file at the last check of the file.
struct KnownFile {
    /// Modification time and size.
    version: (SystemTime, u64),
    checked: Instant,
    found: FoundFile,
}

/// Result of a file's check.
#[derive(Clone, Default)]
struct FoundFile {
    /// The version in use: the last valid one. Without a valid one: the current file, if it can be read; it cannot be started.
    version: Option<FileVersion>,
    /// Errors in the current file.
    problems: Vec<FileProblem>,
}

#[derive(Clone)]
struct FileVersion {
    document: YamlDocument,
    offered: WorkflowHeader,
    notify: Vec<Notify>,
    good: bool,
}

enum CatalogueSource {
    Folder(PathBuf),
    Bucket {
        store: Arc<dyn Store>,
        prefix: String,
        copy: tokio::sync::Mutex<Option<(Instant, Arc<TempDir>)>>,
    },
}

/// Workflows and invalid files.
#[derive(Clone, Debug, Default)]
pub struct ReadWorkflows {
    pub workflows: BTreeMap<String, CatalogueEntry>,
    /// Files that are not readable as workflows, with their errors.
    pub broken: Vec<BrokenWorkflow>,
    /// All errors of all files.
    pub problems: FileProblems,
    /// Prevents deletion of a bucket's local copy while these workflows are in use.
    _copy: Option<Arc<TempDir>>,
}

/// An invalid workflow file.
#[derive(Clone, Debug)]
pub struct BrokenWorkflow {
    /// File name in the folder.
    pub file: String,
    pub problems: Vec<FileProblem>,
}

impl Catalogue {
    /// Workflows in a local folder.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            source: CatalogueSource::Folder(folder.into()),
            is_deployed: false,
            known: Mutex::default(),
            broken: AtomicUsize::new(0),
        }
    }

    /// Workflows below `prefix` in a bucket, such as `workflows/`.
    pub fn bucket(store: Arc<dyn Store>, prefix: &str) -> Self {
        let copy = tokio::sync::Mutex::default();
        Self {
            source: CatalogueSource::Bucket { store, prefix: prefix.to_owned(), copy },
            is_deployed: false,
            known: Mutex::default(),
            broken: AtomicUsize::new(0),
        }
    }

    /// Refuses workflows that the deployed services cannot run: clusters of processes, because no supervisor is deployed, and
    /// deployed clusters without an agent.
    #[must_use]
    pub fn deployed(mut self) -> Self {
        self.is_deployed = true;
        self
    }

    /// Reads all workflows.
    ///
    /// # Errors
    /// Returns an error if the folder or the bucket cannot be read.
    pub async fn read(self: &Arc<Self>) -> io::Result<ReadWorkflows> {
        let (folder, copy) = match &self.source {
            CatalogueSource::Folder(folder) => (folder.clone(), None),
            CatalogueSource::Bucket { store, prefix, copy } => {
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
        Ok(ReadWorkflows { _copy: copy, ..read })
    }

    /// Number of files with errors at the last check.
    pub fn broken(&self) -> usize {
        self.broken.load(Ordering::Relaxed)
    }

    fn read_folder(&self, folder: &Path) -> io::Result<ReadWorkflows> {
        let mut read = ReadWorkflows::default();
        let mut paths =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "yaml"));
        paths.sort();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| paths.iter().any(|path| path.file_name() == Some(name)));
        let mut count = 0;
        for path in paths {
            let file = path.file_name().unwrap_or_default();
            let FoundFile { version, mut problems } = self.checked(&mut known, &path, file.to_owned());
            let file = file.to_string_lossy().into_owned();
            match version {
                Some(FileVersion { document, offered, notify, good }) => {
                    match read.workflows.get(&offered.name) {
                        None => {
                            let name = offered.name.clone();
                            let entry = CatalogueEntry {
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
                            let message = format!(
                                "`{name}` is also the name of {}; rename one of the workflows",
                                other.path.display()
                            );
                            let whole = path.display().to_string();
                            problems.push(FileProblem {
                                file: whole,
                                field: "name".into(),
                                message,
                                ..FileProblem::default()
                            });
                            read.broken.push(BrokenWorkflow { file, problems: problems.clone() });
                        }
                    }
                }
                None => read.broken.push(BrokenWorkflow { file, problems: problems.clone() }),
            }
            count += usize::from(!problems.is_empty());
            read.problems.0.extend(problems);
        }
        self.broken.store(count, Ordering::Relaxed);
        broken_workflows(count);
        Ok(read)
    }

    /// Result of a file check, new or cached.
    fn checked(&self, known: &mut BTreeMap<OsString, KnownFile>, path: &Path, file: OsString) -> FoundFile {
        let metadata = fs::metadata(path);
        let version = metadata.map_or((SystemTime::UNIX_EPOCH, 0), |metadata| {
            (metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len())
        });
        let before = match known.get(&file) {
            Some(known) if known.version == version && known.checked.elapsed() < FRESH => {
                return known.found.clone();
            }
            Some(known) => known.found.clone(),
            None => FoundFile::default(),
        };
        let found = self.read_file(path, before.version);
        report(path, &before.problems, &found);
        known.insert(file, KnownFile { version, checked: Instant::now(), found: found.clone() });
        found
    }

    /// Checks a file and its referenced files.
    fn read_file(&self, path: &Path, before: Option<FileVersion>) -> FoundFile {
        let (document, problems) = match YamlDocument::read(path) {
            Err(problems) => (None, problems),
            Ok(document) => match self.valid_version(&document, path) {
                Ok(version) => return FoundFile { version: Some(version), problems: Vec::new() },
                Err(problems) => (Some(document), problems),
            },
        };
        // Files referenced by the earlier version may have changed, too.
        let earlier =
            before.filter(|before| before.good && self.valid_version(&before.document, path).is_ok());
        let version = earlier.or_else(|| {
            let document = document?;
            let offered = workflow::header_of(&document).ok()?;
            Some(FileVersion { document, offered, notify: Vec::new(), good: false })
        });
        FoundFile { version, problems: problems.0 }
    }

    /// The version of a file if it and its referenced files are valid.
    fn valid_version(&self, document: &YamlDocument, path: &Path) -> Result<FileVersion, FileProblems> {
        let resolved = workflow::resolve_document(document.clone(), path, None, &[], None)?;
        let offered = workflow::header_of(document)?;
        if let (Some(ClusterSpec::Provisioned(system)), true) = (&resolved.workflow.cluster, self.is_deployed)
        {
            if system.kind() == PROCESSES {
                let why = "the deployed services have no process supervisor: use `cluster.existing` with its agent, or `cluster.rent.deployed`";
                return Err(document.problem("cluster.rent.processes", why).into());
            }
            if system.kind() == DEPLOYED && lacks_agent(system) {
                let why = "the deployed services reach no cluster without an agent: set the substitution _AGENT, see the README in the config's folder";
                return Err(document.problem("cluster.rent.deployed.deploy.substitutions", why).into());
            }
        }
        Ok(FileVersion { document: document.clone(), offered, notify: resolved.workflow.notify, good: true })
    }
}

/// Whether the steps declare the substitution `_AGENT`, and the workflow leaves it empty.
fn lacks_agent(system: &System) -> bool {
    /// The settings field that describes the deployment.
    #[derive(Deserialize)]
    struct Deploying {
        deploy: BuildSpec,
    }
    let Ok(Deploying { deploy }) = system.read() else { return false };
    let default = deploy.config["substitutions"]["_AGENT"].as_str();
    let given = deploy.substitutions.get("_AGENT").map(String::as_str);
    default.is_some_and(|default| given.unwrap_or(default).is_empty())
}

/// Logs new errors of a file once, and their correction once.
fn report(path: &Path, before: &[FileProblem], found: &FoundFile) {
    let file = path.display();
    if found.problems.is_empty() {
        if !before.is_empty() {
            info!("{file} is valid again");
        }
    } else if found.problems != before {
        let problems = FileProblems(found.problems.clone());
        if found.version.as_ref().is_some_and(|version| version.good) {
            error!("{file} has errors; its last valid version stays in use: {problems}");
        } else {
            error!("{file} has errors and cannot be started: {problems}");
        }
    }
}

impl CatalogueEntry {
    /// Resolves the workflow and its referenced files, with an existing cluster if it names one.
    ///
    /// # Errors
    /// Returns an error if a file is invalid, with all errors of all files.
    pub async fn resolve(
        &self,
        set: &[Override],
        existing: Option<serde_json::Value>,
    ) -> Result<Resolved, FileProblems> {
        let (document, path, set) = (self.document.clone(), self.path.clone(), set.to_vec());
        let resolving = tokio::task::spawn_blocking(move || {
            workflow::resolve_document(document, &path, None, &set, existing)
        });
        resolving.await.unwrap_or_else(|stopped| {
            let problem = FileProblem {
                file: self.path.display().to_string(),
                message: format!("could not be read: {stopped}"),
                ..FileProblem::default()
            };
            Err(problem.into())
        })
    }
}

/// Copies the objects below a prefix to files: workflows reference other files by path.
async fn copied(store: &dyn Store, prefix: &str) -> io::Result<TempDir> {
    let failed = |error: ledger::StoreError| io::Error::other(service::worker::chain(&error));
    let folder = tempfile::tempdir()?;
    let names = store.list(prefix).await.map_err(failed)?;
    if names.len() > MOST_FILES {
        return Err(io::Error::other(format!(
            "{prefix} contains more than the maximum of {MOST_FILES} objects; remove those that no workflow needs"
        )));
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
