//! Pending commands of a run.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Body, CheckIndex, ClusterSpec, Command, Conclusion, ImageSpec, JobRef, Locate, NodeSearch, SoakRounds,
    Span, Stage, Step, Timestamp, Verb, failpoint_is_active,
};

use crate::state::{LeaseState, RunState};

/// A pending command, and the time it became pending.
#[derive(Clone, Debug, PartialEq)]
pub struct Obligation {
    /// Command to resend until a fact reports its result.
    pub command: Command,
    /// Time at which the command became pending.
    pub since: Timestamp,
}

/// All commands the state requires at `now`. Resending a command is harmless; omitting one is a bug.
#[must_use]
pub fn owed(state: &RunState, now: Timestamp) -> Vec<Obligation> {
    let mut owed = Vec::new();
    owed.extend(leases(state));
    owed.extend(stops(state));
    owed.extend(current_command(state, now));
    owed
}

/// The poll of the current stage, regardless of the poll interval: after a restart no poller is running.
#[must_use]
pub fn current_poll(state: &RunState) -> Option<Command> {
    let step = state.current_step()?;
    let known = state.stage(step)?;
    if known.end.is_some() || known.handle.is_none() {
        return None;
    }
    Some(Command { id: state.command_id(step, Verb::Observe), body: observe(state, step)? })
}

/// Loads of the measurements that a closed run did not load, because it was cancelled or its budget was spent. No fact is recorded for
/// these commands, because the run is closed. A repeated load has no effect.
#[must_use]
pub fn last_loads(state: &RunState) -> Vec<Command> {
    if state.closed.is_none() {
        return Vec::new();
    }
    let is_measured = |check: &CheckIndex| state.job_of(*check).is_some() && state.logs_of(*check).is_some();
    let steps = state.checks().filter(is_measured).map(|check| Stage::Results.of(check));
    let unloaded = steps.filter(|step| state.requires(*step) && !state.ended(*step));
    let load = |step| Some(Command { id: state.command_id(step, Verb::Start), body: start(state, step)? });
    unloaded.filter_map(load).collect()
}

/// Time at which the state must be evaluated again without a new fact; `None` if only a fact can change it.
#[must_use]
pub fn wake(state: &RunState, now: Timestamp) -> Option<Timestamp> {
    let stage = state.stage(state.current_step()?)?;
    let limits = &state.workflow.limits;
    let limit = match stage.overdue {
        Some(overdue_at) => overdue_at + limits.grace,
        None => stage.since? + state.limit(state.current_step()?),
    };
    let limit = state.stops_at().map_or(limit, |stop| stop.min(limit));
    let ask = stage.quiet_since()? + limits.patience;
    Some(if ask > now { ask.min(limit) } else { limit })
}

/// Clusters to release. Without a deadline: pending until the provider confirms the deletion.
fn leases(state: &RunState) -> Vec<Obligation> {
    let Some(spec) = state.workflow.cluster.as_ref().filter(|_| state.provisions_cluster()) else {
        return Vec::new();
    };
    if failpoint_is_active("teardown_only_on_success")
        && !matches!(state.settled, Some((Conclusion::Completed, _)))
    {
        return Vec::new();
    }
    let unneeded = state
        .leases
        .iter()
        .filter(|(attempt, lease)| lease.state != LeaseState::Returned && !state.needs_lease(**attempt));
    unneeded
        .map(|(attempt, _)| Obligation {
            command: Command {
                id: state.command_id_at(Stage::Cluster, *attempt, Verb::Delete),
                body: Body::ClusterDelete { spec: spec.clone(), name: state.cluster_name(*attempt) },
            },
            since: state.settled.as_ref().map_or(state.recorded_at, |(_, at)| *at),
        })
        .collect()
}

/// Builds and jobs that are no longer needed.
fn stops(state: &RunState) -> Vec<Obligation> {
    let stop = |step: Step| {
        let handle = state.stage(step)?.handle.clone();
        let body = match step.stage {
            Stage::Image => Body::ImageCancel { handle },
            Stage::Job => Body::JobCancel { cluster: state.cluster()?.clone(), handle },
            Stage::Locate => Body::NodesCancel { search: Box::new(search(state, step.check)?) },
            _ => return None,
        };
        let command = Command { id: state.command_id(step, Verb::Cancel), body };
        Some(Obligation { command, since: state.recorded_at })
    };
    state.abandoned().filter_map(stop).collect()
}

/// Command of the current stage: start it until it is accepted, then poll it.
fn current_command(state: &RunState, now: Timestamp) -> Option<Obligation> {
    let step = state.current_step()?;
    let known = state.stage(step)?;
    if known.end.is_some() {
        return None; // `decide` opens the next attempt
    }
    let since = known.since?;
    let quiet = known.quiet_since()? + state.workflow.limits.patience;
    let observable = matches!(step.stage, Stage::Image | Stage::Cluster | Stage::Job);
    if observable && (known.overdue.is_some() || (known.handle.is_some() && now >= quiet)) {
        let command = Command { id: state.command_id(step, Verb::Observe), body: observe(state, step)? };
        return Some(Obligation { command, since: known.overdue.unwrap_or(quiet) });
    }
    if known.handle.is_some() {
        return None;
    }
    let command = Command { id: state.command_id(step, Verb::Start), body: start(state, step)? };
    Some(Obligation { command, since })
}

fn start(state: &RunState, step: Step) -> Option<Body> {
    let Step { check, stage } = step;
    let limit = state.limit(step);
    let benchmark = || state.workflow.benchmark_of(check);
    let name = || state.workflow.check(check).map(|_| state.workflow.check_name(check).into_owned());
    Some(match stage {
        Stage::Image => match state.workflow.image.as_ref()? {
            ImageSpec::Build(build) => Body::ImageBuild { build: build.clone(), timeout: limit },
            ImageSpec::Prebuilt(_) => return None,
        },
        Stage::Cluster => {
            let attempt = state.attempt(stage);
            let spec = state.workflow.cluster.clone()?;
            let expires_at = match spec {
                // Never two clusters per run: the previous one must be deleted first.
                ClusterSpec::Provisioned(_) => Some(own_lease(state, attempt)?),
                ClusterSpec::Existing { .. } => None,
            };
            Body::ClusterCreate { spec, name: state.cluster_name(attempt), expires_at }
        }
        Stage::Job => Body::JobSubmit {
            cluster: state.cluster()?.clone(),
            image: state.image().cloned(),
            program: benchmark()?.program.clone(),
            environment: benchmark()?.environment.clone(),
            evidence: benchmark()?.criteria.evidence.is_taken(),
            limit: job_limit(limit, state.workflow.limits.grace),
        },
        Stage::Logs => Body::LogsCollect { cluster: state.cluster()?.clone(), jobs: jobs(state, check) },
        Stage::Verdict => Body::RunJudge {
            workflow: state.workflow.name.clone(),
            check: name(),
            requested_at: Some(state.requested_at),
            logs: state.logs_of(check)?.clone(),
            job_attempt: state.attempt(Stage::Job.of(check)),
            job: state.job_of(check)?.clone(),
            program: benchmark()?.program.clone(),
            spec: state.workflow.cluster.clone().map(Box::new),
            cluster: state.cluster()?.clone(),
            image: state.image().cloned().map(Box::new),
            criteria: Box::new(benchmark()?.criteria.clone()),
            baseline: benchmark()?.baseline.clone(),
            soak: state.workflow.soak.map(|soak| {
                let round = state.workflow.round_of(check) + 1;
                Box::new(SoakRounds { round, drift: soak.drift, earlier: state.earlier_rounds(check) })
            }),
        },
        Stage::Locate => Body::NodesLocate { search: Box::new(search(state, check)?) },
        Stage::Results => Body::ResultsLoad {
            workflow: state.workflow.name.clone(),
            check: name(),
            requested_at: Some(state.requested_at),
            logs: state.logs_of(check)?.clone(),
            job_attempt: state.attempt(Stage::Job.of(check)),
            verdict: state.verdict_of(check).cloned(),
        },
    })
}

fn search(state: &RunState, check: CheckIndex) -> Option<NodeSearch> {
    let limits = &state.workflow.limits;
    let limit = state.stage(Stage::Locate.of(check))?.since? + job_limit(limits.locate, limits.grace);
    // The search ends before the lease: a node that ends with the cluster's lease is not a bad node.
    let lease = state.leases.get(&state.attempt(Stage::Cluster));
    let lease =
        lease.map(|lease| lease.asked_at + job_limit(lease.expires_at.since(lease.asked_at), limits.grace));
    let benchmark = state.workflow.benchmark_of(check)?;
    let retest = state.workflow.retest.clone();
    let metrics = benchmark.criteria.metrics.iter().filter(|_| benchmark.program.command().is_some());
    let (mut directed, mut conflicting) = (BTreeMap::new(), BTreeSet::new());
    for criterion in metrics.clone() {
        // Criteria may select values of a metric by labels; the agent receives only the metric.
        let other =
            criterion.better.map(|better| *directed.entry(criterion.metric.clone()).or_insert(better));
        if other != criterion.better {
            conflicting.insert(criterion.metric.clone());
        }
    }
    directed.retain(|metric, _| !conflicting.contains(metric));
    let locate = state.workflow.locate.or_else(|| retest.as_ref().map(|_| Locate::default()))?;
    let cluster = state.attempt(Stage::Cluster);
    let drained = match failpoint_is_active("earlier_drains_are_ignored") {
        true => Default::default(),
        false => state.drained.clone(),
    };
    let before = u32::try_from(drained.len()).unwrap_or(u32::MAX);
    Some(NodeSearch {
        cluster: state.cluster()?.clone(),
        image: state.image().cloned(),
        program: benchmark.program.clone(),
        better: directed,
        metrics: metrics.map(|criterion| criterion.metric.clone()).collect(),
        environment: benchmark.environment.clone(),
        job_attempt: state.attempt(Stage::Job.of(check)),
        locate,
        drains_left: (before > 0).then(|| locate.drain_at_most.saturating_sub(before)),
        drained: drained.into_iter().filter(|(at, _)| *at == cluster).map(|(_, node)| node).collect(),
        suspected: state
            .verdict_of(check)
            .into_iter()
            .flat_map(|reached| &reached.suspects)
            .map(|suspect| suspect.node.clone())
            .collect(),
        ends_at: lease.map_or(limit, |lease| lease.min(limit)),
        retest,
    })
}

/// The scheduler's limit is slightly shorter than the run's limit, so that the job's end arrives as a result.
pub fn job_limit(limit: Span, grace: Span) -> Span {
    Span(limit.0.saturating_sub(grace.0).max(limit.0 / 2))
}

fn own_lease(state: &RunState, attempt: model::Attempt) -> Option<Timestamp> {
    let others_returned =
        state.leases.iter().all(|(other, lease)| *other == attempt || lease.state == LeaseState::Returned)
            || failpoint_is_active("second_cluster_at_once");
    state.leases.get(&attempt).filter(|_| others_returned).map(|lease| lease.expires_at)
}

fn observe(state: &RunState, step: Step) -> Option<Body> {
    let handle = state.stage(step)?.handle.clone();
    Some(match step.stage {
        Stage::Image => Body::ImageObserve { handle },
        Stage::Cluster => Body::ClusterObserve {
            spec: state.workflow.cluster.clone()?,
            name: state.cluster_name(state.attempt(step)),
        },
        Stage::Job => Body::JobObserve { cluster: state.cluster()?.clone(), handle },
        Stage::Logs | Stage::Results | Stage::Verdict | Stage::Locate => return None,
    })
}

/// All attempts that may have output, on the existing cluster.
fn jobs(state: &RunState, check: CheckIndex) -> Vec<JobRef> {
    let Some(job) = state.stage(Stage::Job.of(check)) else { return Vec::new() };
    let earlier = job.earlier.iter().map(|job| JobRef { attempt: job.attempt, handle: job.handle.clone() });
    earlier.chain([JobRef { attempt: job.attempt, handle: job.handle.clone() }]).collect()
}
