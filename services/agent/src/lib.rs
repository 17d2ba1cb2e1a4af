//! The agent: runs benchmarks on a cluster and uploads their output to the bucket.
//!
//! | command | fact |
//! |---|---|
//! | `job.submit` | `job.accepted`, then `job.done` or `job.failed` |
//! | `job.observe` | the same, for the current state; no fact while the job runs |
//! | `job.cancel` | `job.done` or `job.failed`, once it has ended |
//! | `logs.collect` | `logs.collected`, after the manifest is written |
//! | `nodes.locate` | `nodes.located`, after pairs of nodes were run and judged |
//! | `nodes.cancel` | `nodes.failed`, once no pair is running |
//!
//! Idempotent by name: a job is named after its command, and a submission first searches for an existing job.

pub mod collect;
pub mod locate;

use std::{collections::BTreeMap, sync::Arc};

use cluster_api::{JobSpec, JobStatus, Scheduler};
use ledger::Artefacts;
use model::{
    Body, Class, Cluster, Command, CommandId, Fact, Failure, Handle, Image, JobEnd, Node, NodeSearch,
    Program, Span, Stage, failpoint_is_active,
};
use redact::Rules;
use service::{CommandError, PollResult, Pollers, PortError, Publisher, Worker};
use tracing::warn;

pub use collect::{CollectLimits, Collector};
pub use locate::Locator;

/// The agent's handler, over any [`Scheduler`].
pub struct Agent {
    scheduler: Arc<dyn Scheduler>,
    collector: Collector,
    pollers: Pollers,
    every: Span,
}

impl Agent {
    /// Event types that the agent handles.
    pub const HANDLED_EVENTS: [&'static str; 6] = [
        "dev.burnin.job.submit.v1",
        "dev.burnin.job.observe.v1",
        "dev.burnin.job.cancel.v1",
        "dev.burnin.logs.collect.v1",
        "dev.burnin.nodes.locate.v1",
        "dev.burnin.nodes.cancel.v1",
    ];

    /// Runs jobs on `scheduler` and uploads their output to `artefacts`. `every`: poll interval.
    pub fn new(scheduler: Arc<dyn Scheduler>, artefacts: Artefacts, every: Span) -> Self {
        let (rules, limits) = (Rules::of_patterns(), CollectLimits::default());
        let collector = Collector { scheduler: Arc::clone(&scheduler), artefacts, rules, limits };
        Self { scheduler, collector, pollers: Pollers::default(), every }
    }

    /// Sets redaction rules and limits.
    #[must_use]
    pub fn collecting(mut self, rules: Arc<Rules>, limits: CollectLimits) -> Self {
        self.collector.rules = rules;
        self.collector.limits = limits;
        self
    }

    async fn submit(
        &self,
        id: &CommandId,
        cluster: &Cluster,
        image: Option<&Image>,
        (program, environment, evidence): (&Program, &BTreeMap<String, String>, bool),
        limit: Span,
        publisher: &Publisher,
    ) -> Result<(), CommandError> {
        let now = publisher.clock().now();
        let job = JobSpec::of_command(id, (cluster, image), (program, environment, evidence), limit, now);
        match self.scheduler.submit(&job).await {
            Ok(handle) => publisher.publish_fact(id, Fact::JobAccepted(Handle { handle })).await?,
            Err(error) => return publisher.publish_result(id, Err(error)).await,
        }
        self.observe(id, cluster, true, publisher).await
    }

    async fn observe(
        &self,
        id: &CommandId,
        cluster: &Cluster,
        accepted: bool,
        publisher: &Publisher,
    ) -> Result<(), CommandError> {
        match poll(&*self.scheduler, cluster, &id.resource_name(), accepted).await.map(poll_result) {
            Ok(PollResult::Ended(fact)) => Ok(publisher.publish_fact(id, fact).await?),
            Ok(PollResult::Running) => {
                let (scheduler, cluster, name) =
                    (Arc::clone(&self.scheduler), cluster.clone(), id.resource_name());
                self.pollers.poll(id, publisher, self.every, move || {
                    let (scheduler, cluster, name) = (Arc::clone(&scheduler), cluster.clone(), name.clone());
                    async move { poll(&*scheduler, &cluster, &name, true).await.map(poll_result) }
                });
                Ok(())
            }
            Err(error) => publisher.publish_result(id, Err(error)).await,
        }
    }
}

impl Agent {
    fn locator(&self) -> Locator {
        Locator { scheduler: Arc::clone(&self.scheduler), collector: self.collector.clone() }
    }

    async fn locate(
        &self,
        id: &CommandId,
        search: &NodeSearch,
        publisher: &Publisher,
    ) -> Result<(), CommandError> {
        let locator = self.locator();
        match locator.step(id, search, publisher.clock().now()).await {
            Ok(PollResult::Ended(fact)) => Ok(publisher.publish_fact(id, fact).await?),
            Ok(PollResult::Running) => {
                let (command, search, clock) = (id.clone(), search.clone(), Arc::clone(publisher.clock()));
                self.pollers.poll(id, publisher, self.every, move || {
                    let (locator, command, search) = (locator.clone(), command.clone(), search.clone());
                    let now = clock.now();
                    async move { locator.step(&command, &search, now).await }
                });
                Ok(())
            }
            Err(error) => publisher.publish_result(id, Err(error)).await,
        }
    }
}

/// State of a job. An absent job must stay absent: its submission may still be in flight, and the next attempt would run at the same time.
/// So an absent job is cancelled and polled again. A cancelled job that was never accepted is reported as absent, so that repeated polls
/// return the same result.
async fn poll(
    scheduler: &dyn Scheduler,
    cluster: &Cluster,
    name: &str,
    accepted: bool,
) -> Result<JobStatus, PortError> {
    let mut status = scheduler.poll(cluster, name).await?;
    let absent = status == JobStatus::Absent;
    if absent && !failpoint_is_active("absent_may_still_come") {
        scheduler.cancel(cluster, name).await?;
        status = scheduler.poll(cluster, name).await?;
    }
    Ok(match status {
        JobStatus::Ended(end) if (absent || !accepted) && end.state == "CANCELLED" => JobStatus::Absent,
        JobStatus::Ended(end) if cluster.nodes.iter().any(|node| Node::is_placeholder(&node.name)) => {
            // The job's end is valid without the names of its nodes, so an error is only logged.
            let mut nodes = scheduler.nodes(cluster, name).await.unwrap_or_else(|error| {
                warn!(job = name, "the names of the job's nodes cannot be read: {error:?}");
                Vec::new()
            });
            nodes.retain(|node| !Node::is_placeholder(node));
            JobStatus::Ended(JobEnd { nodes, ..end })
        }
        status => status,
    })
}

fn poll_result(status: JobStatus) -> PollResult {
    let failed =
        |class, code: &str, why: String| PollResult::Ended(Fact::JobFailed(Failure::new(class, code, why)));
    match status {
        JobStatus::Active => PollResult::Running,
        JobStatus::Ended(end) => PollResult::Ended(Fact::JobDone(end)),
        JobStatus::Absent => {
            failed(Class::Infrastructure, "ABSENT", "the scheduler has no job of this name".to_owned())
        }
        JobStatus::Lost { code, why } => failed(Class::ClusterLost, &code, why),
        JobStatus::Yielded { why } => failed(Class::Yielded, "YIELDED", why),
    }
}

#[async_trait::async_trait]
impl Worker for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }

    async fn perform(&self, command: &Command, publisher: &Publisher) -> Result<(), CommandError> {
        let id = &command.id;
        match &command.body {
            Body::JobSubmit { cluster, image, program, environment, evidence, limit } => {
                let program = (program, environment, *evidence);
                self.submit(id, cluster, image.as_ref(), program, *limit, publisher).await
            }
            Body::JobObserve { cluster, handle } => {
                self.observe(id, cluster, handle.is_some(), publisher).await
            }
            Body::JobCancel { cluster, .. } => {
                match self.scheduler.cancel(cluster, &id.resource_name()).await {
                    Ok(()) => self.observe(id, cluster, true, publisher).await,
                    Err(PortError::Transient(why)) => Err(CommandError::Transient(why)),
                    Err(error) => publisher.publish_result(id, Err(error)).await,
                }
            }
            Body::LogsCollect { cluster, jobs } => {
                let collected = self.collector.collect(id, cluster, jobs).await;
                let safe = collected.is_ok();
                publisher.publish_result(id, collected.map(Some)).await?;
                for job in jobs.iter().filter(|_| safe) {
                    if let Err(PortError::Transient(why)) =
                        self.scheduler.release(cluster, &job_name(id, job.attempt)).await
                    {
                        return Err(CommandError::Transient(why));
                    }
                }
                Ok(())
            }
            Body::NodesLocate { search } => self.locate(id, search, publisher).await,
            Body::NodesCancel { search } => match self.locator().cancel(id).await {
                Ok(()) => self.locate(id, search, publisher).await,
                Err(error) => publisher.publish_result(id, Err(error)).await,
            },
            _ => Err(CommandError::Permanent(format!("the agent does not handle the {} stage", id.stage))),
        }
    }
}

/// Job name of another attempt.
pub(crate) fn job_name(id: &CommandId, attempt: model::Attempt) -> String {
    CommandId { stage: Stage::Job, attempt, ..id.clone() }.resource_name()
}
