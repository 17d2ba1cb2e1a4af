//! Jobs on machines reached by ssh.
//!
//! At most one benchmark per job: only the launcher script that creates the link `claim` in the job's folder on this machine runs the
//! benchmark. The script continues after the agent ends. If the script ends without a result, the job's processes are killed on every host
//! before the job is reported as lost.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use cluster_api::{
    FileTail, JobSpec, JobStatus, Outputs, Scheduler, Settings, SubmittedText, output_folder,
    settings::check_job_name, shell::quote, stage,
};
use ledger::{ObjectReader, Store};
use model::{Cluster, Image, Timestamp};
use service::{Clock, PortError, SystemClock};

use crate::{
    folder::{self, HostsFolder, Launcher},
    script,
    settings::Hosts,
    ssh,
};

/// Maximum wait for a started script to claim its job.
const CLAIM: Duration = Duration::from_secs(10);

/// Runs jobs over ssh on clusters that are lists of hosts.
pub struct HostsJobs {
    store: Arc<dyn Store>,
}

impl HostsJobs {
    /// `store`: bucket of the images.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Downloads the image to this machine; the job's script copies it to the hosts.
    async fn image(&self, hosts: &Hosts, image: Option<&Image>) -> Result<Option<PathBuf>, PortError> {
        let Some(image) = image else { return Ok(None) };
        let folder = image_folder(hosts, image);
        stage(&*self.store, image, &folder).await?;
        Ok(Some(folder))
    }

    /// Result of a job whose launcher ended without a result: the launcher was killed, or this machine was restarted.
    async fn orphaned(&self, hosts: &Hosts, folder: &HostsFolder, job: &str) -> Result<JobStatus, PortError> {
        let left = sweep(hosts, folder, job).await?;
        if folder.is_cancelled().map_err(PortError::transient)? {
            // A job is cancelled only when no process is left, so hosts without a response are polled again.
            return match left.is_empty() {
                true => record(folder, "CANCELLED", ""),
                false => Err(PortError::Transient(format!(
                    "processes of the cancelled job {job} may still run: {}",
                    left.join("; ")
                ))),
            };
        }
        let mut why = "the process that ran mpirun on this machine has ended without a result".to_owned();
        if !left.is_empty() {
            why += &format!("; its processes may still run: {}", left.join("; "));
        }
        record(folder, "LAUNCHER_LOST", &why)
    }
}

/// The folder of an image, on this machine and on the hosts.
fn image_folder(hosts: &Hosts, image: &Image) -> PathBuf {
    PathBuf::from(&hosts.work_folder).join("images").join(image.digest.replace(':', "-"))
}

fn now() -> Timestamp {
    SystemClock.now()
}

fn record(folder: &HostsFolder, state: &str, why: &str) -> Result<JobStatus, PortError> {
    folder.record(state, why, now()).map_err(PortError::transient)
}

/// Ends all processes of a job on this machine and on every host. Returns the hosts where processes may still run.
async fn sweep(hosts: &Hosts, folder: &HostsFolder, job: &str) -> Result<Vec<String>, PortError> {
    let mark = format!("BURNIN_JOB={}", script::mark(job, &folder.path().display().to_string()));
    let here = ["bash", "-c", script::SWEEP, "sweep", &mark].map(str::to_owned);
    let swept =
        supervisor::run_program(&here, &[], Duration::from_secs(30)).await.map_err(PortError::transient)?;
    let mut left = if swept.good { Vec::new() } else { vec![format!("this machine: {}", swept.stderr)] };
    let config = folder::ssh_config(hosts).map_err(PortError::transient)?;
    let arguments = [&mark, &folder.path().display().to_string()].map(|word| quote(word)).join(" ");
    let remote = format!("set -- {arguments}\n{}", script::SWEEP);
    let mut tasks = tokio::task::JoinSet::new();
    for host in &hosts.hosts {
        let (config, host, remote) = (config.clone(), host.name.clone(), remote.clone());
        tasks.spawn(async move {
            ssh::run(&config, &host, &remote).await.err().map(|why| format!("{host}: {why}"))
        });
    }
    while let Some(answer) = tasks.join_next().await {
        left.extend(answer.map_err(PortError::transient)?);
    }
    left.sort();
    Ok(left)
}

/// Settings of a cluster, and the folder of a job.
fn job_of(cluster: &Cluster, name: &str) -> Result<(Hosts, HostsFolder), PortError> {
    let hosts = Hosts::of(cluster)?;
    check_job_name(name)?;
    let folder = HostsFolder::of(&hosts, name);
    Ok((hosts, folder))
}

#[async_trait::async_trait]
impl Scheduler for HostsJobs {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        let (hosts, folder) = job_of(&job.cluster, &job.name)?;
        let path = folder.path().display().to_string();
        if folder.launcher().map_err(PortError::transient)? != Launcher::None {
            return Ok(path);
        }
        folder::ensure_owned(&hosts)?;
        let image = self.image(&hosts, job.image.as_ref()).await?;
        let image = image.map(|image| image.display().to_string());
        let config = folder::ssh_config(&hosts).map_err(PortError::transient)?;
        let files = script::files(job, &hosts, &path, &config.display().to_string(), image.as_deref());
        folder.write(&files).map_err(PortError::transient)?;
        // The script has a separate session, so that signals to the agent's terminal do not reach the script, and the job
        // continues after the agent ends.
        let mut start = tokio::process::Command::new("setsid");
        start.args(["--fork", "bash", "./job.sh"]).current_dir(folder.path());
        // The variable is set before the script starts, because /proc shows only the variables with which a process started.
        start.env("BURNIN_JOB", script::mark(&job.name, &path));
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status =
            start.status().await.map_err(|error| PortError::Transient(format!("setsid: {error}")))?;
        if !status.success() {
            return Err(PortError::Transient(format!("setsid ended with {status}")));
        }
        let started = tokio::time::Instant::now();
        while folder.launcher().map_err(PortError::transient)? == Launcher::None {
            if started.elapsed() > CLAIM {
                let why = format!("{path}/job.sh did not start within {} s", CLAIM.as_secs());
                return Err(PortError::Transient(why));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(path)
    }

    fn submission(&self, job: &JobSpec) -> Result<Vec<SubmittedText>, PortError> {
        let (hosts, folder) = job_of(&job.cluster, &job.name)?;
        let path = folder.path().display().to_string();
        let image = job.image.as_ref().map(|image| image_folder(&hosts, image).display().to_string());
        let (config, ssh) = folder::rendered_ssh_config(&hosts);
        let files = script::files(job, &hosts, &path, &config.display().to_string(), image.as_deref());
        let file = |(name, text)| SubmittedText { name: format!("{path}/{name}"), text };
        let ssh = SubmittedText { name: config.display().to_string(), text: ssh };
        // Show the script that calls mpirun first: it is the most important one.
        Ok(files.into_iter().rev().map(file).chain([ssh]).collect())
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        let (hosts, folder) = job_of(cluster, name)?;
        // Read the launcher's state before the result, so that a result that the launcher wrote just before its end is
        // found.
        let launcher = folder.launcher().map_err(PortError::transient)?;
        if let Some(end) = folder.end().map_err(PortError::transient)? {
            return Ok(end);
        }
        match launcher {
            Launcher::None => Ok(JobStatus::Absent),
            Launcher::Running => Ok(JobStatus::Active),
            Launcher::Gone if folder.never_started() => record(&folder, "CANCELLED", ""),
            Launcher::Gone => self.orphaned(&hosts, &folder, name).await,
        }
    }

    /// The script finds the mark within 1 s, and ends the benchmark on every host before it writes the result.
    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        let (_, folder) = job_of(cluster, name)?;
        folder.cancel().map_err(PortError::transient)
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        output_folder::outputs(job_of(cluster, name)?.1.output()).await
    }

    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError> {
        output_folder::output(job_of(cluster, name)?.1.output(), file).await
    }

    async fn read_tail(
        &self,
        cluster: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        output_folder::read_tail(job_of(cluster, name)?.1.output(), file, bytes).await.map(Some)
    }

    fn part(&self, cluster: &Cluster, names: &[&str]) -> Result<Cluster, PortError> {
        Ok(cluster.part(names, Hosts::of(cluster)?.part(names).access()))
    }
}
