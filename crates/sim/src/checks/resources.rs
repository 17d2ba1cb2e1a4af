//! Checks that clusters, builds and jobs are unique, are released, and are not deleted while they are needed.

use std::collections::{BTreeMap, BTreeSet};

use lifecycle::{AttemptEnd, RunState};
use model::{Attempt, CheckIndex, Class, Drain, Drained, Fact, Failure, RecordEntry, RunId, Stage, Verdict};

use super::{RunFiles, Violation};
use crate::{
    ExternalEvent,
    cloud::SimCluster,
    history::{attempt_of, is_pair, run_of},
    workload,
};

const ONE_CLUSTER: &str = "I1 one cluster per run";
const ONE_JOB: &str = "I2 one job per run";
const NEEDS: &str = "a check starts only after a pass of those it needs";
const NOTHING_LEFT: &str = "I3 no resource is left";
const CAP: &str = "I10 no more clusters than runs";
const ZOMBIE: &str = "no cluster outlives its lease by more than ten minutes";
const STOPPED: &str = "a stopped job does not start";
const CLOSED: &str = "closed means released";
const FALSE_KILL: &str = "no cluster is deleted while it is needed";
const YIELDED: &str = "a run that yielded starts no further job";
const PAIRS: &str = "pairs run alone, and only during a search";
const NAMED: &str = "no good node is named";
const DRAINED: &str = "no run drains more nodes than its maximum";
const RETURNED: &str = "no node returns to service before every check has passed";
const FALSE_STOP: &str = "no job is stopped while it is needed";

pub fn check(evidence: &RunFiles, quiet: bool, found: &mut Vec<Violation>) {
    clusters(evidence, found);
    jobs(evidence, found);
    closed(evidence, found);
    kills(evidence, found);
    clusters_beyond_lease(evidence, found);
    stops(evidence, found);
    named(evidence, found);
    drained(evidence, found);
    if !quiet {
        remaining_resources(evidence, found);
    }
}

fn id(run: &str) -> Option<RunId> {
    run.parse().ok()
}

/// Whether a job of the run, in any attempt, was preempted by another job.
fn has_yielded(state: &RunState) -> bool {
    let yielded = |failure: &Failure| failure.class == Class::Yielded;
    state.stages.values().any(|stage| {
        let ended = matches!(&stage.end, Some(AttemptEnd::Failed(failure)) if yielded(failure));
        ended || stage.earlier.iter().any(|attempt| yielded(&attempt.because))
    })
}

fn clusters(evidence: &RunFiles, found: &mut Vec<Violation>) {
    // The run of each cluster, and whether the cluster appeared after its confirmed deletion.
    let mut alive: BTreeMap<&str, (&RunId, bool)> = BTreeMap::new();
    for (index, event) in evidence.indexed_history() {
        match event {
            ExternalEvent::ClusterBegan { name, run, expires_at, late } => {
                alive.insert(name, (run, *late));
                let others = alive.values().filter(|(other, late)| *other == run && !late).count();
                if others > 1 && !late {
                    found.push(Violation::new(
                        ONE_CLUSTER,
                        format!("{name} is not the only cluster of {run}"),
                    ));
                }
                let known = alive.values().filter(|(_, late)| !late).count();
                if known > evidence.scenario.requested_runs.len() {
                    found.push(Violation::new(CAP, format!("{known} clusters when {name} started")));
                }
                expiry(evidence, index, name, run, *expires_at, found);
            }
            ExternalEvent::ClusterEnded { name, .. } => {
                alive.remove(name.as_str());
            }
            _ => {}
        }
    }
}

/// A cluster must end at the end of its lease without a request, even if no process is running.
fn expiry(
    evidence: &RunFiles,
    index: usize,
    name: &str,
    run: &RunId,
    expires_at: model::Timestamp,
    found: &mut Vec<Violation>,
) {
    let attempt = name.rsplit('-').next().and_then(|number| number.parse().ok()).map(Attempt::new);
    let state = evidence.runs.get(run).and_then(|run| run.state_at(index));
    let lease = state.and_then(|state| state.leases.get(&attempt?));
    if lease.is_none_or(|lease| lease.expires_at != expires_at) {
        let what =
            format!("{name} exists until {expires_at}, its lease ends at {:?}", lease.map(|l| l.expires_at));
        found.push(Violation::new(NOTHING_LEFT, what));
    }
}

fn jobs(evidence: &RunFiles, found: &mut Vec<Violation>) {
    let mut running: BTreeMap<&str, &str> = BTreeMap::new();
    let mut stopped: BTreeSet<&str> = BTreeSet::new();
    for (index, event) in evidence.indexed_history() {
        match event {
            ExternalEvent::StopRequested { name } => {
                stopped.insert(name);
            }
            ExternalEvent::JobBegan { name } => {
                if stopped.contains(name.as_str()) {
                    found.push(Violation::new(STOPPED, format!("{name} starts after it was stopped")));
                }
                let run = run_of(name);
                let state = id(run).and_then(|run| evidence.runs.get(&run)?.state_at(index));
                if state.is_some_and(has_yielded) {
                    found.push(Violation::new(YIELDED, format!("{name} starts")));
                }
                if is_pair(name) {
                    pair(evidence, index, name, &running, found);
                    running.insert(name, run);
                    continue;
                }
                let others: Vec<_> = running.iter().filter(|(_, other)| **other == run).collect();
                if !others.is_empty() {
                    let what = format!("{name} starts while {others:?} run");
                    found.push(Violation::new(ONE_JOB, what));
                }
                running.insert(name, run);
                match state {
                    None => found.push(Violation::new(ONE_JOB, format!("{name} belongs to no run"))),
                    Some(state) => {
                        let check = attempt_of(name).map(|attempt| attempt.check).unwrap_or_default();
                        if state.job_of(check).is_some() {
                            let what = format!("{name} starts after the job has ended");
                            found.push(Violation::new(ONE_JOB, what));
                        }
                        needs(state, check, name, found);
                    }
                }
            }
            ExternalEvent::JobEnded { name, .. } => {
                running.remove(name.as_str());
            }
            _ => {}
        }
    }
}

/// A check begins only after each check that it needs has passed.
fn needs(state: &RunState, check: CheckIndex, name: &str, found: &mut Vec<Violation>) {
    let Some(named) = state.workflow.check(check) else { return };
    let needed = |other: &CheckIndex| {
        let name = state.workflow.check(*other).map(|check| &check.name);
        state.workflow.round_of(*other) == state.workflow.round_of(check)
            && named.needs.iter().any(|need| Some(need) == name)
    };
    let earlier = state.checks().filter(needed);
    for other in earlier {
        let verdict = state.verdict_of(other).map(|reached| reached.verdict);
        if verdict != Some(Verdict::Pass) {
            let what = format!("{name} starts although the check that it needs has the verdict {verdict:?}");
            found.push(Violation::new(NEEDS, what));
        }
    }
}

/// A pair may run only during its search, and must not share a node with another.
fn pair(
    evidence: &RunFiles,
    index: usize,
    name: &str,
    running: &BTreeMap<&str, &str>,
    found: &mut Vec<Violation>,
) {
    let nodes = |name: &str| evidence.clouds.jobs.get(name).map_or(&[][..], |job| &job.nodes);
    for (other, _) in running.iter().filter(|(_, run)| **run == run_of(name)) {
        if !is_pair(other) || nodes(other).iter().any(|node| nodes(name).contains(node)) {
            found.push(Violation::new(PAIRS, format!("{name} starts while {other} runs")));
        }
    }
    let known = id(run_of(name)).and_then(|run| evidence.runs.get(&run));
    if !known.is_some_and(|known| {
        known.state_at(index).is_some_and(|state| {
            state.checks().map(|check| Stage::Locate.of(check)).any(|search| {
                let running = state.stage(search).is_some_and(|stage| !stage.stopped);
                state.requires(search) && running
            })
        })
    }) {
        found.push(Violation::new(PAIRS, format!("{name} starts without a search")));
    }
}

/// Every suspect must be bad, and every returned node must have passed.
fn named(evidence: &RunFiles, found: &mut Vec<Violation>) {
    for (id, run) in &evidence.runs {
        for (place, _, fact) in run.facts() {
            let Fact::NodesLocated(suspects) = fact else { continue };
            let passed = |state: &RunState, check| {
                state.verdict_of(check).is_some_and(|reached| reached.verdict == Verdict::Pass)
            };
            let all_passed = |state: &RunState| state.checks().all(|check| passed(state, check));
            if !suspects.retested.is_empty() && !run.state_at(place).is_some_and(all_passed) {
                found.push(Violation::new(RETURNED, format!("{id}: {:?}", suspects.retested)));
            }
            let cluster = run.state_at(place).and_then(|state| state.cluster()).map(|cluster| &cluster.name);
            let cluster = cluster.and_then(|name| evidence.clouds.clusters.get(name));
            let slow = cluster.map_or_else(Vec::new, SimCluster::slow_nodes);
            for suspect in suspects.nodes.iter().filter(|suspect| !slow.contains(&suspect.node)) {
                let what = format!("{id}: {} is suspected, but {slow:?} is slow", suspect.node);
                found.push(Violation::new(NAMED, what));
            }
        }
    }
}

/// The searches of a run drain at most the number of nodes that its workflow permits, on all its clusters together.
fn drained(evidence: &RunFiles, found: &mut Vec<Violation>) {
    for (id, run) in &evidence.runs {
        let reason = Drained::reason(id);
        let drained = evidence.clouds.drained.iter().filter(|(_, because)| **because == reason);
        let nodes: Vec<_> = drained.map(|(node, _)| node).collect();
        let locate = run.states.first().and_then(|state| state.workflow.locate);
        let permitted = locate.filter(|locate| locate.drain == Drain::Apply);
        let maximum = permitted.map_or(0, |locate| locate.drain_at_most as usize);
        if nodes.len() > maximum {
            found.push(Violation::new(DRAINED, format!("{id}: {nodes:?} of at most {maximum}")));
        }
    }
}

/// A closed run must have no running build, job or cluster.
fn closed(evidence: &RunFiles, found: &mut Vec<Violation>) {
    let mut alive: BTreeMap<&str, RunId> = BTreeMap::new();
    let mut closings = BTreeMap::new();
    for (run, known) in &evidence.runs {
        let closed =
            known.records.iter().find(|(_, record)| matches!(record.entry, RecordEntry::Closed { .. }));
        closings.extend(closed.map(|(place, _)| (*place, run)));
    }
    for (index, event) in evidence.indexed_history() {
        match event {
            ExternalEvent::ClusterBegan { name, run, late: false, .. } => {
                alive.insert(name, run.clone());
            }
            ExternalEvent::BuildBegan { name } | ExternalEvent::JobBegan { name } => {
                let Some(run) = id(run_of(name)) else { continue };
                if evidence
                    .runs
                    .get(&run)
                    .and_then(|known| known.state_at(index))
                    .is_none_or(|s| s.closed.is_some())
                    && !evidence.has_false_fact(&run)
                {
                    found.push(Violation::new(CLOSED, format!("{name} starts after its run was closed")));
                }
                alive.insert(name, run);
            }
            ExternalEvent::ClusterEnded { name, .. }
            | ExternalEvent::BuildEnded { name }
            | ExternalEvent::JobEnded { name, .. } => {
                alive.remove(name.as_str());
            }
            _ => {}
        }
        if let Some(run) = closings.get(&index) {
            // A build that is reported as failed has ended; a cluster is deleted only when the provider confirms the deletion.
            let believed = |name: &str| evidence.has_false_fact(run) && !name.contains("-cluster-");
            for (name, _) in alive.iter().filter(|(name, other)| other == run && !believed(name)) {
                found.push(Violation::new(CLOSED, format!("{run} is closed, but {name} exists")));
            }
        }
    }
}

/// Maximum time of a cluster beyond its lease, simulated milliseconds: ten minutes.
const ZOMBIE_MOST: i64 = 600_000;

/// Time of each cluster beyond its lease, simulated milliseconds.
pub fn overstays(evidence: &RunFiles) -> Vec<(String, i64)> {
    let mut ends: BTreeMap<&str, i64> = BTreeMap::new();
    let mut overstays = Vec::new();
    for (at, happening) in &evidence.history {
        match happening {
            ExternalEvent::ClusterBegan { name, expires_at, .. } => {
                // The time of a cluster that is created after the end of its lease is measured from its creation.
                ends.insert(name, expires_at.as_millis().max(*at));
            }
            ExternalEvent::ClusterEnded { name, .. } => {
                let end = ends.remove(name.as_str());
                overstays.extend(end.filter(|end| at > end).map(|end| (name.clone(), at - end)));
            }
            _ => {}
        }
    }
    overstays
}

fn clusters_beyond_lease(evidence: &RunFiles, found: &mut Vec<Violation>) {
    for (name, overstay) in overstays(evidence).into_iter().filter(|(_, overstay)| *overstay > ZOMBIE_MOST) {
        found.push(Violation::new(ZOMBIE, format!("{name} existed {} s beyond its lease", overstay / 1000)));
    }
}

/// A deletion requires a recorded reason, or the end of the lease.
fn kills(evidence: &RunFiles, found: &mut Vec<Violation>) {
    let mut expiries: BTreeMap<&str, i64> = BTreeMap::new();
    for (index, event) in evidence.indexed_history() {
        if let ExternalEvent::ClusterBegan { name, expires_at, .. } = event {
            expiries.insert(name, expires_at.as_millis());
        }
        let ExternalEvent::DeleteRequested { name } = event else { continue };
        if expiries.get(name.as_str()).is_some_and(|expiry| evidence.history[index].0 >= expiry + 120_000) {
            continue;
        }
        let run = id(run_of(name));
        let known = run.as_ref().and_then(|run| evidence.runs.get(run));
        // Whether the logs of all checks that were not skipped are collected.
        let collected = known.and_then(|known| known.state_at(index)).is_some_and(|state| {
            state.checks().all(|check| state.logs_of(check).is_some() || state.skipped(check))
        });
        let reason = known.is_some_and(|known| {
            known.records.iter().take_while(|(at, _)| *at < index).any(|(_, record)| match &record.entry {
                RecordEntry::Accepted { fact, .. } => {
                    let searches = known.states[0].workflow.locate.is_some();
                    let through = match &**fact {
                        Fact::LogsCollected(_) => !searches && collected,
                        Fact::VerdictReached(reached) => reached.verdict != Verdict::Fail && collected,
                        Fact::NodesLocated(_) => collected,
                        Fact::CancelRequested(_) => true,
                        _ => false,
                    };
                    fact.failure().is_some()
                        || through
                        // Without a benchmark the cluster may be deleted once it is ready.
                        || matches!(**fact, Fact::ClusterReady(_)) && known.states[0].workflow.check_count() == 0
                }
                RecordEntry::AttemptOpened { .. }
                | RecordEntry::TimedOut { .. }
                | RecordEntry::OverBudget { .. }
                | RecordEntry::Closed { .. } => true,
                RecordEntry::Overdue { .. } => false,
            })
        });
        if !reason || name == workload::EXISTING {
            found.push(Violation::new(FALSE_KILL, format!("{name} is deleted without a reason")));
        }
    }
}

/// Stopping a job also requires a recorded reason.
fn stops(evidence: &RunFiles, found: &mut Vec<Violation>) {
    for (index, event) in evidence.indexed_history() {
        let ExternalEvent::JobEnded { name, how } = event else { continue };
        let known = id(run_of(name)).and_then(|run| evidence.runs.get(&run));
        let reason = known.is_some_and(|known| {
            known.records.iter().take_while(|(at, _)| *at < index).any(|(_, record)| match &record.entry {
                RecordEntry::Accepted { fact, .. } => {
                    fact.failure().is_some() || matches!(**fact, Fact::CancelRequested(_))
                }
                _ => true,
            })
        });
        // A search stops its pairs itself, and records the reason first.
        let search = name.rsplit_once("-p").map_or("", |(search, _)| search);
        let search = search
            .rsplit_once("-locate-")
            .map_or_else(String::new, |(run, attempt)| format!("artefacts/{run}/locate/{attempt}/over.json"));
        let over = evidence.objects.contains_key(&search);
        if how == "CANCELLED" && !reason && !over {
            found.push(Violation::new(FALSE_STOP, format!("{name} is stopped without a reason")));
        }
    }
}

/// Reports resources that still exist at the deadline for becoming idle.
fn remaining_resources(evidence: &RunFiles, found: &mut Vec<Violation>) {
    let clouds = &evidence.clouds;
    let clusters = clouds
        .clusters
        .iter()
        .filter(|(_, cluster)| !cluster.existing && cluster.state != crate::cloud::SimClusterState::Deleted);
    let mut names: Vec<&String> = clusters.map(|(name, _)| name).collect();
    names.extend(clouds.jobs.iter().filter(|(_, job)| job.is_active()).map(|(name, _)| name));
    names.extend(clouds.builds.iter().filter(|(_, build)| build.is_active()).map(|(name, _)| name));
    if !names.is_empty() {
        found.push(Violation::new(NOTHING_LEFT, format!("{names:?}")));
    }
}
