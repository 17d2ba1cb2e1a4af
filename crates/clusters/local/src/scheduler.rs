//! Jobs on a cluster of local processes.

use std::{io, path::PathBuf, sync::Arc};

use cluster_api::{
    FileTail, JobSpec, JobStatus, Outputs, Scheduler, SubmittedText, output_folder, pairs, program,
    settings::wrong_kind, shell::quote, stage,
};
use ledger::{ObjectReader, Store};
use model::{Class, Cluster, Failure, Image, PROCESSES};
use service::PortError;
use supervisor::{JobFolder, JobRequest, JobState};

/// Scheduler of [`LocalClusters`](crate::LocalClusters): each node runs the command as its child process.
pub struct LocalJobs {
    store: Arc<dyn Store>,
}

impl LocalJobs {
    /// `store`: bucket of the images.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn stage(&self, jobs: &JobFolder, image: &Image) -> Result<PathBuf, PortError> {
        let folder = jobs.image_folder(&image.digest);
        stage(&*self.store, image, &folder).await?;
        Ok(folder)
    }
}

fn jobs(cluster: &Cluster) -> Result<JobFolder, PortError> {
    let folder = cluster.access.processes_folder();
    folder.map(JobFolder::at).ok_or_else(|| wrong_kind(cluster, PROCESSES))
}

/// The command of each process. `folder`: the staged image.
fn argv(job: &JobSpec, folder: Option<&str>) -> Vec<String> {
    let slots = job.cluster.nodes.first().map_or(1, |node| node.slots);
    let mut argv = program::words(&job.program, folder, slots);
    if job.program.command().is_some() || job.evidence {
        let script = match program::rounds_of_pairs(&job.program) {
            Some(rounds) => {
                let nodes: Vec<_> = job.cluster.nodes.iter().map(|node| node.name.clone()).collect();
                let takes_evidence = program::takes_evidence_of_pairs(job);
                pairs::on_one_machine(&nodes, rounds, takes_evidence, &program::start(job, folder))
            }
            None => program::start(job, folder),
        };
        argv.splice(0..0, ["bash", "-c", &script, "burnin"].map(str::to_owned));
    }
    argv
}

/// Nodes whose processes run the command.
fn nodes(job: &JobSpec) -> Vec<String> {
    // One process starts both ends of every pair.
    let most = if program::rounds_of_pairs(&job.program).is_some() { 1 } else { usize::MAX };
    job.cluster.nodes.iter().take(most).map(|node| node.name.clone()).collect()
}

#[async_trait::async_trait]
impl Scheduler for LocalJobs {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        let jobs = jobs(&job.cluster)?;
        let folder = match &job.image {
            Some(image) => Some(self.stage(&jobs, image).await?.display().to_string()),
            None => None,
        };
        let (argv, nodes) = (argv(job, folder.as_deref()), nodes(job));
        let (limit, labels) = (job.limit, job.labels.clone());
        let independent = program::is_per_node(&job.program);
        let request = JobRequest { argv, env: job.environment.clone(), limit, labels, nodes, independent };
        match jobs.submit(&job.name, &request) {
            Ok(()) => Ok(job.name.clone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(PortError::Permanent(Failure::new(Class::ClusterLost, "CLUSTER_GONE", error.to_string())))
            }
            Err(error) => Err(PortError::transient(error)),
        }
    }

    fn submission(&self, job: &JobSpec) -> Result<Vec<SubmittedText>, PortError> {
        let jobs = jobs(&job.cluster)?;
        let folder = job.image.as_ref().map(|image| jobs.image_folder(&image.digest).display().to_string());
        let variables = job.environment.iter().map(|(name, value)| format!("{name}={}", quote(value)));
        let words = argv(job, folder.as_deref());
        let words: Vec<_> = variables.chain(words.iter().map(|word| quote(word))).collect();
        let name = match nodes(job).len() {
            1 => "command".to_owned(),
            nodes => format!("command, on each of {nodes} processes"),
        };
        Ok(vec![SubmittedText { name, text: words.join(" ") + "\n" }])
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        Ok(match jobs(cluster)?.poll(name).map_err(PortError::transient)? {
            JobState::Absent => JobStatus::Absent,
            JobState::Running => JobStatus::Active,
            JobState::Ended(end) => JobStatus::Ended(end),
            JobState::NodeFail { node } => JobStatus::Lost {
                code: "NODE_FAIL".to_owned(),
                why: format!("{node} was lost while the job ran"),
            },
            JobState::ClusterGone => {
                JobStatus::Lost { code: "CLUSTER_GONE".to_owned(), why: "the cluster is deleted".to_owned() }
            }
        })
    }

    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        match jobs(cluster)?.cancel(name) {
            // All jobs of a deleted cluster have ended, so the cancel succeeds.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PortError::transient(error)),
            _ => Ok(()),
        }
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        output_folder::outputs(jobs(cluster)?.output_folder(name)).await
    }

    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError> {
        output_folder::output(jobs(cluster)?.output_folder(name), file).await
    }

    async fn read_tail(
        &self,
        cluster: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        output_folder::read_tail(jobs(cluster)?.output_folder(name), file, bytes).await.map(Some)
    }
}
