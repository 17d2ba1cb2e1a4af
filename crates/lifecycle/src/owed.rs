//! What the world still owes a run.

use model::{
    Attempt, Body, ClusterSpec, Command, Conclusion, ImageSpec, JobRef, Search, Span, Stage, Timestamp, Verb,
    planted,
};

use crate::state::{LeaseState, RunState};

/// A command, and since when it has been owed.
#[derive(Clone, Debug, PartialEq)]
pub struct Obligation {
    /// The command.
    pub command: Command,
    /// When it became owed.
    pub since: Timestamp,
}

/// Every command that the state calls for by now. Sending one twice is harmless; not sending one is a bug.
#[must_use]
pub fn owed(state: &RunState, now: Timestamp) -> Vec<Obligation> {
    let mut owed = Vec::new();
    owed.extend(leases(state));
    owed.extend(stops(state));
    owed.extend(turn(state, now));
    owed
}

/// What to ask of the stage that is under way, patience or not: after a restart nobody here watches it any more.
#[must_use]
pub fn checkup(state: &RunState) -> Option<Command> {
    let stage = state.frontier()?;
    let known = state.stage(stage)?;
    if known.end.is_some() || known.handle.is_none() {
        return None;
    }
    Some(Command { id: state.command_id(stage, Verb::Observe), body: observe(state, stage)? })
}

/// When the state has to be looked at again although nothing happened; none when only news can change it.
#[must_use]
pub fn wake(state: &RunState, now: Timestamp) -> Option<Timestamp> {
    let stage = state.stage(state.frontier()?)?;
    let limits = &state.workflow.limits;
    let limit = match stage.overdue {
        Some(asked) => asked + limits.grace,
        None => stage.since? + state.limit(state.frontier()?),
    };
    let limit = state.stops_at().map_or(limit, |stop| stop.min(limit));
    let ask = stage.quiet_since()? + limits.patience;
    Some(if ask > now { ask.min(limit) } else { limit })
}

/// Clusters to give back. This has no deadline: it is owed until the provider confirms it.
fn leases(state: &RunState) -> Vec<Obligation> {
    let Some(spec) = state.workflow.cluster.as_ref().filter(|_| state.rents()) else { return Vec::new() };
    if planted("teardown_only_on_success") && !matches!(state.settled, Some((Conclusion::Completed, _))) {
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

/// Builds and jobs that nobody waits for any more.
fn stops(state: &RunState) -> Vec<Obligation> {
    let stop = |stage| {
        let handle = state.stage(stage)?.handle.clone();
        let body = match stage {
            Stage::Image => Body::ImageCancel { handle },
            Stage::Job => Body::JobCancel { cluster: state.cluster()?.clone(), handle },
            Stage::Locate => Body::NodesCancel { search: Box::new(search(state)?) },
            _ => return None,
        };
        let command = Command { id: state.command_id(stage, Verb::Cancel), body };
        Some(Obligation { command, since: state.recorded_at })
    };
    state.abandoned().filter_map(stop).collect()
}

/// What the stage whose turn it is needs: to be begun while nobody has said yes, afterwards to be asked how it is.
fn turn(state: &RunState, now: Timestamp) -> Option<Obligation> {
    let stage = state.frontier()?;
    let known = state.stage(stage)?;
    if known.end.is_some() {
        return None; // the next attempt is opened by `decide`
    }
    let since = known.since?;
    let quiet = known.quiet_since()? + state.workflow.limits.patience;
    let observable = matches!(stage, Stage::Image | Stage::Cluster | Stage::Job);
    if observable && (known.overdue.is_some() || (known.handle.is_some() && now >= quiet)) {
        let command = Command { id: state.command_id(stage, Verb::Observe), body: observe(state, stage)? };
        return Some(Obligation { command, since: known.overdue.unwrap_or(quiet) });
    }
    if known.handle.is_some() {
        return None;
    }
    let command = Command { id: state.command_id(stage, Verb::Start), body: start(state, stage)? };
    Some(Obligation { command, since })
}

fn start(state: &RunState, stage: Stage) -> Option<Body> {
    let limit = state.limit(stage);
    let benchmark = || state.workflow.benchmark.as_ref();
    Some(match stage {
        Stage::Image => match state.workflow.image.as_ref()? {
            ImageSpec::Build(build) => Body::ImageBuild { build: build.clone(), timeout: limit },
            ImageSpec::Prebuilt(_) => return None,
        },
        Stage::Cluster => {
            let attempt = state.attempt(stage);
            let spec = state.workflow.cluster.clone()?;
            let expires_at = match spec {
                // Never two clusters for one run: the one before has to be gone first.
                ClusterSpec::Rent(_) => Some(own_lease(state, attempt)?),
                ClusterSpec::Existing { .. } => None,
            };
            Body::ClusterCreate { spec, name: state.cluster_name(attempt), expires_at }
        }
        Stage::Job => Body::JobSubmit {
            cluster: state.cluster()?.clone(),
            image: state.image().cloned(),
            workload: benchmark()?.workload.clone(),
            limit: job_limit(limit, state.workflow.limits.grace),
        },
        Stage::Logs => Body::LogsCollect { cluster: state.cluster()?.clone(), jobs: jobs(state) },
        Stage::Verdict => Body::RunJudge {
            workflow: state.workflow.name.clone(),
            requested_at: Some(state.requested_at),
            logs: state.logs()?.clone(),
            job_attempt: state.attempt(Stage::Job),
            job: state.job()?.clone(),
            workload: benchmark()?.workload.clone(),
            spec: state.workflow.cluster.clone().map(Box::new),
            cluster: state.cluster()?.clone(),
            image: state.image().cloned().map(Box::new),
            criteria: Box::new(benchmark()?.criteria.clone()),
            baseline: benchmark()?.baseline.clone(),
        },
        Stage::Locate => Body::NodesLocate { search: Box::new(search(state)?) },
        Stage::Results => Body::ResultsLoad {
            workflow: state.workflow.name.clone(),
            requested_at: Some(state.requested_at),
            logs: state.logs()?.clone(),
            job_attempt: state.attempt(Stage::Job),
            verdict: state.verdict().cloned(),
        },
    })
}

fn search(state: &RunState) -> Option<Search> {
    let limits = &state.workflow.limits;
    let limit = state.stage(Stage::Locate)?.since? + job_limit(limits.locate, limits.grace);
    // Nodes that end with their lease are not bad.
    let lease = state.leases.get(&state.attempt(Stage::Cluster));
    let lease =
        lease.map(|lease| lease.asked_at + job_limit(lease.expires_at.since(lease.asked_at), limits.grace));
    Some(Search {
        cluster: state.cluster()?.clone(),
        image: state.image().cloned(),
        workload: state.workflow.benchmark.as_ref()?.workload.clone(),
        job_attempt: state.attempt(Stage::Job),
        locate: state.workflow.locate?,
        ends_at: lease.map_or(limit, |lease| lease.min(limit)),
    })
}

/// The scheduler ends a job a little before we would give it up, so that its end reaches us as a result.
fn job_limit(limit: Span, grace: Span) -> Span {
    Span(limit.0.saturating_sub(grace.0).max(limit.0 / 2))
}

fn own_lease(state: &RunState, attempt: Attempt) -> Option<Timestamp> {
    let others_returned =
        state.leases.iter().all(|(other, lease)| *other == attempt || lease.state == LeaseState::Returned)
            || planted("second_cluster_at_once");
    state.leases.get(&attempt).filter(|_| others_returned).map(|lease| lease.expires_at)
}

fn observe(state: &RunState, stage: Stage) -> Option<Body> {
    let handle = state.stage(stage)?.handle.clone();
    Some(match stage {
        Stage::Image => Body::ImageObserve { handle },
        Stage::Cluster => Body::ClusterObserve {
            spec: state.workflow.cluster.clone()?,
            name: state.cluster_name(state.attempt(stage)),
        },
        Stage::Job => Body::JobObserve { cluster: state.cluster()?.clone(), handle },
        Stage::Logs | Stage::Results | Stage::Verdict | Stage::Locate => return None,
    })
}

/// Every attempt that may have written something, on the cluster that is still there.
fn jobs(state: &RunState) -> Vec<JobRef> {
    let Some(job) = state.stage(Stage::Job) else { return Vec::new() };
    let earlier = job.earlier.iter().map(|job| JobRef { attempt: job.attempt, handle: job.handle.clone() });
    earlier.chain([JobRef { attempt: job.attempt, handle: job.handle.clone() }]).collect()
}
