//! A simulated scheduler.

use std::{
    io::{self, Cursor},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use agent::{JobStatus, Scheduler, port::Outputs};
use ledger::ObjectReader;
use model::{Class, Cluster, Failure, JobEnd, planted};
use service::PortError;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::{State, answered, passing};
use crate::{
    Fault, Happening,
    door::{Door, Kind},
    history::is_pair,
    workload::{self, Ends, Output},
    world::{Inner, Service, World},
};

/// True state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Queued.
    Pending,
    /// It runs.
    Running,
    /// Ended by itself or on request.
    Ended(JobEnd),
    /// Lost, with the scheduler's code.
    Lost(&'static str),
}

/// A job.
pub struct Job {
    /// The cluster it is on.
    pub cluster: String,
    /// Its nodes.
    pub nodes: Vec<String>,
    /// State.
    pub stage: Stage,
    /// Whether it started, so that a log exists.
    pub began: bool,
    /// Its complete output; rendered at each read to save memory.
    pub output: Output,
}

impl Job {
    /// Whether it is queued or running.
    pub const fn going(&self) -> bool {
        matches!(self.stage, Stage::Pending | Stage::Running)
    }

    /// Its output so far, under this name.
    fn written(&self, name: &str, file: &str) -> Vec<u8> {
        if file != workload::LOG {
            return b"nothing to say\n".to_vec();
        }
        let mut log = self.output.text(name).into_bytes();
        if matches!(self.stage, Stage::Running) {
            log.truncate(log.len() / 2);
        }
        log
    }
}

fn end(state: &str, exit_code: i32) -> JobEnd {
    let exit_code = Some(exit_code);
    JobEnd { state: state.to_owned(), exit_code, signal: None, started_at: None, ended_at: None }
}

/// The scheduler, from the view of one process.
pub struct SimScheduler(pub Door);

impl Inner {
    /// Loses all jobs on a cluster.
    pub fn lose_jobs(&mut self, cluster: &str, code: &'static str) {
        for name in self.clouds.jobs_on.get(cluster).cloned().unwrap_or_default() {
            self.end_job(&name, Stage::Lost(code));
        }
    }

    fn end_job(&mut self, name: &str, stage: Stage) {
        let Some(job) = self.clouds.jobs.get_mut(name).filter(|job| job.going()) else { return };
        let how = match &stage {
            Stage::Ended(end) => end.state.clone(),
            Stage::Lost(code) => (*code).to_owned(),
            Stage::Pending | Stage::Running => return,
        };
        let ran = job.stage == Stage::Running;
        job.stage = stage;
        if ran {
            self.note(Service::Outside, Happening::JobEnded { name: name.to_owned(), how });
        }
    }

    fn begin_job(&mut self, world: &Arc<World>, job: &agent::JobSpec) {
        let name = job.name.clone();
        if self.clouds.jobs.contains_key(&name) {
            return;
        }
        let stopped = self.clouds.stopped_jobs.contains(&name);
        let sick = self.clouds.clusters.get(&job.cluster.name).and_then(|cluster| cluster.sick);
        let sick = sick.map(|number| format!("node-{number}"));
        let nodes: Vec<String> = job.cluster.nodes.iter().map(|node| node.name.clone()).collect();
        let slow = sick.is_some_and(|sick| nodes.contains(&sick));
        let limit = i64::try_from(job.limit.0.as_millis()).unwrap_or(i64::MAX);
        let mut takes = self.dice.between(10_000, 120_000).min(limit);
        let (mut ended, mut ends) = (Stage::Ended(end("COMPLETED", 0)), Ends::Whole);
        // A pair that fails by chance would correctly lead to a good suspect.
        let breaks = !is_pair(&name);
        if breaks && self.strikes(Fault::JobFails) {
            ends = Ends::Badly;
            ended = Stage::Ended(end("FAILED", 3));
        } else if breaks && self.strikes(Fault::JobHangs) {
            ends = Ends::Short;
            (takes, ended) = (limit, Stage::Ended(end("TIMEOUT", 1)));
        } else if self.strikes(Fault::JobTaken) {
            ends = Ends::Short;
            ended = Stage::Lost("PREEMPTED");
        } else if self.strikes(Fault::LogTruncated) {
            ends = Ends::Short;
        }
        let stage = if stopped { Stage::Ended(end("CANCELLED", 0)) } else { Stage::Pending };
        let cluster = job.cluster.name.clone();
        self.clouds.jobs_on.entry(cluster.clone()).or_default().push(name.clone());
        let output = Output { workload: job.workload.clone(), ranks: job.cluster.slots(), slow, ends };
        self.clouds.jobs.insert(name.clone(), Box::new(Job { cluster, nodes, stage, began: false, output }));
        if stopped {
            return;
        }
        // An idle cluster starts a job at once.
        let longest = [1_000, 20_000][self.dice.index(2)];
        let (world, waits) = (Arc::clone(world), self.dice.between(0, longest));
        self.spawn(Service::Outside, async move {
            world.sleep(waits).await;
            if let Some(job) = world.inner().clouds.jobs.get_mut(&name).filter(|job| job.going()) {
                (job.stage, job.began) = (Stage::Running, true);
            } else {
                return;
            }
            world.inner().note(Service::Outside, Happening::JobBegan { name: name.clone() });
            world.sleep(takes).await;
            world.inner().end_job(&name, ended);
        });
    }
}

#[async_trait::async_trait]
impl Scheduler for SimScheduler {
    async fn submit(&self, job: &agent::JobSpec) -> Result<String, PortError> {
        let mut job = job.clone();
        if planted("random_in_a_job_name") {
            job.name = format!("{}{}", job.name, self.0.world.inner().dice.below(1000));
        }
        let world = Arc::clone(&self.0.world);
        let effect = |inner: &mut Inner| {
            if planted("submit_without_looking") && inner.clouds.jobs.contains_key(&job.name) {
                inner.end_job(&job.name, Stage::Lost("REQUEUED"));
                inner.clouds.jobs.remove(&job.name);
            }
            if inner.clouds.jobs.contains_key(&job.name) {
                return Ok(job.name.clone());
            }
            let gone = |code: &str| {
                let failure = Failure::new(Class::ClusterLost, code, "the cluster takes no jobs");
                Err(PortError::Permanent(failure))
            };
            match inner.clouds.clusters.get(&job.cluster.name).map(|cluster| &cluster.state) {
                Some(State::Ready) => {}
                Some(State::Coming) => return passing("the cluster is coming up"),
                Some(State::Broken(_)) => return gone("NODE_FAIL"),
                Some(State::Ending | State::Gone) | None => return gone("CLUSTER_GONE"),
            }
            if inner.strikes(Fault::LandsLate) {
                let (job, after) = (job.clone(), inner.dice.between(1_000, 1_500_000));
                inner.clouds.landing += 1;
                inner.spawn(Service::Outside, async move {
                    world.sleep(after).await;
                    let inner = &mut *world.inner();
                    inner.clouds.landing -= 1;
                    let known = inner.clouds.clusters.get(&job.cluster.name);
                    if known.is_some_and(|cluster| cluster.state == State::Ready) {
                        inner.begin_job(&world, &job);
                    }
                });
                return passing("deadline exceeded");
            }
            inner.begin_job(&world, &job);
            Ok(job.name.clone())
        };
        answered(self.0.call(Kind::Provider, || format!("submit job {}", job.name), effect).await)
    }

    async fn look(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        let effect = |inner: &mut Inner| {
            let there = inner.clouds.clusters.get(&cluster.name);
            if there.is_none_or(|cluster| cluster.state == State::Gone) {
                let why = "the cluster is gone".to_owned();
                return Ok(JobStatus::Lost { code: "CLUSTER_GONE".to_owned(), why });
            }
            Ok(match inner.clouds.jobs.get(name).map(|job| &job.stage) {
                None => JobStatus::Absent,
                Some(Stage::Pending | Stage::Running) => JobStatus::Going,
                Some(Stage::Ended(end)) => JobStatus::Ended(end.clone()),
                Some(Stage::Lost(code)) => {
                    JobStatus::Lost { code: (*code).to_owned(), why: "a node went away".to_owned() }
                }
            })
        };
        let said = answered(self.0.call(Kind::Provider, || format!("look at job {name}"), effect).await);
        if planted("no_answer_means_no_job") && said.is_err() { Ok(JobStatus::Absent) } else { said }
    }

    async fn cancel(&self, _: &Cluster, name: &str) -> Result<(), PortError> {
        let effect = |inner: &mut Inner| {
            inner.note(Service::Outside, Happening::StopAsked { name: name.to_owned() });
            if !planted("cancel_leaves_no_mark") {
                inner.clouds.stopped_jobs.insert(name.to_owned());
            }
            inner.end_job(name, Stage::Ended(end("CANCELLED", 0)));
            Ok(())
        };
        answered(self.0.call(Kind::Provider, || format!("cancel job {name}"), effect).await)
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        let effect = |inner: &mut Inner| {
            let there = inner.clouds.clusters.get(&cluster.name);
            let there = there.is_some_and(|cluster| cluster.state != State::Gone);
            let began = inner.clouds.jobs.get(name).is_some_and(|job| job.began);
            let files = [workload::LOG, "node-1.log"];
            Ok(if there && began { files.into_iter().collect() } else { Outputs::default() })
        };
        answered(self.0.call(Kind::Provider, || format!("list the output of {name}"), effect).await)
    }

    async fn output(&self, _: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError> {
        let effect = |inner: &mut Inner| match inner.clouds.jobs.get(name) {
            Some(job) => Ok((job.written(name, file), inner.strikes(Fault::ProviderLies))),
            None => passing("no such file"),
        };
        let what = || format!("read {file} of {name}");
        let (mut bytes, breaks) = answered(self.0.call(Kind::Provider, what, effect).await)?;
        if planted("log_cut_short") {
            bytes.truncate(bytes.len() - 1);
        }
        if breaks {
            bytes.truncate(bytes.len() / 2);
            return Ok(Box::new(Cursor::new(bytes).chain(Broken)));
        }
        Ok(Box::new(Cursor::new(bytes)))
    }
}

/// A failing stream.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::Error::other("the connection was reset")))
    }
}
