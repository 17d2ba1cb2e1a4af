//! The port to schedulers, which run jobs on a cluster.

use std::collections::BTreeMap;

use ledger::ObjectReader;
use model::{Class, Cluster, CommandId, Failure, Image, JobEnd, Program, Span, Timestamp};
use service::PortError;

/// A benchmark job, as submitted to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Name and identity of the job.
    pub name: String,
    /// Nodes of the job: every node of this cluster, which may be a part of a larger one ([`Cluster::part`]).
    pub cluster: Cluster,
    /// Image with the programs; `None` if they are installed on the cluster.
    pub image: Option<Image>,
    /// Program and arguments.
    pub program: Program,
    /// Environment variables of each rank; they override those of the cluster's settings.
    pub environment: BTreeMap<String, String>,
    /// Whether the job takes [hardware evidence](crate::evidence) of each node.
    pub evidence: bool,
    /// Maximum duration of the job.
    pub limit: Span,
    /// Labels that identify the run: `burnin-run`, `burnin-attempt`, `burnin-expires`.
    pub labels: BTreeMap<String, String>,
}

impl JobSpec {
    /// The job of a command of the stage `job`: named after the command, with labels for the run and for the end of the job's
    /// time limit.
    pub fn of_command(
        id: &CommandId,
        (cluster, image): (&Cluster, Option<&Image>),
        (program, environment, evidence): (&Program, &BTreeMap<String, String>, bool),
        limit: Span,
        now: Timestamp,
    ) -> Self {
        let labels = [
            ("burnin-run", id.run.to_string()),
            ("burnin-attempt", id.attempt.to_string()),
            ("burnin-expires", (now + limit).to_string()),
        ];
        Self {
            name: id.resource_name(),
            cluster: cluster.clone(),
            image: image.cloned(),
            program: program.clone(),
            environment: environment.clone(),
            evidence,
            limit,
            labels: labels.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    /// Environment of each rank: the cluster's variables, overridden by the job's.
    pub fn environment_over(&self, cluster: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = cluster.clone();
        all.extend(self.environment.clone());
        all
    }
}

/// State of a job, as its scheduler reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// The scheduler has no job of this name.
    Absent,
    /// Pending or running.
    Active,
    /// The job's program ended, with or without success.
    Ended(JobEnd),
    /// Ended by the infrastructure.
    Lost {
        /// Code of the scheduler, such as `NODE_FAIL`.
        code: String,
        /// Reason of the loss, for display.
        why: String,
    },
    /// Ended or not started because other jobs need its nodes. Only on clusters with the setting `yields`.
    Yielded {
        /// Reason, for display.
        why: String,
    },
}

/// The files that a job wrote, and the entries that cannot be collected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Regular files.
    pub files: Vec<WrittenFile>,
    /// Entries that are not regular files or cannot be read: name and reason.
    pub others: Vec<(String, String)>,
}

/// A file written by a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenFile {
    /// Path with `/` as separator; may contain any characters. The adapter escapes bytes that are not UTF-8
    /// so that no two names are equal.
    pub name: String,
    /// Size in bytes at the time of listing; `None` if unknown.
    pub size_bytes: Option<u64>,
    /// Identity of the file, if known: after a rotation another file has the same name.
    pub identity: Option<(u64, u64)>,
}

impl<N: Into<String>> FromIterator<N> for Outputs {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let files = names.into_iter().map(|name| WrittenFile { name: name.into(), ..WrittenFile::default() });
        Self { files: files.collect(), others: Vec::new() }
    }
}

/// A file or a command of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedText {
    /// Name of the file, or the kind of command.
    pub name: String,
    /// Complete text of the file or the command line.
    pub text: String,
}

/// The last bytes of a file.
pub struct FileTail {
    /// Offset of the first byte.
    pub from: u64,
    /// Content from the offset on.
    pub body: ObjectReader,
}

/// A scheduler that runs jobs.
#[async_trait::async_trait]
pub trait Scheduler: Send + Sync + 'static {
    /// Submits a job unless a job of that name exists. Returns the scheduler's handle.
    ///
    /// # Errors
    /// Returns an error if the scheduler request fails: [`PortError::Permanent`] if the job can never run.
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError>;

    /// Files and commands that [`Scheduler::submit`] would write and execute for a job, rendered by the same code
    /// without any write or request. Empty for a kind that submits nothing.
    ///
    /// # Errors
    /// Returns a permanent error if the job can never run.
    fn submission(&self, _: &JobSpec) -> Result<Vec<SubmittedText>, PortError> {
        Ok(Vec::new())
    }

    /// State of a job.
    ///
    /// # Errors
    /// Returns an error if the scheduler request fails.
    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError>;

    /// Cancels a job. A job that was not submitted yet must not start afterwards; it is then cancelled or absent.
    ///
    /// # Errors
    /// Returns an error if the scheduler request fails.
    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError>;

    /// Lists the output of a job; empty for an unknown job. Links are not followed.
    ///
    /// # Errors
    /// Returns an error if the cluster request fails.
    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError>;

    /// Opens one output file, up to its current end.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read: [`PortError::Permanent`] if it is deleted or not permitted. Other
    /// files may still be readable.
    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError>;

    /// Deletes the objects of a job from its cluster, after its output is stored. Returns once no object remains.
    ///
    /// # Errors
    /// Returns an error if an object remains: [`PortError::Transient`].
    async fn release(&self, _: &Cluster, _name: &str) -> Result<(), PortError> {
        Ok(())
    }

    /// The last `bytes` bytes of a file, without reading the rest; `None` if the adapter cannot do this.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, like [`Scheduler::output`].
    async fn read_tail(
        &self,
        _: &Cluster,
        _: &str,
        _: &str,
        _bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        Ok(None)
    }

    /// The nodes that a job ran on, by the names accepted in [`JobSpec::cluster`].
    ///
    /// # Errors
    /// Returns an error if the scheduler request fails or the nodes are no longer recorded.
    async fn nodes(&self, cluster: &Cluster, _name: &str) -> Result<Vec<String>, PortError> {
        Ok(cluster.nodes.iter().map(|node| node.name.clone()).collect())
    }

    /// A subset of the cluster's nodes, as a cluster whose jobs run on these nodes only.
    ///
    /// # Errors
    /// Returns a permanent error if the cluster's settings cannot be read.
    fn part(&self, cluster: &Cluster, names: &[&str]) -> Result<Cluster, PortError> {
        Ok(cluster.part(names, cluster.access.clone()))
    }

    /// Shell command for draining a node by hand; `None` if this kind of cluster has no such command.
    fn drain_command(&self, _: &Cluster, _node: &str, _reason: &str) -> Option<String> {
        None
    }

    /// Drains a node: its running jobs may finish, no new job starts. Idempotent.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`PortError::Permanent`] if it is not permitted, or the node was
    /// drained for another reason.
    async fn drain(&self, _: &Cluster, _node: &str, _reason: &str) -> Result<(), PortError> {
        let why = "nodes of this kind of cluster cannot be drained";
        Err(PortError::Permanent(Failure::new(Class::Input, "NO_DRAIN", why)))
    }

    /// Shell command for returning a drained node to service by hand; `None` if this kind of cluster has no
    /// such command.
    fn return_command(&self, _: &Cluster, _node: &str) -> Option<String> {
        None
    }

    /// Returns a node to service that Burnin drained: new jobs may start on it. Idempotent.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`PortError::Permanent`] if it is not permitted, or the node was
    /// drained for another reason ([`model::Drained::is_ours`]).
    async fn return_node(&self, _: &Cluster, _node: &str) -> Result<(), PortError> {
        let why = "nodes of this kind of cluster cannot be drained";
        Err(PortError::Permanent(Failure::new(Class::Input, "NO_DRAIN", why)))
    }
}
