//! The folder of a job on the storage shared by this host and the nodes.
//!
//! ```text
//! {shared}/images/{digest}/   {shared}/jobs/{job}/
//!   job.sh         script passed to sbatch             submitted.json   job id
//!   cancel         the job was cancelled              claim            link: the execution of job.sh that runs the benchmark
//!   refused/       executions that found a claim      end.json         the job's own result, written last
//!   output/        collected output                   standing.json    recorded end state
//!   drained.json   nodes to re-test that were drained  unwanted.json   why the job must not continue
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use cluster_api::JobStatus;
use model::JobEnd;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use service::PortError;
use supervisor::{JobFolder, lock_files};

use crate::state::{Marks, SlurmFinding};

/// One job's folder. Every file in it is created once, atomically.
#[derive(Clone, Debug)]
pub struct SlurmFolder {
    shared: PathBuf,
    name: String,
}

/// A drained node that a job re-tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainedNode {
    pub node: String,
    /// Drain reason as Slurm reports it.
    pub reason: String,
}

/// Reason why a job must not continue, recorded before it is cancelled.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnwantedJob {
    Lost { code: String, why: String },
    Unschedulable { reason: String },
}

impl From<UnwantedJob> for SlurmFinding {
    fn from(unwanted: UnwantedJob) -> Self {
        match unwanted {
            UnwantedJob::Lost { code, why } => Self::Lost { code, why },
            UnwantedJob::Unschedulable { reason } => Self::Unschedulable { reason },
        }
    }
}

/// The recorded end of a job, final once written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FolderEnd {
    Ended(JobEnd),
    Lost { code: String, why: String },
    Yielded { why: String },
}

impl SlurmFolder {
    /// The folder of a job under a cluster's shared folder.
    pub fn of(shared: &str, name: &str) -> Self {
        Self { shared: shared.into(), name: name.to_owned() }
    }

    /// Path of the folder, which is the same on this host and on the nodes.
    pub fn path(&self) -> PathBuf {
        self.shared.join("jobs").join(&self.name)
    }

    pub fn jobs(&self) -> JobFolder {
        JobFolder::at(&self.shared)
    }

    /// Reads all marks in the folder.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn marks(&self) -> io::Result<Marks> {
        let folder = self.path();
        let claim = match fs::read_link(folder.join("claim")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            link => Some(link?.display().to_string()),
        };
        Ok(Marks {
            cancelled: folder.join("cancel").try_exists()?,
            submitted: lock_files::read_json(&folder.join("submitted.json"))?,
            claim,
            end: lock_files::read_json(&folder.join("end.json"))?,
        })
    }

    /// Creates the job's folder and its folder for output.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be created.
    pub fn create(&self) -> io::Result<()> {
        fs::create_dir_all(self.path().join("output"))
    }

    /// Writes the script. Resubmitting writes identical bytes.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn write_script(&self, script: &str) -> io::Result<()> {
        let draft = self.path().join(format!("job.sh.draft-{}", std::process::id()));
        fs::write(&draft, script)?;
        fs::rename(draft, self.path().join("job.sh"))
    }

    /// Records the Slurm job id. Returns the first recorded id, which is final.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn note_number(&self, number: u64) -> io::Result<u64> {
        self.record_once("submitted.json", &number)
    }

    /// Records the drained nodes that a job re-tests. Returns the nodes recorded first, which are final.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn note_drained(&self, nodes: &[DrainedNode]) -> io::Result<Vec<DrainedNode>> {
        self.record_once("drained.json", &nodes.to_vec())
    }

    /// The recorded drained nodes; `None` if the job never began a re-test.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn drained(&self) -> io::Result<Option<Vec<DrainedNode>>> {
        lock_files::read_json(&self.path().join("drained.json"))
    }

    /// Records why the job must not continue. Returns the first recorded reason, which is final.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn note_unwanted(&self, unwanted: &UnwantedJob) -> io::Result<UnwantedJob> {
        self.record_once("unwanted.json", unwanted)
    }

    /// The recorded reason why the job must not continue.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn unwanted(&self) -> io::Result<Option<UnwantedJob>> {
        lock_files::read_json(&self.path().join("unwanted.json"))
    }

    /// The recorded end state.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn recorded_end(&self) -> io::Result<Option<JobStatus>> {
        let recorded: Option<FolderEnd> = lock_files::read_json(&self.path().join("standing.json"))?;
        Ok(recorded.map(JobStatus::from))
    }

    /// Records an end state. Returns the first recorded end state, which is final: Slurm purges jobs, and its state of
    /// a job may change when nodes fail or return.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn record_end(&self, status: JobStatus) -> io::Result<JobStatus> {
        let recorded = match status {
            JobStatus::Ended(end) => FolderEnd::Ended(end),
            JobStatus::Lost { code, why } => FolderEnd::Lost { code, why },
            JobStatus::Yielded { why } => FolderEnd::Yielded { why },
            other => return Ok(other),
        };
        self.record_once("standing.json", &recorded).map(JobStatus::from)
    }

    /// Appends a reason for waiting when it changes; the file is collected with the output.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn waits(&self, reason: &str, now: model::Timestamp) -> io::Result<()> {
        let file = self.path().join("output").join("waiting.log");
        let before = fs::read_to_string(&file).unwrap_or_default();
        // Slurm has not evaluated the job yet.
        if reason == "None" || before.lines().last().is_some_and(|line| line.ends_with(&format!(" {reason}")))
        {
            return Ok(());
        }
        tracing::info!(job = %self.name, %reason, "the job waits");
        append(&file, &format!("{now} {reason}\n"))
    }

    fn record_once<T: Serialize + DeserializeOwned>(&self, file: &str, value: &T) -> io::Result<T> {
        let path = self.path().join(file);
        lock_files::create_json(&path, value)?;
        lock_files::read_json(&path)?
            .ok_or_else(|| io::Error::other(format!("{} disappeared", path.display())))
    }
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    io::Write::write_all(&mut fs::File::options().create(true).append(true).open(file)?, line.as_bytes())
}

impl From<FolderEnd> for JobStatus {
    fn from(recorded: FolderEnd) -> Self {
        match recorded {
            FolderEnd::Ended(end) => Self::Ended(end),
            FolderEnd::Lost { code, why } => Self::Lost { code, why },
            FolderEnd::Yielded { why } => Self::Yielded { why },
        }
    }
}

/// Reads a job's folder, which may be on a slow network file system.
pub(crate) async fn read<T: Send + 'static>(
    folder: &SlurmFolder,
    work: impl FnOnce(&SlurmFolder) -> io::Result<T> + Send + 'static,
) -> Result<T, PortError> {
    blocking(folder, work).await?.map_err(PortError::transient)
}

/// Runs blocking work on a job's folder on a separate thread.
pub(crate) async fn blocking<T: Send + 'static>(
    folder: &SlurmFolder,
    work: impl FnOnce(&SlurmFolder) -> io::Result<T> + Send + 'static,
) -> Result<io::Result<T>, PortError> {
    let folder = folder.clone();
    tokio::task::spawn_blocking(move || work(&folder)).await.map_err(PortError::transient)
}
