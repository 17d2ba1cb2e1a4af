//! A scheduler that only simulates jobs, for tests of the agent without a real scheduler.

use std::{
    collections::BTreeMap,
    io::Cursor,
    sync::{Mutex, PoisonError},
};

use ledger::ObjectReader;
use model::{Cluster, JobEnd, Node};
use service::PortError;

use crate::scheduler::{JobSpec, JobStatus, Outputs, Scheduler};

/// Each job ends at the third poll and has one output file.
pub struct FakeScheduler {
    log: Vec<u8>,
    jobs: Mutex<BTreeMap<String, PlannedJob>>,
}

#[derive(Default)]
struct PlannedJob {
    polls: u32,
    submitted: bool,
    cancelled: bool,
}

impl FakeScheduler {
    /// `log`: output of every job.
    pub fn new(log: impl Into<Vec<u8>>) -> Self {
        Self { log: log.into(), jobs: Mutex::default() }
    }

    fn with<T>(&self, name: &str, work: impl FnOnce(&mut PlannedJob) -> T) -> T {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        work(jobs.entry(name.to_owned()).or_default())
    }
}

fn ended(state: &str, exit_code: i32) -> JobStatus {
    JobStatus::Ended(JobEnd::new(state, Some(exit_code)))
}

#[async_trait::async_trait]
impl Scheduler for FakeScheduler {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        self.with(&job.name, |planned| planned.submitted = true);
        Ok(job.name.clone())
    }

    async fn poll(&self, _: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        Ok(self.with(name, |planned| {
            planned.polls += u32::from(planned.submitted);
            match planned {
                PlannedJob { submitted: false, .. } => JobStatus::Absent,
                PlannedJob { cancelled: true, .. } => ended("CANCELLED", 0),
                PlannedJob { polls, .. } if *polls < 3 => JobStatus::Active,
                _ => ended("COMPLETED", 0),
            }
        }))
    }

    async fn cancel(&self, _: &Cluster, name: &str) -> Result<(), PortError> {
        self.with(name, |planned| planned.cancelled |= planned.polls < 3);
        Ok(())
    }

    async fn outputs(&self, _: &Cluster, name: &str) -> Result<Outputs, PortError> {
        Ok(self.with(name, |planned| planned.submitted).then_some("node-0.log").into_iter().collect())
    }

    async fn output(&self, _: &Cluster, _: &str, _: &str) -> Result<ObjectReader, PortError> {
        Ok(Box::new(Cursor::new(self.log.clone())))
    }

    /// Replaces placeholders by names: `any-7` becomes `n7`.
    async fn nodes(&self, cluster: &Cluster, _: &str) -> Result<Vec<String>, PortError> {
        let chosen = |name: &String| match Node::is_placeholder(name) {
            true => name.replace("any-", "n"),
            false => name.clone(),
        };
        Ok(cluster.nodes.iter().map(|node| chosen(&node.name)).collect())
    }
}
