//! State of a run: the fold of its ledger.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Attempt, Class, Cluster, ClusterSpec, CommandId, Conclusion, EventKey, Fact, Failure, Image, ImageSpec,
    JobEnd, Logs, Results, RunId, Span, Stage, Suspects, Timestamp, Trigger, Verb, Verdict, VerdictReached,
    Workflow, planted,
};
use serde::Serialize;

/// State of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunState {
    /// The run.
    pub run: RunId,
    /// The workflow.
    pub workflow: Workflow,
    /// Cause of the run.
    pub trigger: Trigger,
    /// Time of the request.
    pub requested_at: Timestamp,
    /// Number of the last record.
    pub seq: u64,
    /// Time of the last record.
    pub recorded_at: Timestamp,
    /// Person or system that cancelled the run, if any.
    pub cancelled_by: Option<String>,
    /// Stage and failure of a stop for budget reasons, if any.
    pub over_budget: Option<(Stage, Failure)>,
    /// Known stages.
    pub stages: BTreeMap<Stage, StageState>,
    /// One lease per requested cluster.
    pub leases: BTreeMap<Attempt, Lease>,
    /// Conclusion and its time, once it is final.
    pub settled: Option<(Conclusion, Timestamp)>,
    /// Time of the close.
    pub closed: Option<Timestamp>,
    /// Messages accepted so far.
    pub seen: BTreeSet<EventKey>,
}

/// State of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageState {
    /// Current attempt.
    pub attempt: Attempt,
    /// Start of this attempt.
    pub since: Option<Timestamp>,
    /// Last fact of this attempt.
    pub moved: Option<Timestamp>,
    /// External identifier.
    pub handle: Option<String>,
    /// End of the attempt.
    pub end: Option<AttemptEnd>,
    /// Time at which the exceeded limit was recorded.
    pub overdue: Option<Timestamp>,
    /// The external system itself reported the end of this attempt: nothing of it is running.
    pub stopped: bool,
    /// A different end was reported for this attempt later. The first one counts.
    pub contested: bool,
    /// Previous attempts.
    pub earlier: Vec<EarlierAttempt>,
}

/// An attempt that the infrastructure failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EarlierAttempt {
    /// Attempt number.
    pub attempt: Attempt,
    /// External identifier.
    pub handle: Option<String>,
    /// Cause of the failure.
    pub because: Failure,
}

/// End of a stage's attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum AttemptEnd {
    /// It succeeded with this fact.
    Succeeded(Box<Fact>),
    /// It failed.
    Failed(Failure),
    /// No fact arrived within the limit.
    TimedOut,
}

/// A requested cluster, until the provider confirms its deletion.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lease {
    /// Time of the request.
    pub asked_at: Timestamp,
    /// Time at which the cluster ends by itself.
    pub expires_at: Timestamp,
    /// State of the lease.
    pub state: LeaseState,
    /// Start of the current uninterrupted hold.
    pub counted_from: Timestamp,
    /// Time held before that.
    pub held: Span,
}

impl Lease {
    pub(crate) const fn new(asked_at: Timestamp, expires_at: Timestamp, state: LeaseState) -> Self {
        Self { asked_at, expires_at, state, counted_from: asked_at, held: Span::from_secs(0) }
    }
}

/// State of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Requested; it may or may not exist.
    Asked,
    /// It exists.
    Held,
    /// The provider confirmed the deletion.
    Returned,
}

impl StageState {
    pub(crate) const fn new(attempt: Attempt) -> Self {
        Self {
            attempt,
            since: None,
            moved: None,
            handle: None,
            end: None,
            overdue: None,
            stopped: false,
            contested: false,
            earlier: Vec::new(),
        }
    }

    /// Time of the last fact of this attempt.
    pub fn quiet_since(&self) -> Option<Timestamp> {
        self.moved.max(self.since)
    }
}

impl RunState {
    /// State of a stage, if known.
    pub fn stage(&self, stage: Stage) -> Option<&StageState> {
        self.stages.get(&stage)
    }

    /// Current attempt of a stage.
    pub fn attempt(&self, stage: Stage) -> Attempt {
        self.stage(stage).map_or(Attempt::FIRST, |state| state.attempt)
    }

    /// End of the stage's current attempt.
    pub fn end(&self, stage: Stage) -> Option<&AttemptEnd> {
        self.stage(stage)?.end.as_ref()
    }

    fn success(&self, stage: Stage) -> Option<&Fact> {
        match self.end(stage)? {
            AttemptEnd::Succeeded(fact) => Some(fact),
            AttemptEnd::Failed(_) | AttemptEnd::TimedOut => None,
        }
    }

    /// The image, if built.
    pub fn image(&self) -> Option<&Image> {
        match (&self.workflow.image, self.success(Stage::Image)) {
            (Some(ImageSpec::Prebuilt(image)), _) | (_, Some(Fact::ImageBuilt(image))) => Some(image),
            _ => None,
        }
    }

    /// The cluster, if ready.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self.success(Stage::Cluster) {
            Some(Fact::ClusterReady(cluster)) => Some(cluster),
            _ => None,
        }
    }

    /// End of the job, if it ended.
    pub fn job(&self) -> Option<&JobEnd> {
        match self.success(Stage::Job) {
            Some(Fact::JobDone(end)) => Some(end),
            _ => None,
        }
    }

    /// The logs, if collected.
    pub fn logs(&self) -> Option<&Logs> {
        match self.success(Stage::Logs) {
            Some(Fact::LogsCollected(logs)) => Some(logs),
            _ => None,
        }
    }

    /// The loaded results, if loaded.
    pub fn results(&self) -> Option<&Results> {
        match self.success(Stage::Results) {
            Some(Fact::ResultsLoaded(results)) => Some(results),
            _ => None,
        }
    }

    /// The verdict, if reached.
    pub fn verdict(&self) -> Option<&VerdictReached> {
        match self.success(Stage::Verdict) {
            Some(Fact::VerdictReached(verdict)) => Some(verdict),
            _ => None,
        }
    }

    /// Result of the search for bad nodes, if it ended.
    pub fn suspects(&self) -> Option<&Suspects> {
        match self.success(Stage::Locate) {
            Some(Fact::NodesLocated(suspects)) => Some(suspects),
            _ => None,
        }
    }

    /// Whether the workflow requires this stage. The search for bad nodes is required only after a failed
    /// verdict.
    pub fn wants(&self, stage: Stage) -> bool {
        match stage {
            Stage::Image => matches!(self.workflow.image, Some(ImageSpec::Build(_))),
            Stage::Cluster => self.workflow.cluster.is_some(),
            Stage::Job | Stage::Logs | Stage::Verdict | Stage::Results => {
                self.workflow.benchmark.is_some() && self.workflow.cluster.is_some()
            }
            Stage::Locate => {
                let failed = self.verdict().is_some_and(|reached| reached.verdict == Verdict::Fail);
                failed && self.workflow.locate.is_some()
            }
        }
    }

    /// Whether the workflow provisions its cluster.
    pub fn rents(&self) -> bool {
        matches!(self.workflow.cluster, Some(ClusterSpec::Rent(_)))
    }

    /// Whether every opened lease is returned.
    pub fn leases_returned(&self) -> bool {
        self.leases.values().all(|lease| lease.state == LeaseState::Returned)
    }

    /// Maximum duration of a stage.
    pub fn limit(&self, stage: Stage) -> Span {
        self.workflow.limits.of(stage)
    }

    /// Id of a command for the current attempt of a stage.
    pub fn command_id(&self, stage: Stage, verb: Verb) -> CommandId {
        self.command_id_at(stage, self.attempt(stage), verb)
    }

    pub(crate) fn command_id_at(&self, stage: Stage, attempt: Attempt, verb: Verb) -> CommandId {
        CommandId { run: self.run.clone(), stage, attempt, verb }
    }

    /// Name of an attempt's cluster.
    pub fn cluster_name(&self, attempt: Attempt) -> String {
        match &self.workflow.cluster {
            Some(ClusterSpec::Existing { name, .. }) => name.clone(),
            _ => self.command_id_at(Stage::Cluster, attempt, Verb::Start).resource_name(),
        }
    }

    /// Failure of the current attempt, if the limits allow another attempt and the answer is still needed.
    pub(crate) fn retriable(&self, stage: Stage) -> Option<(Stage, &Failure)> {
        let state = self.stage(stage)?;
        let Some(AttemptEnd::Failed(failure)) = &state.end else { return None };
        let broken = match failure.class {
            Class::Infrastructure => stage,
            Class::ClusterLost if stage == Stage::Job && self.rents() => Stage::Cluster,
            Class::ClusterLost => stage,
            Class::Workload if planted("retry_the_workload") => stage,
            Class::Workload | Class::Input | Class::Cancelled => return None,
        };
        let budget = self.workflow.limits.attempts;
        (self.settled.is_none() && self.attempt(broken).0 < budget && state.attempt.0 < budget)
            .then_some((broken, failure))
    }

    /// Whether the stage has ended without a further attempt.
    pub fn ended(&self, stage: Stage) -> bool {
        self.end(stage).is_some() && self.retriable(stage).is_none()
    }

    /// Whether the job may have written output, so there may be logs.
    fn job_began(&self) -> bool {
        self.stage(Stage::Job).is_some_and(|job| job.handle.is_some() || !job.earlier.is_empty())
    }

    /// The current stage; `None` if nothing more can be done for the answer.
    ///
    /// A permanently failed stage ends the sequence, with two exceptions: a failed job's logs are still
    /// collected as evidence, and the measurements are loaded even if the verdict or the search for bad nodes
    /// failed.
    pub fn frontier(&self) -> Option<Stage> {
        if self.settled.is_some() {
            return None;
        }
        for stage in Stage::ALL.into_iter().filter(|stage| self.wants(*stage)) {
            match self.end(stage) {
                None => return Some(stage),
                Some(_) if self.retriable(stage).is_some() => return Some(stage),
                Some(AttemptEnd::Succeeded(_)) => {}
                Some(AttemptEnd::Failed(_) | AttemptEnd::TimedOut) => match stage {
                    Stage::Job if self.job_began() => {
                        return (!self.ended(Stage::Logs)).then_some(Stage::Logs);
                    }
                    Stage::Verdict | Stage::Locate | Stage::Results => {}
                    _ => return None,
                },
            }
        }
        None
    }

    /// Conclusion that follows from the stages.
    pub(crate) fn conclusion(&self) -> Option<Conclusion> {
        if let Some(by) = &self.cancelled_by {
            return Some(Conclusion::Cancelled { by: by.clone() });
        }
        if let Some((stage, failure)) = &self.over_budget {
            return Some(Conclusion::Failed { stage: *stage, failure: failure.clone() });
        }
        if self.frontier().is_some() {
            return None;
        }
        // The verdict is the answer: it is independent of the search for bad nodes.
        let asked = |stage: &Stage| self.wants(*stage) && *stage != Stage::Locate;
        let broken = Stage::ALL.into_iter().filter(asked).find_map(|stage| match self.end(stage)? {
            AttemptEnd::Succeeded(_) => None,
            AttemptEnd::Failed(failure) => Some(Conclusion::Failed { stage, failure: failure.clone() }),
            AttemptEnd::TimedOut => Some(Conclusion::TimedOut { stage }),
        });
        Some(broken.unwrap_or(Conclusion::Completed))
    }

    /// Whether the run still needs the cluster of this attempt.
    pub fn needs_lease(&self, attempt: Attempt) -> bool {
        self.settled.is_none()
            && attempt == self.attempt(Stage::Cluster)
            && !matches!(self.end(Stage::Cluster), Some(AttemptEnd::Failed(_) | AttemptEnd::TimedOut))
            && !self.is_through_with_cluster()
    }

    /// Whether the logs are collected and no search for bad nodes will follow.
    fn is_through_with_cluster(&self) -> bool {
        let searches = self.workflow.locate.is_some() && !planted("lease_ends_before_the_search");
        let judged = self.failed(Stage::Logs) || self.ended(Stage::Verdict);
        let searched = self.ended(Stage::Locate) || (judged && !self.wants(Stage::Locate));
        self.ended(Stage::Logs) && (!searches || searched)
    }

    /// Stages that are no longer needed and may still be running.
    pub fn abandoned(&self) -> impl Iterator<Item = Stage> + '_ {
        [Stage::Image, Stage::Job, Stage::Locate].into_iter().filter(|stage| {
            let Some(state) = self.stage(*stage) else { return false };
            let begun = state.since.is_some() || state.handle.is_some();
            let unwanted = self.settled.is_some() || matches!(state.end, Some(AttemptEnd::TimedOut));
            // A job ends with its cluster: after the lease is returned there is nothing left to stop.
            let gone = *stage != Stage::Image && self.rents() && self.leases_returned();
            begun && unwanted && !state.stopped && !gone
        })
    }

    /// Id, conclusion and verdict of the run, once closed.
    pub fn closing(&self) -> Option<(&RunId, &Conclusion)> {
        self.closed?;
        self.settled.as_ref().map(|(conclusion, _)| (&self.run, conclusion))
    }

    /// Whether the stage's attempt failed.
    pub fn failed(&self, stage: Stage) -> bool {
        matches!(self.end(stage), Some(AttemptEnd::Failed(_) | AttemptEnd::TimedOut))
    }
}
