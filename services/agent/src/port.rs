//! What the agent needs of the outside world.

use kit::PortError;
use ledger::Reader;
use terms::{Cluster, Image, JobEnd, Span, Workload};

/// A benchmark to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name, which is its identity.
    pub name: String,
    /// Where.
    pub cluster: Cluster,
    /// The programs; none when the cluster has them.
    pub image: Option<Image>,
    /// The arguments.
    pub workload: Workload,
    /// How long it may run.
    pub limit: Span,
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

    /// Names of the files a job wrote.
    ///
    /// # Errors
    /// When the cluster does not answer.
    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Vec<String>, PortError>;

    /// One file a job wrote.
    ///
    /// # Errors
    /// When the cluster does not answer or there is no such file.
    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<Reader, PortError>;
}
