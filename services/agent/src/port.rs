//! What the agent needs of the outside world.

use std::collections::BTreeMap;

use ledger::Reader;
use model::{Class, Cluster, Failure, Image, JobEnd, Span, Workload};
use service::PortError;

/// A benchmark to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name, which is its identity.
    pub name: String,
    /// Where: on every node of this cluster, which may be a part of a larger one ([`Cluster::part`]), and on no other.
    pub cluster: Cluster,
    /// The programs; none when the cluster has them.
    pub image: Option<Image>,
    /// The arguments.
    pub workload: Workload,
    /// How long it may run.
    pub limit: Span,
    /// Whose it is, for whoever finds it: `burnin-run`, `burnin-attempt`, `burnin-expires`.
    pub labels: BTreeMap<String, String>,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The scheduler does not know it.
    Absent,
    /// Pending or running.
    Going,
    /// It ran to an end of its own, well or badly.
    Ended(JobEnd),
    /// The infrastructure took it away.
    Lost {
        /// The scheduler's word: `NODE_FAIL`, ...
        code: String,
        /// What happened.
        why: String,
    },
}

/// What a job left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Regular files.
    pub files: Vec<Written>,
    /// What is none, or cannot be had, by name: and why.
    pub others: Vec<(String, String)>,
}

/// A file that a job wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its name, with `/` between folders. It may be any text; bytes that are no text must be escaped by the adapter so
    /// that no two names are alike.
    pub name: String,
    /// Its size when it was listed, bytes, where the adapter can tell.
    pub size_bytes: Option<u64>,
    /// Which file it is, where the adapter can tell: after a rotation another one has the same name.
    pub identity: Option<(u64, u64)>,
}

impl<N: Into<String>> FromIterator<N> for Outputs {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let files = names.into_iter().map(|name| Written { name: name.into(), ..Written::default() });
        Self { files: files.collect(), others: Vec::new() }
    }
}

/// The end of a file.
pub struct Ending {
    /// Where it begins, bytes.
    pub from: u64,
    /// Its bytes.
    pub body: Reader,
}

/// Something that runs jobs.
#[async_trait::async_trait]
pub trait Scheduler: Send + Sync + 'static {
    /// Submits a job unless one of that name exists, and says what the scheduler calls it.
    ///
    /// # Errors
    /// [`PortError::Final`] when it can never run.
    async fn submit(&self, job: &Job) -> Result<String, PortError>;

    /// Where a job stands.
    ///
    /// # Errors
    /// When the scheduler does not answer.
    async fn look(&self, cluster: &Cluster, name: &str) -> Result<Standing, PortError>;

    /// Asks a job to end. One that was not submitted yet must not begin afterwards, and is found as cancelled or absent.
    ///
    /// # Errors
    /// When the scheduler does not answer.
    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError>;

    /// What a job left behind; nothing of a job that is not known. Links are not followed.
    ///
    /// # Errors
    /// When the cluster does not answer.
    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError>;

    /// One file a job wrote, from its beginning to the end it has by then.
    ///
    /// # Errors
    /// [`PortError::Final`] when this file can never be read: it is gone, or may not be. The others still are.
    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<Reader, PortError>;

    /// Takes away what is left of a job on its cluster, once its output is safe, and says so when nothing is left.
    ///
    /// # Errors
    /// [`PortError::Passing`] while something is still there.
    async fn release(&self, _: &Cluster, _name: &str) -> Result<(), PortError> {
        Ok(())
    }

    /// The last `bytes` bytes of such a file, without reading what stands before; none where that cannot be done.
    ///
    /// # Errors
    /// Those of [`Scheduler::output`].
    async fn ending(&self, _: &Cluster, _: &str, _: &str, _bytes: u64) -> Result<Option<Ending>, PortError> {
        Ok(None)
    }

    /// The nodes that a job ran on, by the names that jobs can be given by.
    ///
    /// # Errors
    /// When the scheduler does not answer, or nobody knows any more.
    async fn nodes(&self, cluster: &Cluster, _name: &str) -> Result<Vec<String>, PortError> {
        Ok(cluster.nodes.iter().map(|node| node.name.clone()).collect())
    }

    /// The command with which a person takes a node out of service; none where there is no such thing.
    fn drain_command(&self, _: &Cluster, _node: &str, _reason: &str) -> Option<String> {
        None
    }

    /// Takes a node out of service once its jobs have ended. Done twice it is done once.
    ///
    /// # Errors
    /// [`PortError::Final`] when it is not going to be: it may not be, or somebody else took it out.
    async fn drain(&self, _: &Cluster, _node: &str, _reason: &str) -> Result<(), PortError> {
        let why = "nodes of this kind of cluster cannot be taken out of service";
        Err(PortError::Final(Failure::new(Class::Input, "NO_DRAIN", why)))
    }
}
