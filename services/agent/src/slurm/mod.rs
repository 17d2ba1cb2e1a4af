//! Jobs of a Slurm that is there, through its own commands.
//!
//! Never two for one command: a job's name is its identity. It is looked for before and after it is submitted, Slurm lets
//! a second one of the name wait for the first, and of all that begin only the one that makes the link `claim` runs the
//! benchmark. What became of it is read from the controller, then from the accounts where there are any, and from the
//! job's own folder; what was told once is told again.

pub mod commands;
pub mod folder;
pub mod script;
pub mod state;

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use ledger::{Reader, Store};
use model::{Class, Cluster, Failure, Slurm};
use service::{Clock, PortError, SystemClock};

use crate::{
    port::{Ending, Job, Outputs, Scheduler, Standing},
    stage::stage,
    written,
};
use commands::Commands;
use folder::Folder;
use state::{Finding, Kind, Marks, Row};

/// A controller serves a whole cluster: while a job goes on, it is asked at most this often.
const PACE: Duration = Duration::from_secs(1);

/// The scheduler of Slurm clusters.
pub struct SlurmJobs {
    store: Arc<dyn Store>,
    commands: Commands,
    /// When a job was last found going.
    going: Mutex<HashMap<String, Instant>>,
}

impl SlurmJobs {
    /// Takes images from this bucket, and Slurm's commands from the `PATH`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, commands: Commands::default(), going: Mutex::default() }
    }

    /// The same, with commands from `folder` where it has them.
    #[must_use]
    pub fn with_commands(mut self, folder: impl Into<OsString>) -> Self {
        self.commands.first = Some(folder.into());
        self
    }

    /// Everything that is known of a job: the controller's word, the accounts' where the controller has forgotten, and
    /// the folder's, read last so that it is not older than theirs.
    async fn known(&self, folder: &Folder, name: &str) -> Result<(Vec<Row>, Marks), PortError> {
        let mut rows = self.commands.jobs(name).await?;
        if rows.is_empty() {
            rows = self.commands.accounted(name).await?;
        }
        Ok((rows, read(folder, Folder::marks).await?))
    }

    /// A job that is there, by the number that is told.
    async fn adopt(&self, folder: &Folder, name: &str) -> Result<Option<u64>, PortError> {
        let (mut rows, marks) = self.known(folder, name).await?;
        rows.sort_by_key(|row| row.id);
        let begun = marks.claim.as_deref().and_then(|claim| claim.split('.').next()?.parse().ok());
        rows.retain(|row| !state::refused(row));
        let Some(number) = marks.submitted.or(begun).or(rows.first().map(|row| row.id)) else {
            return Ok(None);
        };
        // A second one, after a submission whose answer got lost. It would only find the claim.
        let none_begun = begun.is_none() && rows.iter().all(|row| row.kind() != Kind::Going);
        for row in rows.iter().filter(|row| row.kind() == Kind::Waiting).skip(usize::from(none_begun)) {
            self.commands.cancel_waiting(row.id).await?;
        }
        read(folder, move |folder| folder.note_number(number)).await.map(Some)
    }

    async fn stands(&self, slurm: &Slurm, folder: &Folder, name: &str) -> Result<Standing, PortError> {
        if let Some(told) = read(folder, Folder::told).await? {
            return Ok(told);
        }
        let marks = read(folder, Folder::marks).await?;
        let now = SystemClock.now();
        // A benchmark that ended well says so itself, whether the controller is up or not.
        let alone = marks.end.as_ref().filter(|end| end.launched && end.exit_code == 0);
        let (rows, marks) = match alone {
            Some(_) => (Vec::new(), marks),
            None => self.known(folder, name).await?,
        };
        let mut finding = state::standing(&rows, &marks, now);
        if let Some(nodes) = state::unexplained(&rows, &marks, &finding) {
            // A prolog that fails ends a job that may not be begun again as if somebody had cancelled it.
            let drained = self.commands.drained(nodes, None).await?;
            if drained.iter().any(|node| node.contains("Prolog error")) {
                let why = format!("a node of {nodes} could not begin it");
                finding = Finding::Lost { code: "LAUNCH_FAILED".to_owned(), why };
            }
        }
        let open = rows.iter().any(|row| !matches!(row.kind(), Kind::Ended | Kind::Lost));
        // What is called lost must not go on, and what is to end must not begin: it may have come after its cancel.
        let over = matches!(finding, Finding::Lost { .. } | Finding::Never { .. });
        if over {
            let marked = name.to_owned();
            read(folder, move |folder| folder.jobs().cancel(&marked)).await?;
        }
        if open && (over || marks.cancelled) {
            self.commands.cancel(name).await?;
        }
        let standing = match finding {
            Finding::Absent => Standing::Absent,
            Finding::Going => Standing::Going,
            Finding::Waiting(reason) => {
                read(folder, move |folder| folder.waits(&reason, now)).await?;
                Standing::Going
            }
            Finding::Ended(end) => Standing::Ended(end),
            Finding::Lost { code, why } if code == "LAUNCH_FAILED" => {
                let drained = self.commands.drained("", slurm.partition.as_deref()).await?.join(", ");
                let why = if drained.is_empty() { why } else { format!("{why}; out of service: {drained}") };
                Standing::Lost { code, why }
            }
            Finding::Lost { code, why } => {
                // Which of its nodes it was is for whoever takes it out; that nobody can say now changes nothing.
                let nodes = rows.last().map_or("", |row| row.nodes.as_str());
                let nodes =
                    if nodes.is_empty() { None } else { self.commands.drained(nodes, None).await.ok() };
                let bad = nodes.unwrap_or_default().join(", ");
                let why = if bad.is_empty() { why } else { format!("{why}; out of service: {bad}") };
                Standing::Lost { code, why }
            }
            Finding::Never { reason } => {
                let message =
                    format!("the job can never start: {reason}; correct the workflow or the cluster");
                return Err(PortError::Final(Failure::new(Class::Input, reason, message)));
            }
        };
        read(folder, move |folder| folder.tell(standing)).await
    }

    fn paced(&self, name: &str) -> bool {
        let going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        going.get(name).is_some_and(|asked| asked.elapsed() < PACE)
    }

    fn pace(&self, name: &str, standing: Option<&Standing>) {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        match standing {
            Some(Standing::Going) => going.insert(name.to_owned(), Instant::now()),
            _ => going.remove(name),
        };
    }
}

/// Works in a job's folder, which may be far away.
async fn read<T: Send + 'static>(
    folder: &Folder,
    work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
) -> Result<T, PortError> {
    let folder = folder.clone();
    let done = tokio::task::spawn_blocking(move || work(&folder)).await.map_err(PortError::passing)?;
    done.map_err(PortError::passing)
}

/// The settings of a cluster and the folder of a job on it.
fn place(cluster: &Cluster, name: &str) -> Result<(Slurm, Folder), PortError> {
    let wrong = |message: String| PortError::Final(Failure::new(Class::Input, "SETTINGS", message));
    let slurm =
        Slurm::of(cluster).map_err(|error| wrong(format!("cluster {}: endpoint: {error}", cluster.name)))?;
    let slurm = slurm.ok_or_else(|| wrong(format!("cluster {}: endpoint: it is no Slurm", cluster.name)))?;
    if let Some((field, problem)) = slurm.problems().first() {
        return Err(wrong(format!("cluster {}: {field}: {problem}", cluster.name)));
    }
    // It is a folder's name, and one of a list to squeue and scancel.
    let letters = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"_.-".contains(&letter));
    if !letters || name.len() > 128 || !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        let shown: String = name.chars().take(60).flat_map(char::escape_debug).collect();
        return Err(wrong(format!(
            "job name: expected at most 128 letters, digits and any of _.-, beginning with a letter or a digit, found `{shown}`"
        )));
    }
    let folder = Folder::of(&slurm.shared_folder, name);
    Ok((slurm, folder))
}

#[async_trait::async_trait]
impl Scheduler for SlurmJobs {
    async fn submit(&self, job: &Job) -> Result<String, PortError> {
        let (slurm, folder) = place(&job.cluster, &job.name)?;
        self.pace(&job.name, None);
        let marks = read(&folder, Folder::marks).await?;
        if let Some(number) = marks.submitted {
            return Ok(number.to_string());
        }
        if marks.cancelled {
            return Ok(job.name.clone()); // it is not to begin: there is nothing to submit
        }
        if let Some(number) = self.adopt(&folder, &job.name).await? {
            return Ok(number.to_string());
        }
        let programs = match &job.image {
            Some(image) => {
                let programs = folder.jobs().image_folder(&image.digest);
                stage(&*self.store, image, &programs).await?;
                Some(programs.display().to_string())
            }
            None => slurm.programs.clone(),
        };
        let path = folder.path();
        let text = script::script(job, &slurm, &path.display().to_string(), programs.as_deref());
        read(&folder, move |folder| folder.write_script(&text)).await?;
        let options = script::options(job, &slurm, &path.display().to_string());
        let submitted = self.commands.submit(&options, &path).await;
        // Looked for again whatever was said: an answer may be lost, and somebody else may have been as quick.
        let number = match (self.adopt(&folder, &job.name).await?, submitted) {
            (Some(number), _) => number,
            (None, Ok(number)) => read(&folder, move |folder| folder.note_number(number)).await?,
            (None, Err(error)) => return Err(error),
        };
        if read(&folder, Folder::marks).await?.cancelled {
            self.commands.cancel(&job.name).await?; // cancelled meanwhile
        }
        Ok(number.to_string())
    }

    async fn look(&self, cluster: &Cluster, name: &str) -> Result<Standing, PortError> {
        let (slurm, folder) = place(cluster, name)?;
        if self.paced(name) {
            return Ok(Standing::Going);
        }
        let standing = self.stands(&slurm, &folder, name).await;
        self.pace(name, standing.as_ref().ok());
        standing
    }

    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        let (_, folder) = place(cluster, name)?;
        self.pace(name, None);
        let marked = name.to_owned();
        read(&folder, move |folder| folder.jobs().cancel(&marked)).await?;
        self.commands.cancel(name).await
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        written::outputs(output_folder(cluster, name)?).await
    }

    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<Reader, PortError> {
        written::output(output_folder(cluster, name)?, file).await
    }

    async fn ending(
        &self,
        cluster: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<Ending>, PortError> {
        written::ending(output_folder(cluster, name)?, file, bytes).await.map(Some)
    }

    async fn nodes(&self, cluster: &Cluster, name: &str) -> Result<Vec<String>, PortError> {
        let (_, folder) = place(cluster, name)?;
        let marks = read(&folder, Folder::marks).await?;
        // The job's own word stays; the controller forgets.
        let mut nodes = marks.end.map(|end| end.nodes).unwrap_or_default();
        if nodes.is_empty() {
            let rows = self.known(&folder, name).await?.0;
            nodes = rows.last().map(|row| row.nodes.clone()).unwrap_or_default();
        }
        if nodes.is_empty() {
            let why = format!("nobody knows any more which nodes {name} ran on");
            return Err(PortError::Final(Failure::new(Class::Infrastructure, "NODES_UNKNOWN", why)));
        }
        self.commands.expand(&nodes).await
    }

    fn drain_command(&self, _: &Cluster, node: &str, reason: &str) -> Option<String> {
        let [nodename, reason] = [format!("nodename={node}"), format!("reason={reason}")];
        Some(format!("scontrol update {} state=drain {}", script::quote(&nodename), script::quote(&reason)))
    }

    async fn drain(&self, _: &Cluster, node: &str, reason: &str) -> Result<(), PortError> {
        self.commands.drain(node, reason).await
    }
}

fn output_folder(cluster: &Cluster, name: &str) -> Result<PathBuf, PortError> {
    Ok(place(cluster, name)?.1.jobs().output_folder(name))
}
