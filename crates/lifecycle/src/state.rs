//! State of a run: the fold of its ledger.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Attempt, CheckIndex, Class, Cluster, ClusterSpec, CommandId, CommandLine, Conclusion, EventKey, Fact,
    Failure, Image, ImageSpec, JobEnd, Logs, Node, Results, RetestedNode, RunId, Span, Stage, Step, Suspects,
    Timestamp, Trigger, Verb, Verdict, VerdictReached, Workflow, failpoint_is_active,
};
use serde::Serialize;

use crate::soak::SoakProgress;

/// State of a run, derived only from its records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunState {
    pub run: RunId,
    /// Resolved workflow from the first record.
    pub workflow: Workflow,
    pub trigger: Trigger,
    pub requested_at: Timestamp,
    /// Number of the last record.
    pub seq: u64,
    /// Time of the last record.
    pub recorded_at: Timestamp,
    /// Person or system that cancelled the run, if any.
    pub cancelled_by: Option<String>,
    /// Step at which the budget stopped the run, and the recorded failure.
    pub over_budget: Option<(Step, Failure)>,
    /// Known stages of all checks, in order of execution.
    pub stages: BTreeMap<Step, StageState>,
    /// Nodes that the run's searches drained, each with the attempt of its cluster: another cluster may have a different
    /// node of the same name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub drained: BTreeSet<(Attempt, String)>,
    /// One lease per requested cluster.
    pub leases: BTreeMap<Attempt, Lease>,
    /// Progress of the soak, once its first job has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<SoakProgress>,
    /// Conclusion and its time, once it is final.
    pub settled: Option<(Conclusion, Timestamp)>,
    /// `None` while the run is open.
    pub closed: Option<Timestamp>,
    /// Accepted messages; a repeated one is ignored.
    pub seen: BTreeSet<EventKey>,
}

/// Current attempt of a stage, and its failed attempts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageState {
    pub attempt: Attempt,
    /// Start of this attempt.
    pub since: Option<Timestamp>,
    /// Last fact of this attempt.
    pub moved: Option<Timestamp>,
    /// External identifier.
    pub handle: Option<String>,
    /// First reported end of the attempt, which is final.
    pub end: Option<AttemptEnd>,
    /// Record time of the exceeded limit.
    pub overdue: Option<Timestamp>,
    /// The external system itself reported the end of this attempt: none of its processes is running.
    pub stopped: bool,
    /// A different end was reported for this attempt later. The first reported end is final.
    pub contested: bool,
    pub earlier: Vec<EarlierAttempt>,
}

/// A previous attempt that ended with an infrastructure failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EarlierAttempt {
    pub attempt: Attempt,
    /// External identifier.
    pub handle: Option<String>,
    pub because: Failure,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum AttemptEnd {
    Succeeded(Box<Fact>),
    Failed(Failure),
    /// No fact arrived within the limit.
    TimedOut,
}

/// A requested cluster, until the provider confirms its deletion.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lease {
    pub asked_at: Timestamp,
    /// Expiry of the cluster itself.
    pub expires_at: Timestamp,
    /// Requested, existing or deleted: until it is deleted, the cluster may exist.
    pub state: LeaseState,
    /// Start of the current billed period.
    pub counted_from: Timestamp,
    /// Total duration of the earlier billed periods.
    pub held: Span,
}

impl Lease {
    pub(crate) const fn new(asked_at: Timestamp, expires_at: Timestamp, state: LeaseState) -> Self {
        Self { asked_at, expires_at, state, counted_from: asked_at, held: Span::from_secs(0) }
    }
}

/// Whether a requested cluster may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// Requested; the cluster may or may not exist.
    Asked,
    /// The cluster exists.
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
    /// `None` if the stage has no record.
    pub fn stage(&self, step: impl Into<Step>) -> Option<&StageState> {
        self.stages.get(&step.into())
    }

    pub fn attempt(&self, step: impl Into<Step>) -> Attempt {
        let step = step.into();
        self.stage(step).map_or(Attempt::first_of(step.check), |state| state.attempt)
    }

    /// End of the stage's current attempt.
    pub fn end(&self, step: impl Into<Step>) -> Option<&AttemptEnd> {
        self.stage(step)?.end.as_ref()
    }

    fn success(&self, step: impl Into<Step>) -> Option<&Fact> {
        match self.end(step)? {
            AttemptEnd::Succeeded(fact) => Some(fact),
            AttemptEnd::Failed(_) | AttemptEnd::TimedOut => None,
        }
    }

    /// `None` until the image is built.
    pub fn image(&self) -> Option<&Image> {
        match (&self.workflow.image, self.success(Stage::Image)) {
            (Some(ImageSpec::Prebuilt(image)), _) | (_, Some(Fact::ImageBuilt(image))) => Some(image),
            _ => None,
        }
    }

    /// `None` until the cluster is ready.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self.success(Stage::Cluster) {
            Some(Fact::ClusterReady(cluster)) => Some(cluster),
            _ => None,
        }
    }

    /// Names of the run's nodes, without duplicates: those of its cluster, and those that the scheduler chose for its jobs.
    pub fn node_names(&self) -> Vec<&str> {
        let named = self.cluster().into_iter().flat_map(|cluster| &cluster.nodes).map(|node| &node.name);
        let ends = self.checks().filter_map(|check| self.job_of(check));
        let mut seen = BTreeSet::new();
        let names = named.filter(|name| !Node::is_placeholder(name)).chain(ends.flat_map(|end| &end.nodes));
        names.map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }

    /// `None` until the job of the check has ended.
    pub fn job_of(&self, check: CheckIndex) -> Option<&JobEnd> {
        match self.success(Stage::Job.of(check)) {
            Some(Fact::JobDone(end)) => Some(end),
            _ => None,
        }
    }

    /// `None` until the logs of the check are collected.
    pub fn logs_of(&self, check: CheckIndex) -> Option<&Logs> {
        match self.success(Stage::Logs.of(check)) {
            Some(Fact::LogsCollected(logs)) => Some(logs),
            _ => None,
        }
    }

    /// `None` until the results of the check are loaded into the warehouse.
    pub fn results_of(&self, check: CheckIndex) -> Option<&Results> {
        match self.success(Stage::Results.of(check)) {
            Some(Fact::ResultsLoaded(results)) => Some(results),
            _ => None,
        }
    }

    /// `None` until the check has a verdict.
    pub fn verdict_of(&self, check: CheckIndex) -> Option<&VerdictReached> {
        match self.success(Stage::Verdict.of(check)) {
            Some(Fact::VerdictReached(verdict)) => Some(verdict),
            _ => None,
        }
    }

    /// `None` until the search for bad nodes after the check has ended.
    pub fn suspects_of(&self, check: CheckIndex) -> Option<&Suspects> {
        match self.success(Stage::Locate.of(check)) {
            Some(Fact::NodesLocated(suspects)) if self.workflow.retest.is_none() => Some(suspects),
            _ => None,
        }
    }

    /// The nodes that passed this run's re-test; empty until it has ended, and for other runs.
    pub fn retested(&self) -> &[RetestedNode] {
        let ended = self.checks().find_map(|check| match self.success(Stage::Locate.of(check)) {
            Some(Fact::NodesLocated(ended)) => Some(&ended.retested),
            _ => None,
        });
        ended.map_or(&[], Vec::as_slice)
    }

    /// The most severe verdict, if the run has one: a fail as soon as a check failed, otherwise once each check is
    /// judged or skipped.
    pub fn verdict(&self) -> Option<&VerdictReached> {
        self.verdict_of(self.worst_check()?)
    }

    /// The first check with the run's verdict; `None` if the run has no verdict.
    pub fn worst_check(&self) -> Option<CheckIndex> {
        if self.workflow.check_count() == 0 {
            return self.verdict_of(CheckIndex::FIRST).map(|_| CheckIndex::FIRST);
        }
        let verdict = |check: &CheckIndex| self.verdict_of(*check).map(|reached| reached.verdict);
        let has = |wanted: Verdict| self.checks().find(|check| verdict(check) == Some(wanted));
        // Prefer the last round of a soak, because its verdict also compares the earlier rounds.
        let passed = || self.last_round().find(|check| verdict(check) == Some(Verdict::Pass));
        has(Verdict::Fail).or_else(|| {
            let all = self.checks().all(|check| self.skipped(check) || self.verdict_of(check).is_some());
            all.then(|| has(Verdict::Inconclusive).or_else(passed)).flatten()
        })
    }

    /// The check to show for the whole run: the one with the most severe verdict, otherwise the last that began,
    /// otherwise the first.
    pub fn shown_check(&self) -> CheckIndex {
        let last = || self.checks().filter(|check| self.stage(Stage::Job.of(*check)).is_some()).last();
        self.worst_check().or_else(last).unwrap_or_default()
    }

    /// `None` until the job of the shown check has ended.
    pub fn job(&self) -> Option<&JobEnd> {
        self.job_of(self.shown_check())
    }

    /// `None` until the logs of the shown check are collected.
    pub fn logs(&self) -> Option<&Logs> {
        self.logs_of(self.shown_check())
    }

    /// `None` until the results of the shown check are loaded into the warehouse.
    pub fn results(&self) -> Option<&Results> {
        self.results_of(self.shown_check())
    }

    /// Result of the first search for bad nodes that ended.
    pub fn suspects(&self) -> Option<&Suspects> {
        self.checks().find_map(|check| self.suspects_of(check))
    }

    /// Positions of all checks, in order of execution. A soak adds those of a round when the round begins.
    pub fn checks(&self) -> impl Iterator<Item = CheckIndex> + use<> {
        (0..self.checks_begun()).map(CheckIndex)
    }

    /// Number of checks of all started rounds.
    fn checks_begun(&self) -> u16 {
        self.workflow.check_count().saturating_mul(self.rounds())
    }

    /// Positions of the checks of the last round.
    pub(crate) fn last_round(&self) -> impl Iterator<Item = CheckIndex> + use<> {
        (self.checks_begun() - self.workflow.check_count()..self.checks_begun()).map(CheckIndex)
    }

    /// All steps of the run, in order of execution, required or not.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let measured = [Stage::Job, Stage::Logs, Stage::Verdict, Stage::Locate];
        let each = self.checks().flat_map(move |check| measured.map(|stage| stage.of(check)));
        let loads = self.checks().map(|check| Stage::Results.of(check));
        [Stage::Image, Stage::Cluster].map(Step::from).into_iter().chain(each).chain(loads)
    }

    /// Whether the workflow requires this step. The search for bad nodes is required only after a failed
    /// verdict of its check, or after the last check of a re-test that passed; a skipped check requires nothing.
    pub fn requires(&self, step: impl Into<Step>) -> bool {
        let Step { check, stage } = step.into();
        match stage {
            Stage::Image => check.is_first() && matches!(self.workflow.image, Some(ImageSpec::Build(_))),
            Stage::Cluster => check.is_first() && self.workflow.cluster.is_some(),
            Stage::Job | Stage::Logs | Stage::Verdict | Stage::Results => {
                let exists = self.workflow.benchmark_of(check).is_some() && self.workflow.cluster.is_some();
                exists && !self.skipped(check)
            }
            Stage::Locate if self.workflow.retest.is_some() => {
                !self.more_jobs_after(check) && self.all_passed()
            }
            Stage::Locate => {
                let failed = self.verdict_of(check).is_some_and(|reached| reached.verdict == Verdict::Fail);
                // Only values of all ranks together need a search: values of nodes, GPUs and pairs already name the bad subject.
                let searchable = self.workflow.benchmark_of(check).is_some_and(|benchmark| {
                    let of_all = |command: &CommandLine| {
                        command.measures_all_ranks() && !benchmark.criteria.metrics.is_empty()
                    };
                    benchmark.program.command().is_none_or(of_all)
                });
                failed && searchable && self.workflow.locate.is_some()
            }
        }
    }

    fn all_passed(&self) -> bool {
        let passed = |check| self.verdict_of(check).is_some_and(|reached| reached.verdict == Verdict::Pass);
        self.checks().all(passed)
            || (failpoint_is_active("returned_without_a_pass") && self.verdict().is_some())
    }

    /// Whether the check is skipped: an earlier check that it needs has ended without a pass.
    pub fn skipped(&self, check: CheckIndex) -> bool {
        if failpoint_is_active("needs_are_ignored") {
            return false;
        }
        let Some(needs) = self.workflow.check(check).map(|check| &check.needs) else { return false };
        let first = self.workflow.round_of(check) * self.workflow.check_count();
        let earlier = (first..check.0).map(CheckIndex);
        let name = |earlier: CheckIndex| self.workflow.check(earlier).map(|check| &check.name);
        let mut needed = earlier.filter(|earlier| needs.iter().any(|need| Some(need) == name(*earlier)));
        needed.any(|needed| {
            let passed = self.verdict_of(needed).is_some_and(|reached| reached.verdict == Verdict::Pass);
            self.check_has_ended(needed) && !passed
        })
    }

    /// Whether a check's measurement and verdict have ended, successfully or not.
    pub(crate) fn check_has_ended(&self, check: CheckIndex) -> bool {
        let job_failed = self.ended(Stage::Job.of(check)) && self.failed(Stage::Job.of(check));
        let without_logs = job_failed && !self.job_began(check);
        let logs_end =
            self.ended(Stage::Logs.of(check)) && (job_failed || self.failed(Stage::Logs.of(check)));
        self.skipped(check) || self.ended(Stage::Verdict.of(check)) || without_logs || logs_end
    }

    /// Whether the workflow provisions its cluster.
    pub fn provisions_cluster(&self) -> bool {
        matches!(self.workflow.cluster, Some(ClusterSpec::Provisioned(_)))
    }

    pub fn leases_returned(&self) -> bool {
        self.leases.values().all(|lease| lease.state == LeaseState::Returned)
    }

    /// Maximum duration of a stage.
    pub fn limit(&self, step: impl Into<Step>) -> Span {
        let Step { check, stage } = step.into();
        match stage {
            Stage::Job => self.workflow.job_limit(check),
            _ => self.workflow.limits.of(stage),
        }
    }

    /// Id of a command for the current attempt of a stage.
    pub fn command_id(&self, step: impl Into<Step>, verb: Verb) -> CommandId {
        let step = step.into();
        self.command_id_at(step.stage, self.attempt(step), verb)
    }

    pub(crate) fn command_id_at(&self, stage: Stage, attempt: Attempt, verb: Verb) -> CommandId {
        CommandId { run: self.run.clone(), stage, attempt, verb }
    }

    pub fn cluster_name(&self, attempt: Attempt) -> String {
        match &self.workflow.cluster {
            Some(ClusterSpec::Existing { name, .. }) => name.clone(),
            _ => self.command_id_at(Stage::Cluster, attempt, Verb::Start).resource_name(),
        }
    }

    /// Step to repeat and the failure of the current attempt, if the limits allow another attempt and the answer is still
    /// needed.
    pub(crate) fn retriable(&self, step: Step) -> Option<(Step, &Failure)> {
        let state = self.stage(step)?;
        let Some(AttemptEnd::Failed(failure)) = &state.end else { return None };
        let broken = match failure.class {
            Class::Infrastructure => step,
            Class::ClusterLost if step.stage == Stage::Job && self.provisions_cluster() => {
                Stage::Cluster.into()
            }
            Class::ClusterLost => step,
            Class::Workload if failpoint_is_active("retry_the_workload") => step,
            Class::Yielded if failpoint_is_active("yielded_jobs_are_repeated") => step,
            Class::Workload | Class::Input | Class::Cancelled | Class::Yielded => return None,
        };
        let budget = self.workflow.limits.attempts;
        (self.settled.is_none() && self.attempt(broken).number < budget && state.attempt.number < budget)
            .then_some((broken, failure))
    }

    /// Whether the stage has ended without a further attempt.
    pub fn ended(&self, step: impl Into<Step>) -> bool {
        let step = step.into();
        self.end(step).is_some() && self.retriable(step).is_none()
    }

    /// Whether the check's job may have written output, so there may be logs.
    fn job_began(&self, check: CheckIndex) -> bool {
        let job = self.stage(Stage::Job.of(check));
        job.is_some_and(|job| job.handle.is_some() || !job.earlier.is_empty())
    }

    /// The current step; `None` if no step can change the answer.
    ///
    /// A permanently failed stage ends its check, and the next check follows. After a lost cluster or a job that may still be
    /// running no further job is started. A failed job's logs are still collected as evidence, and the measurements are loaded
    /// even if the verdict or the search for bad nodes failed, or a later check did.
    pub fn current_step(&self) -> Option<Step> {
        if self.settled.is_some() {
            return None;
        }
        let mut stopped = false;
        // A round begins only after all checks of the previous ones have passed.
        let first = self.last_round().next().unwrap_or_default();
        let unfinished = |step: &Step| {
            let measured = step.stage.is_of_check() && step.stage != Stage::Results;
            (!measured || step.check >= first) && self.requires(*step)
        };
        for step in self.steps().filter(unfinished) {
            let check = step.check;
            let measured = || self.job_of(check).is_some() && self.logs_of(check).is_some();
            let reached = match step.stage {
                Stage::Image => true,
                Stage::Cluster | Stage::Job => !stopped,
                Stage::Logs => {
                    let failed = self.failed(Stage::Job.of(check));
                    self.ended(Stage::Job.of(check)) && (!failed || self.job_began(check))
                }
                Stage::Verdict | Stage::Results => measured(),
                Stage::Locate => true,
            };
            if !reached {
                continue;
            }
            match self.end(step) {
                None => return Some(step),
                Some(_) if self.retriable(step).is_some() => return Some(step),
                Some(AttemptEnd::Succeeded(_)) => {}
                Some(end) => stopped |= stops_jobs(step.stage, end),
            }
        }
        None
    }

    /// Conclusion that follows from the stages.
    pub(crate) fn conclusion(&self) -> Option<Conclusion> {
        if let Some(by) = &self.cancelled_by {
            return Some(Conclusion::Cancelled { by: by.clone() });
        }
        if let Some((Step { check, stage }, failure)) = self.over_budget.clone() {
            return Some(Conclusion::Failed { stage, check, failure });
        }
        if self.current_step().is_some() {
            return None;
        }
        // The conclusion depends on the verdict and not on the search for bad nodes, unless the search prevents later checks.
        let relevant = |step: &Step| {
            let stops = || {
                self.end(*step).is_some_and(|end| stops_jobs(step.stage, end))
                    && self.more_jobs_after(step.check)
            };
            self.requires(*step) && (step.stage != Stage::Locate || stops())
        };
        let broken = self.steps().filter(relevant).find_map(|step| {
            let Step { check, stage } = step;
            match self.end(step)? {
                AttemptEnd::Succeeded(_) => None,
                AttemptEnd::Failed(failure) => {
                    let failure = failure.clone();
                    Some(match failure.class {
                        Class::Yielded => Conclusion::Yielded { stage, check, failure },
                        _ => Conclusion::Failed { stage, check, failure },
                    })
                }
                AttemptEnd::TimedOut => Some(Conclusion::TimedOut { stage, check }),
            }
        });
        Some(broken.or_else(|| self.short_soak()).unwrap_or(Conclusion::Completed))
    }

    /// Whether the run still needs the cluster of this attempt.
    pub fn needs_lease(&self, attempt: Attempt) -> bool {
        self.settled.is_none()
            && attempt == self.attempt(Stage::Cluster)
            && !matches!(self.end(Stage::Cluster), Some(AttemptEnd::Failed(_) | AttemptEnd::TimedOut))
            && !self.is_through_with_cluster()
    }

    /// Whether the logs of all checks are collected and no search for bad nodes will follow.
    pub(crate) fn is_through_with_cluster(&self) -> bool {
        if failpoint_is_active("lease_ends_after_the_first_check") && self.ended(Stage::Logs) {
            return true;
        }
        let acts_on_nodes = self.workflow.locate.is_some() || self.workflow.retest.is_some();
        let searches = acts_on_nodes && !failpoint_is_active("lease_ends_before_the_search");
        let is_through = |check: CheckIndex| {
            let [logs, locate] = [Stage::Logs.of(check), Stage::Locate.of(check)];
            let judged = self.failed(logs) || self.ended(Stage::Verdict.of(check));
            let searched = self.ended(locate) || (judged && !self.requires(locate));
            self.skipped(check) || (self.ended(logs) && (!searches || searched))
        };
        let loads = self.current_step().is_none_or(|step| step.stage == Stage::Results);
        // After the verdict on its last check, a soak may begin another round.
        let ended = self.workflow.soak.is_none() || self.soak.is_some_and(|soak| soak.ended.is_some());
        loads || (self.workflow.check_count() > 0 && ended && self.last_round().all(is_through))
    }

    /// Whether a later check may still start a job.
    pub(crate) fn more_jobs_after(&self, check: CheckIndex) -> bool {
        check.0 + 1 < self.checks_begun()
    }

    /// Steps that are no longer needed and may still be running.
    pub fn abandoned(&self) -> impl Iterator<Item = Step> + '_ {
        let stoppable = |step: &Step| matches!(step.stage, Stage::Image | Stage::Job | Stage::Locate);
        self.steps().filter(stoppable).filter(|step| {
            let Some(state) = self.stage(*step) else { return false };
            let started = state.since.is_some() || state.handle.is_some();
            let unwanted = self.settled.is_some() || matches!(state.end, Some(AttemptEnd::TimedOut));
            // A job ends with its cluster: after the lease is released no job remains to stop.
            let gone = step.stage != Stage::Image && self.provisions_cluster() && self.leases_returned();
            started && unwanted && !state.stopped && !gone
        })
    }

    /// Id, conclusion and verdict of the run, once closed.
    pub fn closing(&self) -> Option<(&RunId, &Conclusion)> {
        self.closed?;
        self.settled.as_ref().map(|(conclusion, _)| (&self.run, conclusion))
    }

    pub fn failed(&self, step: impl Into<Step>) -> bool {
        matches!(self.end(step), Some(AttemptEnd::Failed(_) | AttemptEnd::TimedOut))
    }
}

/// Whether this end prevents further jobs. Without image or cluster no job can run, and a job that may still be running
/// would disturb the next measurement.
fn stops_jobs(stage: Stage, end: &AttemptEnd) -> bool {
    match (stage, end) {
        (Stage::Image | Stage::Cluster, _) | (Stage::Job | Stage::Locate, AttemptEnd::TimedOut) => true,
        (Stage::Job, AttemptEnd::Failed(failure)) => {
            matches!(failure.class, Class::ClusterLost | Class::Cancelled | Class::Yielded)
        }
        _ => false,
    }
}
