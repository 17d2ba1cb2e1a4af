//! Jobs on an existing Slurm cluster, through Slurm's own commands.
//!
//! At most one job per command: the job name is its identity. The agent looks it up before and after a submission, Slurm lets a
//! second job of the name wait for the first, and only the execution of the job script that creates the link `claim` runs the
//! benchmark. The end is read from the controller, then from the accounting if it is enabled, and from the job's folder; the
//! first end state recorded is final.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use cluster_api::{
    FileTail, JobSpec, JobStatus, Outputs, PollPace, Scheduler, Settings, SubmittedText, output_folder,
    settings::check_job_name, shell::quote, stage, unwritable,
};
use ledger::{ObjectReader, Store};
use model::{Class, Cluster, Failure};
use service::{Clock, PortError, SystemClock};

use crate::{
    Slurm,
    commands::Commands,
    folder::{SlurmFolder, UnwantedJob, blocking, read},
    retest, script,
    state::{self, LauncherEnd, Marks, SlurmFinding, SlurmJobRow, SlurmStateKind},
    yields,
};

/// Minimum interval between polls of a running job.
const PACE: Duration = Duration::from_secs(1);
/// End states of a job that yields to others: preempted, or not started before its deadline.
const YIELDED: [&str; 2] = ["PREEMPTED", "DEADLINE"];

/// Scheduler of Slurm clusters.
pub struct SlurmJobs {
    store: Arc<dyn Store>,
    commands: Commands,
    pace: PollPace,
}

impl SlurmJobs {
    /// `store`: bucket of the images. Finds Slurm's commands in the `PATH`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, commands: Commands::default(), pace: PollPace::new(PACE) }
    }

    /// Searches `folder` for commands before the `PATH`.
    #[must_use]
    pub fn with_commands(mut self, folder: impl Into<OsString>) -> Self {
        self.commands.first = Some(folder.into());
        self
    }

    /// All records of a job: the controller's rows, the accounting's if the controller has purged the job, and the marks of its folder. The
    /// marks are not older than the rows, and the rows not older than the claim.
    async fn job_records(
        &self,
        folder: &SlurmFolder,
        name: &str,
    ) -> Result<(Vec<SlurmJobRow>, Marks), PortError> {
        let mut before = read(folder, SlurmFolder::marks).await?;
        loop {
            let mut rows = self.commands.jobs(name).await?;
            if rows.is_empty() {
                rows = self.commands.accounting_rows(name).await?;
            }
            let marks = read(folder, SlurmFolder::marks).await?;
            // Rows older than the claim would show a started job as pending, and the caller would treat it as requeued. A claim never
            // changes: if the claims before and after the query are equal, the rows are current.
            if marks.claim == before.claim {
                return Ok((rows, marks));
            }
            before = marks;
        }
    }

    /// Id of the existing job of this name; `None` without one. Cancels waiting duplicates of the job.
    async fn adopt(&self, folder: &SlurmFolder, name: &str) -> Result<Option<u64>, PortError> {
        let (mut rows, marks) = self.job_records(folder, name).await?;
        rows.sort_by_key(|row| row.id);
        let started = marks.claim.as_deref().and_then(|claim| claim.split('.').next()?.parse().ok());
        rows.retain(|row| !state::was_rejected(row));
        let Some(number) = marks.submitted.or(started).or(rows.first().map(|row| row.id)) else {
            return Ok(None);
        };
        // Keep the first waiting job only if none has started. A later one was submitted after a lost response.
        let none_started = started.is_none() && rows.iter().all(|row| row.kind() != SlurmStateKind::Active);
        for row in
            rows.iter().filter(|row| row.kind() == SlurmStateKind::Waiting).skip(usize::from(none_started))
        {
            self.commands.cancel_waiting(row.id).await?;
        }
        read(folder, move |folder| folder.note_number(number)).await.map(Some)
    }

    /// State of a job. Also ends a job that must not continue, and records the end state, which is then final.
    async fn status(&self, slurm: &Slurm, folder: &SlurmFolder, name: &str) -> Result<JobStatus, PortError> {
        if let Some(recorded) = read(folder, SlurmFolder::recorded_end).await? {
            return Ok(recorded);
        }
        let now = SystemClock.now();
        let (rows, marks) = self.records_unless_succeeded(folder, name).await?;
        let finding = match read(folder, SlurmFolder::unwanted).await? {
            Some(unwanted) => unwanted.into(),
            None => {
                let finding = self.explained(state::derive(&rows, &marks, now), &rows, &marks).await?;
                self.note_unwanted(slurm, folder, finding, &rows, &marks).await?
            }
        };
        self.stop_unwanted(folder, name, &finding, &rows, &marks).await?;
        let status = match finding {
            SlurmFinding::Absent => JobStatus::Absent,
            SlurmFinding::Active => JobStatus::Active,
            SlurmFinding::Waiting(reason) => {
                read(folder, move |folder| folder.waits(&reason, now)).await?;
                JobStatus::Active
            }
            SlurmFinding::Ended(end) => JobStatus::Ended(end),
            SlurmFinding::Lost { code, why } if slurm.yields && YIELDED.contains(&code.as_str()) => {
                JobStatus::Yielded { why }
            }
            SlurmFinding::Lost { code, why } => JobStatus::Lost { code, why },
            SlurmFinding::Unschedulable { reason } => {
                let message =
                    format!("the job can never start: {reason}; correct the workflow or the cluster");
                retest::end(&self.commands, slurm, folder, name).await?;
                return Err(PortError::Permanent(Failure::new(Class::Input, reason, message)));
            }
        };
        if !matches!(status, JobStatus::Absent | JobStatus::Active) {
            retest::end(&self.commands, slurm, folder, name).await?;
        }
        read(folder, move |folder| folder.record_end(status)).await
    }

    /// State from the folder's marks and the controller's rows. A successful benchmark reports its own end, even
    /// without the controller.
    async fn records_unless_succeeded(
        &self,
        folder: &SlurmFolder,
        name: &str,
    ) -> Result<(Vec<SlurmJobRow>, Marks), PortError> {
        let marks = read(folder, SlurmFolder::marks).await?;
        if marks.end.as_ref().is_some_and(LauncherEnd::succeeded) {
            return Ok((Vec::new(), marks));
        }
        self.job_records(folder, name).await
    }

    /// Replaces a cancellation that a failed prolog caused: Slurm then reports a job that must not be requeued as cancelled.
    async fn explained(
        &self,
        finding: SlurmFinding,
        rows: &[SlurmJobRow],
        marks: &Marks,
    ) -> Result<SlurmFinding, PortError> {
        let Some(nodes) = state::unexplained(rows, marks, &finding) else { return Ok(finding) };
        let drained = self.commands.drained(nodes, None).await?;
        if !drained.iter().any(|node| node.contains("Prolog error")) {
            return Ok(finding);
        }
        let why = format!("a node of {nodes} could not start the job");
        Ok(SlurmFinding::Lost { code: "LAUNCH_FAILED".to_owned(), why })
    }

    /// Records why a job must not continue, before it is cancelled: after the cancel Slurm reports the same state as for a job that a user
    /// cancelled. The first record is final.
    async fn note_unwanted(
        &self,
        slurm: &Slurm,
        folder: &SlurmFolder,
        finding: SlurmFinding,
        rows: &[SlurmJobRow],
        marks: &Marks,
    ) -> Result<SlurmFinding, PortError> {
        let unwanted = match finding {
            SlurmFinding::Lost { code, why } if slurm.yields && YIELDED.contains(&code.as_str()) => {
                UnwantedJob::Lost { code, why }
            }
            SlurmFinding::Lost { code, why } => {
                let nodes = state::row_of_job(rows, marks).map_or("", |row| row.nodes.as_str());
                let why = self.with_nodes_out_of_service(slurm, &code, why, nodes).await?;
                UnwantedJob::Lost { code, why }
            }
            SlurmFinding::Unschedulable { reason } => UnwantedJob::Unschedulable { reason },
            other => return Ok(other),
        };
        read(folder, move |folder| folder.note_unwanted(&unwanted)).await.map(SlurmFinding::from)
    }

    /// Cancels a lost job, which must not continue, and a cancelled job, which may have been submitted after the cancel.
    async fn stop_unwanted(
        &self,
        folder: &SlurmFolder,
        name: &str,
        finding: &SlurmFinding,
        rows: &[SlurmJobRow],
        marks: &Marks,
    ) -> Result<(), PortError> {
        let over = matches!(finding, SlurmFinding::Lost { .. } | SlurmFinding::Unschedulable { .. });
        if over {
            let marked = name.to_owned();
            read(folder, move |folder| folder.jobs().cancel(&marked)).await?;
        }
        let open = rows.iter().any(|row| !matches!(row.kind(), SlurmStateKind::Ended | SlurmStateKind::Lost));
        if open && (over || marks.cancelled) {
            self.commands.cancel(name).await?;
        }
        Ok(())
    }

    /// Adds the nodes that are down or drained in Slurm to the description of a lost job.
    async fn with_nodes_out_of_service(
        &self,
        slurm: &Slurm,
        code: &str,
        why: String,
        nodes: &str,
    ) -> Result<String, PortError> {
        let drained = if code == "LAUNCH_FAILED" {
            self.commands.drained("", slurm.partition.as_deref()).await?
        } else if nodes.is_empty() {
            Vec::new()
        } else {
            // Naming the bad node only helps the operator: an error here has no effect.
            self.commands.drained(nodes, None).await.unwrap_or_default()
        };
        Ok(match drained.is_empty() {
            true => why,
            false => format!("{why}; out of service: {}", drained.join(", ")),
        })
    }
}

async fn create(folder: &SlurmFolder) -> Result<(), PortError> {
    blocking(folder, SlurmFolder::create).await?.map_err(|error| unwritable(&folder.path(), &error))
}

/// Returns the Slurm settings of the job's cluster, and the job's folder.
fn job_context(cluster: &Cluster, name: &str) -> Result<(Slurm, SlurmFolder), PortError> {
    let slurm = Slurm::of(cluster)?;
    check_job_name(name)?;
    let folder = SlurmFolder::of(&slurm.shared_folder, name);
    Ok((slurm, folder))
}

#[async_trait::async_trait]
impl Scheduler for SlurmJobs {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        let (slurm, folder) = job_context(&job.cluster, &job.name)?;
        self.pace.forget(&job.name);
        let marks = read(&folder, SlurmFolder::marks).await?;
        if let Some(number) = marks.submitted {
            return Ok(number.to_string());
        }
        if marks.cancelled {
            return Ok(job.name.clone()); // a cancelled or ended job is not submitted
        }
        if let Some(number) = self.adopt(&folder, &job.name).await? {
            return Ok(number.to_string());
        }
        if slurm.yields {
            yields::check(&slurm).await?;
        }
        create(&folder).await?;
        if let Some(image) = &job.image {
            stage(&*self.store, image, &folder.jobs().image_folder(&image.digest)).await?;
        }
        let path = folder.path();
        let (text, options) = rendered(job, &slurm, &folder);
        if let Err(error) = retest::begin(&self.commands, &slurm, &folder, &job.name).await {
            if matches!(error, PortError::Permanent(_)) {
                retest::end(&self.commands, &slurm, &folder, &job.name).await?;
            }
            return Err(error);
        }
        read(&folder, move |folder| folder.write_script(&text)).await?;
        let submitted = self.commands.submit(&options, &path).await;
        // Look up the job in any case: a response may be lost, or another agent may have submitted it.
        let number = match (self.adopt(&folder, &job.name).await?, submitted) {
            (Some(number), _) => number,
            (None, Ok(number)) => read(&folder, move |folder| folder.note_number(number)).await?,
            (None, Err(error)) => {
                if matches!(error, PortError::Permanent(_)) {
                    retest::end(&self.commands, &slurm, &folder, &job.name).await?;
                }
                return Err(error);
            }
        };
        if read(&folder, SlurmFolder::marks).await?.cancelled {
            // The job was cancelled after the submission began; its end may be recorded already.
            self.commands.cancel(&job.name).await?;
            retest::end(&self.commands, &slurm, &folder, &job.name).await?;
        }
        Ok(number.to_string())
    }

    fn submission(&self, job: &JobSpec) -> Result<Vec<SubmittedText>, PortError> {
        let (slurm, folder) = job_context(&job.cluster, &job.name)?;
        let (text, options) = rendered(job, &slurm, &folder);
        let words: Vec<_> =
            Commands::submission(&options, &folder.path()).iter().map(|word| quote(word)).collect();
        let command = SubmittedText { name: "command".to_owned(), text: words.join(" ") + "\n" };
        let script = folder.path().join("job.sh").display().to_string();
        Ok(vec![command, SubmittedText { name: script, text }])
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        let (slurm, folder) = job_context(cluster, name)?;
        if self.pace.is_recent(name) {
            return Ok(JobStatus::Active);
        }
        let status = self.status(&slurm, &folder, name).await;
        self.pace.record(name, status.as_ref().ok());
        status
    }

    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        let (_, folder) = job_context(cluster, name)?;
        self.pace.forget(name);
        let marked = name.to_owned();
        read(&folder, move |folder| folder.jobs().cancel(&marked)).await?;
        self.commands.cancel(name).await
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        output_folder::outputs(folder_of_output(cluster, name)?).await
    }

    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError> {
        output_folder::output(folder_of_output(cluster, name)?, file).await
    }

    async fn read_tail(
        &self,
        cluster: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        output_folder::read_tail(folder_of_output(cluster, name)?, file, bytes).await.map(Some)
    }

    async fn nodes(&self, cluster: &Cluster, name: &str) -> Result<Vec<String>, PortError> {
        let (_, folder) = job_context(cluster, name)?;
        let marks = read(&folder, SlurmFolder::marks).await?;
        // The job's own record stays; the controller purges jobs.
        let mut nodes = marks.end.map(|end| end.nodes).unwrap_or_default();
        if nodes.is_empty() {
            let (rows, marks) = self.job_records(&folder, name).await?;
            nodes = state::row_of_job(&rows, &marks).map(|row| row.nodes.clone()).unwrap_or_default();
        }
        if nodes.is_empty() {
            let why = format!("Slurm no longer lists the nodes of {name}");
            return Err(PortError::Permanent(Failure::new(Class::Infrastructure, "NODES_UNKNOWN", why)));
        }
        self.commands.expand(&nodes).await
    }

    fn part(&self, cluster: &Cluster, names: &[&str]) -> Result<Cluster, PortError> {
        let nodes = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let mut part = Slurm { nodes, node_list: Some(names.join(",")), ..Slurm::of(cluster)? };
        part.retest.retain(|node| names.contains(&node.as_str()));
        Ok(cluster.part(names, part.access()))
    }

    fn drain_command(&self, _: &Cluster, node: &str, reason: &str) -> Option<String> {
        let [nodename, reason] = [format!("nodename={node}"), format!("reason={reason}")];
        Some(format!("scontrol update {} state=drain {}", quote(&nodename), quote(&reason)))
    }

    async fn drain(&self, _: &Cluster, node: &str, reason: &str) -> Result<(), PortError> {
        self.commands.drain(node, reason).await
    }

    fn return_command(&self, _: &Cluster, node: &str) -> Option<String> {
        Some(format!("scontrol update {} state=resume", quote(&format!("nodename={node}"))))
    }

    async fn return_node(&self, _: &Cluster, node: &str) -> Result<(), PortError> {
        self.commands.resume(node).await
    }
}

/// The script of a job, and the options of sbatch.
fn rendered(job: &JobSpec, slurm: &Slurm, folder: &SlurmFolder) -> (String, Vec<String>) {
    let programs = match &job.image {
        Some(image) => Some(folder.jobs().image_folder(&image.digest).display().to_string()),
        None => slurm.programs.clone(),
    };
    let path = folder.path().display().to_string();
    (script::script(job, slurm, &path, programs.as_deref()), script::options(job, slurm, &path))
}

fn folder_of_output(cluster: &Cluster, name: &str) -> Result<PathBuf, PortError> {
    Ok(job_context(cluster, name)?.1.jobs().output_folder(name))
}
