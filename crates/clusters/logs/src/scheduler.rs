//! Jobs that another program has already run.
//!
//! ```text
//! logs/{job}/submitted.json   the job was submitted
//!            end.json         final state of the job: the end in its logs, or a cancellation before the logs were read
//! ```

use std::{path::Path, sync::Arc};

use cluster_api::{
    FileTail, JobSpec, JobStatus, Outputs, Scheduler, Settings, output_folder,
    settings::{check_job_name, wrong},
};
use ledger::{ObjectReader, Store};
use model::{Class, Cluster, Failure, JobEnd};
use service::PortError;

use crate::{LogSettings, cluster_of, marker::Marker};

/// Scheduler of existing logs; submits no job.
pub struct LogJobs {
    store: Arc<dyn Store>,
}

impl LogJobs {
    /// `store`: bucket of the jobs' records.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn has(&self, object: &str) -> Result<bool, PortError> {
        Ok(self.store.read(object).await.map_err(PortError::transient)?.is_some())
    }

    /// Records the end of a job unless an end is already recorded. Returns the recorded end.
    async fn record_end(&self, job: &str, end: &JobEnd) -> Result<JobEnd, PortError> {
        let object = note_path(job, "end.json");
        self.store.create_json(&object, end).await?;
        match self.recorded_end(job).await? {
            Some(end) => Ok(end),
            None => Err(PortError::Transient(format!("{object}: absent after its creation"))),
        }
    }

    async fn recorded_end(&self, job: &str) -> Result<Option<JobEnd>, PortError> {
        Ok(self.store.read_json(&note_path(job, "end.json")).await?)
    }
}

fn note_path(job: &str, what: &str) -> String {
    format!("logs/{job}/{what}")
}

#[async_trait::async_trait]
impl Scheduler for LogJobs {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        check_job_name(&job.name)?;
        let logs = LogSettings::of(&job.cluster)?;
        cluster_of(&job.cluster.name, &logs).map_err(|why| wrong(&job.cluster, &why))?;
        self.store.create_json(&note_path(&job.name, "submitted.json"), &job.labels).await?;
        Ok(logs.folder)
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        check_job_name(name)?;
        if let Some(end) = self.recorded_end(name).await? {
            return Ok(JobStatus::Ended(end));
        }
        if !self.has(&note_path(name, "submitted.json")).await? {
            return Ok(JobStatus::Absent);
        }
        let logs = LogSettings::of(cluster)?;
        let marker = Marker::read(Path::new(&logs.folder)).map_err(|why| wrong(cluster, &why))?;
        // Without a marker the exit status is unknown: the logs decide whether the benchmark is complete.
        let ended = marker.map_or_else(|| JobEnd::new("COMPLETED", None), |marker| marker.end());
        self.record_end(name, &ended).await.map(JobStatus::Ended)
    }

    async fn cancel(&self, _: &Cluster, name: &str) -> Result<(), PortError> {
        check_job_name(name)?;
        self.record_end(name, &JobEnd::new("CANCELLED", None)).await.map(drop)
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        if !self.has(&note_path(name, "submitted.json")).await? {
            return Ok(Outputs::default());
        }
        let logs = LogSettings::of(cluster)?;
        let mut outputs = output_folder::outputs(logs.folder.into()).await?;
        if let Some(file) = logs.file {
            outputs.files.retain(|found| found.name == file);
            outputs.others.clear();
        }
        Ok(outputs)
    }

    async fn output(&self, cluster: &Cluster, _: &str, file: &str) -> Result<ObjectReader, PortError> {
        let logs = LogSettings::of(cluster)?;
        output_folder::output(logs.folder.into(), file).await
    }

    async fn read_tail(
        &self,
        cluster: &Cluster,
        _: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        let logs = LogSettings::of(cluster)?;
        output_folder::read_tail(logs.folder.into(), file, bytes).await.map(Some)
    }

    fn part(&self, cluster: &Cluster, _: &[&str]) -> Result<Cluster, PortError> {
        let why = format!("{}: logs cannot run on some nodes only; remove `locate`", cluster.name);
        Err(PortError::Permanent(Failure::new(Class::Input, "NOT_A_CLUSTER", why)))
    }
}
