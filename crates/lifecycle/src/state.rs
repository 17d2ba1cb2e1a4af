//! What is known of a run: the fold of its ledger.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Attempt, Class, Cluster, ClusterSpec, CommandId, Conclusion, EventKey, Fact, Failure, Image, ImageSpec,
    JobEnd, Logs, Results, RunId, Span, Stage, Suspects, Timestamp, Trigger, Verb, Verdict, VerdictReached,
    Workflow, planted,
};
use serde::Serialize;

/// A run, as its ledger tells it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunState {
    /// The run.
    pub run: RunId,
    /// What it runs.
    pub workflow: Workflow,
    /// What caused it.
    pub trigger: Trigger,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// Number of the last record.
    pub seq: u64,
    /// Time of the last record.
    pub recorded_at: Timestamp,
    /// Who asked to end it, if somebody did.
    pub cancelled_by: Option<String>,
    /// Why it had to stop for the sake of money, if it had to.
    pub over_budget: Option<(Stage, Failure)>,
    /// The stages, as far as anything is known of them.
    pub stages: BTreeMap<Stage, StageState>,
    /// One lease for each cluster ever asked for.
    pub leases: BTreeMap<Attempt, Lease>,
    /// How the run ended, once it is settled.
    pub settled: Option<(Conclusion, Timestamp)>,
    /// When it was closed.
    pub closed: Option<Timestamp>,
    /// Messages accepted so far.
    pub seen: BTreeSet<EventKey>,
}

/// What is known of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageState {
    /// The attempt spoken of.
    pub attempt: Attempt,
    /// When this attempt's turn came.
    pub since: Option<Timestamp>,
    /// Last news of this attempt.
    pub moved: Option<Timestamp>,
    /// What the outside world calls it.
    pub handle: Option<String>,
    /// How it ended.
    pub end: Option<End>,
    /// When its limit was seen to have passed.
    pub overdue: Option<Timestamp>,
    /// The outside world itself said that this attempt is over: nothing of it is running.
    pub stopped: bool,
    /// Another, different ending was reported for this attempt. The first one counts.
    pub contested: bool,
    /// The attempts before this one.
    pub earlier: Vec<EarlierAttempt>,
}

/// An attempt that the infrastructure broke.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EarlierAttempt {
    /// Which.
    pub attempt: Attempt,
    /// What the outside world called it.
    pub handle: Option<String>,
    /// What broke it.
    pub because: Failure,
}

/// How a stage's attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum End {
    /// With this fact.
    Succeeded(Box<Fact>),
    /// It failed.
    Failed(Failure),
    /// It stayed silent past its limit.
    TimedOut,
}

/// A cluster asked for, until the provider confirms that it is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lease {
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When the cluster ends by itself.
    pub expires_at: Timestamp,
    /// Where it stands.
    pub state: LeaseState,
    /// Since when it has been held without a break.
    pub counted_from: Timestamp,
    /// How long it was held before that.
    pub held: Span,
}

impl Lease {
    pub(crate) const fn new(asked_at: Timestamp, expires_at: Timestamp, state: LeaseState) -> Self {
        Self { asked_at, expires_at, state, counted_from: asked_at, held: Span::from_secs(0) }
    }
}

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Asked for; it may or may not exist.
    Asked,
    /// It exists.
    Held,
    /// The provider confirmed that it is gone.
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

    /// Last sign of life of this attempt.
    pub fn quiet_since(&self) -> Option<Timestamp> {
        self.moved.max(self.since)
    }
}

impl RunState {
    /// The stage, if anything is known of it.
    pub fn stage(&self, stage: Stage) -> Option<&StageState> {
        self.stages.get(&stage)
    }

    /// The attempt that counts for a stage.
    pub fn attempt(&self, stage: Stage) -> Attempt {
        self.stage(stage).map_or(Attempt::FIRST, |state| state.attempt)
    }

    /// How the stage's current attempt ended.
    pub fn end(&self, stage: Stage) -> Option<&End> {
        self.stage(stage)?.end.as_ref()
    }

    fn success(&self, stage: Stage) -> Option<&Fact> {
        match self.end(stage)? {
            End::Succeeded(fact) => Some(fact),
            End::Failed(_) | End::TimedOut => None,
        }
    }

    /// The image, once there is one.
    pub fn image(&self) -> Option<&Image> {
        match (&self.workflow.image, self.success(Stage::Image)) {
            (Some(ImageSpec::Prebuilt(image)), _) | (_, Some(Fact::ImageBuilt(image))) => Some(image),
            _ => None,
        }
    }

    /// The cluster, once it can take jobs.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self.success(Stage::Cluster) {
            Some(Fact::ClusterReady(cluster)) => Some(cluster),
            _ => None,
        }
    }

    /// How the job ended, once it did.
    pub fn job(&self) -> Option<&JobEnd> {
        match self.success(Stage::Job) {
            Some(Fact::JobDone(end)) => Some(end),
            _ => None,
        }
    }

    /// The logs, once they are safe.
    pub fn logs(&self) -> Option<&Logs> {
        match self.success(Stage::Logs) {
            Some(Fact::LogsCollected(logs)) => Some(logs),
            _ => None,
        }
    }

    /// What was loaded, once it was.
    pub fn results(&self) -> Option<&Results> {
        match self.success(Stage::Results) {
            Some(Fact::ResultsLoaded(results)) => Some(results),
            _ => None,
        }
    }

    /// The verdict, once it is reached.
    pub fn verdict(&self) -> Option<&VerdictReached> {
        match self.success(Stage::Verdict) {
            Some(Fact::VerdictReached(verdict)) => Some(verdict),
            _ => None,
        }
    }

    /// What the search for bad nodes came to, once it did.
    pub fn suspects(&self) -> Option<&Suspects> {
        match self.success(Stage::Locate) {
            Some(Fact::NodesLocated(suspects)) => Some(suspects),
            _ => None,
        }
    }

    /// The workflow asks for this stage. Bad nodes are looked for only once the verdict says that there are some.
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

    /// The workflow rents its cluster.
    pub fn rents(&self) -> bool {
        matches!(self.workflow.cluster, Some(ClusterSpec::Rent(_)))
    }

    /// Every lease that was ever opened has been given back.
    pub fn leases_returned(&self) -> bool {
        self.leases.values().all(|lease| lease.state == LeaseState::Returned)
    }

    /// The longest a stage may take.
    pub fn limit(&self, stage: Stage) -> Span {
        self.workflow.limits.of(stage)
    }

    /// The id of a wish about the current attempt of a stage.
    pub fn command_id(&self, stage: Stage, verb: Verb) -> CommandId {
        self.command_id_at(stage, self.attempt(stage), verb)
    }

    pub(crate) fn command_id_at(&self, stage: Stage, attempt: Attempt, verb: Verb) -> CommandId {
        CommandId { run: self.run.clone(), stage, attempt, verb }
    }

    /// What the cluster of an attempt is called.
    pub fn cluster_name(&self, attempt: Attempt) -> String {
        match &self.workflow.cluster {
            Some(ClusterSpec::Existing { name, .. }) => name.clone(),
            _ => self.command_id_at(Stage::Cluster, attempt, Verb::Start).resource_name(),
        }
    }

    /// The failure that ended the current attempt, when the budget allows another one and somebody still waits for
    /// the answer.
    pub(crate) fn retriable(&self, stage: Stage) -> Option<(Stage, &Failure)> {
        let state = self.stage(stage)?;
        let Some(End::Failed(failure)) = &state.end else { return None };
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

    /// The stage has ended and will not be tried again.
    pub fn ended(&self, stage: Stage) -> bool {
        self.end(stage).is_some() && self.retriable(stage).is_none()
    }

    /// Something of the job may have been written, so there may be logs.
    fn job_began(&self) -> bool {
        self.stage(Stage::Job).is_some_and(|job| job.handle.is_some() || !job.earlier.is_empty())
    }

    /// The stage whose turn it is; none when all that can be done for the answer is done.
    ///
    /// A stage that failed for good ends the walk, with two exceptions: a broken job's logs are still brought in
    /// (they are the evidence), and a judge that could not work does not cost the measurements, nor does a bad node that
    /// could not be found.
    pub fn frontier(&self) -> Option<Stage> {
        if self.settled.is_some() {
            return None;
        }
        for stage in Stage::ALL.into_iter().filter(|stage| self.wants(*stage)) {
            match self.end(stage) {
                None => return Some(stage),
                Some(_) if self.retriable(stage).is_some() => return Some(stage),
                Some(End::Succeeded(_)) => {}
                Some(End::Failed(_) | End::TimedOut) => match stage {
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

    /// How the run ends, as far as the stages decide it.
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
        // The verdict is the answer: it stands whether a bad node is found or not.
        let asked = |stage: &Stage| self.wants(*stage) && *stage != Stage::Locate;
        let broken = Stage::ALL.into_iter().filter(asked).find_map(|stage| match self.end(stage)? {
            End::Succeeded(_) => None,
            End::Failed(failure) => Some(Conclusion::Failed { stage, failure: failure.clone() }),
            End::TimedOut => Some(Conclusion::TimedOut { stage }),
        });
        Some(broken.unwrap_or(Conclusion::Completed))
    }

    /// The run still needs the cluster of this attempt.
    pub fn needs_lease(&self, attempt: Attempt) -> bool {
        self.settled.is_none()
            && attempt == self.attempt(Stage::Cluster)
            && !matches!(self.end(Stage::Cluster), Some(End::Failed(_) | End::TimedOut))
            && !self.is_through_with_cluster()
    }

    /// The logs are safe, and no bad node is going to be looked for any more.
    fn is_through_with_cluster(&self) -> bool {
        let searches = self.workflow.locate.is_some() && !planted("lease_ends_before_the_search");
        let judged = self.failed(Stage::Logs) || self.ended(Stage::Verdict);
        let searched = self.ended(Stage::Locate) || (judged && !self.wants(Stage::Locate));
        self.ended(Stage::Logs) && (!searches || searched)
    }

    /// Stages of which something may still run although nobody waits for it.
    pub fn abandoned(&self) -> impl Iterator<Item = Stage> + '_ {
        [Stage::Image, Stage::Job, Stage::Locate].into_iter().filter(|stage| {
            let Some(state) = self.stage(*stage) else { return false };
            let begun = state.since.is_some() || state.handle.is_some();
            let unwanted = self.settled.is_some() || matches!(state.end, Some(End::TimedOut));
            // A job ends with its cluster: once the lease is returned there is nothing left to stop.
            let gone = *stage != Stage::Image && self.rents() && self.leases_returned();
            begun && unwanted && !state.stopped && !gone
        })
    }

    /// The run as its id, conclusion and verdict, once it is closed.
    pub fn closing(&self) -> Option<(&RunId, &Conclusion)> {
        self.closed?;
        self.settled.as_ref().map(|(conclusion, _)| (&self.run, conclusion))
    }

    /// The stage's attempt ended badly.
    pub fn failed(&self, stage: Stage) -> bool {
        matches!(self.end(stage), Some(End::Failed(_) | End::TimedOut))
    }
}
