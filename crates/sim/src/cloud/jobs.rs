//! A simulated scheduler.

use std::{
    io::{self, Cursor},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use cluster_api::{JobSpec, JobStatus, Outputs, Scheduler};
use ledger::ObjectReader;
use model::{Class, Cluster, Failure, JobEnd, failpoint_is_active};
use service::PortError;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::{
    answer::{answered, transient},
    state::{SimCluster, SimClusterState, SimJob, SimJobStage},
};
use crate::{
    ExternalEvent, Fault,
    effect::{EffectKind, Effects},
    history::is_pair,
    process::SimService,
    workload::{self, OutputEnding, RankOutput},
    world::{SimWorld, WorldState},
};

fn end(state: &str, exit_code: i32) -> JobEnd {
    JobEnd::new(state, Some(exit_code))
}

/// Client of the scheduler in one process.
pub struct SimScheduler(pub Effects);

impl WorldState {
    /// Ends every job on the cluster with this failure code.
    pub fn lose_jobs(&mut self, cluster: &str, code: &'static str) {
        for name in self.clouds.jobs_on.get(cluster).cloned().unwrap_or_default() {
            self.end_job(&name, SimJobStage::Lost(code));
        }
    }

    fn end_job(&mut self, name: &str, stage: SimJobStage) {
        let Some(job) = self.clouds.jobs.get_mut(name).filter(|job| job.is_active()) else { return };
        let how = match &stage {
            SimJobStage::Ended(end) => end.state.clone(),
            SimJobStage::Lost(code) => (*code).to_owned(),
            SimJobStage::Yielded => "YIELDED".to_owned(),
            SimJobStage::Pending | SimJobStage::Running => return,
        };
        let ran = job.stage == SimJobStage::Running;
        job.stage = stage;
        if ran {
            self.note(SimService::Outside, ExternalEvent::JobEnded { name: name.to_owned(), how });
        }
    }

    fn begin_job(&mut self, world: &Arc<SimWorld>, job: &JobSpec) {
        let name = job.name.clone();
        if self.clouds.jobs.contains_key(&name) {
            return;
        }
        let stopped = self.clouds.stopped_jobs.contains(&name);
        let slow_nodes =
            self.clouds.clusters.get(&job.cluster.name).map_or_else(Vec::new, SimCluster::slow_nodes);
        let nodes: Vec<String> = job.cluster.nodes.iter().map(|node| node.name.clone()).collect();
        let slow = slow_nodes.iter().any(|node| nodes.contains(node));
        let limit = i64::try_from(job.limit.0.as_millis()).unwrap_or(i64::MAX);
        let mut takes = self.random.between(10_000, 120_000).min(limit);
        let (mut ended, mut output_end) = (SimJobStage::Ended(end("COMPLETED", 0)), OutputEnding::Complete);
        // Jobs of pairs do not fail at random: the search would then rightly suspect a good node, which a check would report as a
        // violation.
        let breaks = !is_pair(&name);
        if breaks && self.occurs(Fault::JobFails) {
            output_end = OutputEnding::WithError;
            ended = SimJobStage::Ended(end("FAILED", 3));
        } else if breaks && self.occurs(Fault::JobHangs) {
            output_end = OutputEnding::Truncated;
            (takes, ended) = (limit, SimJobStage::Ended(end("TIMEOUT", 1)));
        } else if self.occurs(Fault::JobTaken) {
            output_end = OutputEnding::Truncated;
            ended = SimJobStage::Lost("PREEMPTED");
        } else if breaks && job.cluster.name == workload::EXISTING && self.occurs(Fault::JobYields) {
            output_end = OutputEnding::Truncated;
            ended = SimJobStage::Yielded;
        } else if self.occurs(Fault::LogTruncated) {
            output_end = OutputEnding::Truncated;
        }
        let stage = if stopped { SimJobStage::Ended(end("CANCELLED", 0)) } else { SimJobStage::Pending };
        let cluster = job.cluster.name.clone();
        self.clouds.jobs_on.entry(cluster.clone()).or_default().push(name.clone());
        let output = RankOutput {
            workload: job.program.workload().expect("simulated jobs run nccl-tests").clone(),
            ranks: job.cluster.slots(),
            slow,
            end: output_end,
        };
        self.clouds
            .jobs
            .insert(name.clone(), Box::new(SimJob { cluster, nodes, stage, began: false, output }));
        if stopped {
            return;
        }
        // Delay of the job's start: at most 1 s as on an idle cluster, or at most 20 s as in a queue.
        let longest = [1_000, 20_000][self.random.index(2)];
        let (world, waits) = (Arc::clone(world), self.random.between(0, longest));
        self.spawn(SimService::Outside, async move {
            world.sleep(waits).await;
            if let Some(job) = world.inner().clouds.jobs.get_mut(&name).filter(|job| job.is_active()) {
                (job.stage, job.began) = (SimJobStage::Running, true);
            } else {
                return;
            }
            world.inner().note(SimService::Outside, ExternalEvent::JobBegan { name: name.clone() });
            world.sleep(takes).await;
            world.inner().end_job(&name, ended);
        });
    }
}

#[async_trait::async_trait]
impl Scheduler for SimScheduler {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        let mut job = job.clone();
        if failpoint_is_active("random_in_a_job_name") {
            job.name = format!("{}{}", job.name, self.0.world.inner().random.below(1000));
        }
        let world = Arc::clone(&self.0.world);
        let effect = |inner: &mut WorldState| {
            if failpoint_is_active("submit_without_looking") && inner.clouds.jobs.contains_key(&job.name) {
                inner.end_job(&job.name, SimJobStage::Lost("REQUEUED"));
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
                Some(SimClusterState::Ready) => {}
                Some(SimClusterState::Starting) => return transient("the cluster is starting"),
                Some(SimClusterState::Broken(_)) => return gone("NODE_FAIL"),
                Some(SimClusterState::Ending | SimClusterState::Deleted) | None => {
                    return gone("CLUSTER_GONE");
                }
            }
            if inner.occurs(Fault::LandsLate) {
                let (job, after) = (job.clone(), inner.random.between(1_000, 1_500_000));
                inner.clouds.landing += 1;
                inner.spawn(SimService::Outside, async move {
                    world.sleep(after).await;
                    let inner = &mut *world.inner();
                    inner.clouds.landing -= 1;
                    let known = inner.clouds.clusters.get(&job.cluster.name);
                    if known.is_some_and(|cluster| cluster.state == SimClusterState::Ready) {
                        inner.begin_job(&world, &job);
                    }
                });
                return transient("deadline exceeded");
            }
            inner.begin_job(&world, &job);
            Ok(job.name.clone())
        };
        answered(self.0.call(EffectKind::Provider, || format!("submit job {}", job.name), effect).await)
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        let effect = |inner: &mut WorldState| {
            let there = inner.clouds.clusters.get(&cluster.name);
            if there.is_none_or(|cluster| cluster.state == SimClusterState::Deleted) {
                let why = "the cluster is deleted".to_owned();
                return Ok(JobStatus::Lost { code: "CLUSTER_GONE".to_owned(), why });
            }
            Ok(match inner.clouds.jobs.get(name).map(|job| &job.stage) {
                None => JobStatus::Absent,
                Some(SimJobStage::Pending | SimJobStage::Running) => JobStatus::Active,
                Some(SimJobStage::Ended(end)) => JobStatus::Ended(end.clone()),
                Some(SimJobStage::Lost(code)) => {
                    JobStatus::Lost { code: (*code).to_owned(), why: "a node failed".to_owned() }
                }
                Some(SimJobStage::Yielded) => JobStatus::Yielded { why: "preempted".to_owned() },
            })
        };
        let result = answered(self.0.call(EffectKind::Provider, || format!("poll job {name}"), effect).await);
        if failpoint_is_active("no_answer_means_no_job") && result.is_err() {
            Ok(JobStatus::Absent)
        } else {
            result
        }
    }

    async fn cancel(&self, _: &Cluster, name: &str) -> Result<(), PortError> {
        let effect = |inner: &mut WorldState| {
            inner.note(SimService::Outside, ExternalEvent::StopRequested { name: name.to_owned() });
            if !failpoint_is_active("cancel_leaves_no_mark") {
                inner.clouds.stopped_jobs.insert(name.to_owned());
            }
            inner.end_job(name, SimJobStage::Ended(end("CANCELLED", 0)));
            Ok(())
        };
        answered(self.0.call(EffectKind::Provider, || format!("cancel job {name}"), effect).await)
    }

    fn drain_command(&self, cluster: &Cluster, node: &str, _: &str) -> Option<String> {
        Some(format!("drain {node} of {}", cluster.name))
    }

    async fn drain(&self, cluster: &Cluster, node: &str, reason: &str) -> Result<(), PortError> {
        let effect = |inner: &mut WorldState| {
            let key = (cluster.name.clone(), node.to_owned());
            match inner.clouds.drained.get(&key) {
                Some(because) if because == reason => return Ok(()),
                Some(because) => {
                    let failure =
                        Failure::new(Class::Input, "DRAINED", format!("already drained: {because}"));
                    return Err(PortError::Permanent(failure));
                }
                None => {}
            }
            inner.clouds.drained.insert(key, reason.to_owned());
            // Make another node slow, for the next search of the run to find.
            if let Some(known) = inner.clouds.clusters.get_mut(&cluster.name) {
                known.add_slow_node();
            }
            Ok(())
        };
        answered(self.0.call(EffectKind::Provider, || format!("drain {node}"), effect).await)
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        let effect = |inner: &mut WorldState| {
            let there = inner.clouds.clusters.get(&cluster.name);
            let there = there.is_some_and(|cluster| cluster.state != SimClusterState::Deleted);
            let began = inner.clouds.jobs.get(name).is_some_and(|job| job.began);
            let files = [workload::LOG, "node-1.log"];
            Ok(if there && began { files.into_iter().collect() } else { Outputs::default() })
        };
        answered(self.0.call(EffectKind::Provider, || format!("list the output of {name}"), effect).await)
    }

    async fn output(&self, _: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError> {
        let effect = |inner: &mut WorldState| match inner.clouds.jobs.get(name) {
            Some(job) => Ok((job.written(name, file), inner.occurs(Fault::ProviderLies))),
            None => transient("no such file"),
        };
        let what = || format!("read {file} of {name}");
        let (mut bytes, breaks) = answered(self.0.call(EffectKind::Provider, what, effect).await)?;
        if failpoint_is_active("log_cut_short") {
            bytes.truncate(bytes.len() - 1);
        }
        if breaks {
            bytes.truncate(bytes.len() / 2);
            return Ok(Box::new(Cursor::new(bytes).chain(BrokenNode)));
        }
        Ok(Box::new(Cursor::new(bytes)))
    }
}

/// A stream whose connection is reset.
struct BrokenNode;

impl AsyncRead for BrokenNode {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::Error::other("the connection was reset")))
    }
}
