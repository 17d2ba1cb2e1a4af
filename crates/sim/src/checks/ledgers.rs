//! Checks ledgers: complete, ordered, with correct ends.

use std::collections::{BTreeMap, BTreeSet};

use cloudevents::AttributesReader;
use events::{Content, Message};
use model::{Class, Conclusion, Fact, Record, RecordEntry, RunId, Stage, Verdict};

use super::{CheckedRun, RunFiles, Violation};
use crate::{ExternalEvent, Fault};

const SOUND: &str = "ledger sound";
const TERMINAL: &str = "I6 an end never changes";
const CLOSES: &str = "every run closes";
const RETRIES: &str = "only infrastructure is retried";
const TIMEOUTS: &str = "a limit ends a stage only after a poll";
const END_PUBLISHED: &str = "the end is published";
const BUDGET: &str = "a run with a spent budget starts nothing";
const SOAK: &str = "a passed soak ran for its duration";
const HEALTHY: &str = "a run without faults passes";
const REPLAY: &str = "replay changes nothing";

pub fn check(evidence: &RunFiles, quiet: bool, found: &mut Vec<Violation>) {
    for requested in &evidence.scenario.requested_runs {
        let Some(run) = evidence.runs.get(&requested.run) else {
            found.push(Violation::new(CLOSES, format!("{} has no ledger", requested.run)));
            continue;
        };
        sound(&requested.run, run, found);
        if found.is_empty() {
            terminal(&requested.run, run, evidence, found);
            attempts(&requested.run, run, found);
            timeouts(&requested.run, run, found);
            soak(&requested.run, run, found);
            budget(&requested.run, run, found);
        }
        let last = run.states.last();
        let closed = last.is_some_and(|state| state.closed.is_some() && state.leases_returned());
        if !closed || !quiet {
            let end = last.map(|state| (&state.settled, &state.leases, state.current_step()));
            let hints = evidence.objects.keys().filter(|name| name.starts_with("open/")).count();
            let what = format!("{} is not idle: {end:?}, {hints} open hints", requested.run);
            found.push(Violation::new(CLOSES, what));
        }
    }
    healthy(evidence, found);
    replay(evidence, found);
}

fn sound(id: &RunId, run: &CheckedRun, found: &mut Vec<Violation>) {
    let mut wrong = |what: String| found.push(Violation::new(SOUND, format!("{id}: {what}")));
    if let Some(damage) = &run.damage {
        wrong(damage.clone());
    }
    let mut nonces = BTreeSet::new();
    let mut events = BTreeSet::new();
    let mut before = None;
    for (expected, (_, record)) in (1..).zip(&run.records) {
        if record.seq != expected {
            wrong(format!("expected record {expected}, found {}", record.seq));
        }
        if !nonces.insert(&record.nonce) {
            wrong(format!("record {expected} has the nonce of another record"));
        }
        if before.is_some_and(|before| record.recorded_at < before) {
            wrong(format!("the time decreases at record {expected}"));
        }
        before = Some(record.recorded_at);
        if let RecordEntry::Accepted { event, .. } = &record.entry
            && !events.insert(event)
        {
            wrong(format!("{event} is accepted twice"));
        }
    }
}

/// The first entry without an event must end the run, or the search for bad nodes if no check is left, once the remaining budget covers
/// only the release of the cluster.
fn budget(id: &RunId, run: &CheckedRun, found: &mut Vec<Violation>) {
    for (before, (_, record)) in run.states.iter().zip(run.records.iter().skip(1)) {
        let now = record.recorded_at;
        // If a conductor's clock is behind the previous record, the conductor decides by its own clock, and records
        // the time of the previous record.
        let is_due = before.stops_at().is_some_and(|stop| stop < now) && before.recorded_at < now;
        let stops = match &record.entry {
            RecordEntry::Accepted { .. } | RecordEntry::OverBudget { .. } => true,
            RecordEntry::TimedOut { stage, .. } => *stage == Stage::Locate,
            RecordEntry::AttemptOpened { .. } | RecordEntry::Overdue { .. } | RecordEntry::Closed { .. } => {
                false
            }
        };
        if is_due && before.settled.is_none() && !stops {
            let what = format!(
                "{id}: the run exceeds its budget, and record {} ({}) continues it",
                record.seq,
                name(&record.entry)
            );
            found.push(Violation::new(BUDGET, what));
        }
    }
}

const fn name(entry: &RecordEntry) -> &'static str {
    match entry {
        RecordEntry::AttemptOpened { .. } => "new attempt",
        RecordEntry::Overdue { .. } => "poll after a limit",
        _ => "timeout or an end",
    }
}

fn terminal(id: &RunId, run: &CheckedRun, evidence: &RunFiles, found: &mut Vec<Violation>) {
    let mut wrong = |invariant, what: String| found.push(Violation::new(invariant, format!("{id}: {what}")));
    let mut settled = None;
    let mut verdicts = BTreeMap::new();
    for state in &run.states {
        let now = state.settled.as_ref().map(|(conclusion, _)| conclusion);
        if settled.is_some() && now != settled {
            wrong(TERMINAL, format!("{settled:?} became {now:?}"));
        }
        settled = now;
        for check in state.checks() {
            let now = state.verdict_of(check);
            let before = verdicts.insert(check, now).flatten();
            if before.is_some() && now != before {
                wrong(TERMINAL, "another verdict replaced the first".to_owned());
            }
        }
    }
    let closings = run.records.iter().filter_map(|(place, record)| match &record.entry {
        RecordEntry::Closed { conclusion } => Some((*place, conclusion)),
        _ => None,
    });
    let closings: Vec<_> = closings.collect();
    if closings.len() > 1 {
        wrong(TERMINAL, "the run is closed twice".to_owned());
    }
    let Some((closed_at, conclusion)) = closings.first() else { return };
    let mut published = 0;
    for (index, event) in evidence.indexed_history() {
        let ExternalEvent::Published { event, .. } = event else { continue };
        if event.ty() != "dev.burnin.run.closed.v1" {
            continue;
        }
        let Ok(Message { run, content: Content::Fact(Fact::RunClosed(closed)), .. }) =
            Message::from_event(event)
        else {
            continue;
        };
        if run != *id {
            continue;
        }
        published += 1;
        if index < *closed_at {
            wrong(END_PUBLISHED, "the end is published before it is recorded".to_owned());
        }
        if closed.conclusion != **conclusion {
            wrong(TERMINAL, format!("{:?} is published, {conclusion:?} is recorded", closed.conclusion));
        }
    }
    if published == 0 {
        wrong(END_PUBLISHED, "the end was not published".to_owned());
    }
}

fn attempts(id: &RunId, run: &CheckedRun, found: &mut Vec<Violation>) {
    let budget = run.states.last().map_or(1, |state| state.workflow.limits.attempts);
    for (_, record) in &run.records {
        let RecordEntry::AttemptOpened { stage, attempt, because } = &record.entry else { continue };
        if !matches!(because.class, Class::Infrastructure | Class::ClusterLost) || attempt.number > budget {
            let what =
                format!("{id}: attempt {attempt} of the {stage} stage was opened because of {because:?}");
            found.push(Violation::new(RETRIES, what));
        }
    }
}

fn timeouts(id: &RunId, run: &CheckedRun, found: &mut Vec<Violation>) {
    for (at, (_, record)) in run.records.iter().enumerate() {
        let RecordEntry::TimedOut { stage, attempt } = &record.entry else { continue };
        // A spent budget stops the search for bad nodes immediately, and does not change the result of the run.
        let before = at.checked_sub(1).and_then(|before| run.states.get(before));
        let stop = before.and_then(lifecycle::RunState::stops_at);
        if *stage == Stage::Locate && stop.is_some_and(|stop| stop <= record.recorded_at) {
            continue;
        }
        let overdue_at = run.records.iter().find_map(|(_, earlier)| match &earlier.entry {
            RecordEntry::Overdue { stage: s, attempt: a } if s == stage && a == attempt => {
                Some(earlier.recorded_at)
            }
            _ => None,
        });
        let grace = run.states.last().map(|state| state.workflow.limits.grace).unwrap_or_default();
        if overdue_at.is_none_or(|overdue_at| overdue_at + grace > record.recorded_at) {
            let what = format!("{id}: the {stage} stage timed out without a poll before its limit");
            found.push(Violation::new(TIMEOUTS, what));
        }
    }
}

/// From the cluster's readiness to the last verdict, a soak that passed takes at least the requested time.
fn soak(id: &RunId, run: &CheckedRun, found: &mut Vec<Violation>) {
    let Some(state) = run.states.last() else { return };
    let Some(soak) = state.workflow.soak else { return };
    let passed = state.verdict().is_some_and(|reached| reached.verdict == Verdict::Pass);
    if !passed || !matches!(state.settled, Some((Conclusion::Completed, _))) {
        return;
    }
    let times = |of: fn(&Fact) -> bool| {
        run.records.iter().filter_map(move |(_, record)| match &record.entry {
            RecordEntry::Accepted { fact, .. } if of(fact) => Some(record.recorded_at),
            _ => None,
        })
    };
    let ready = times(|fact| matches!(fact, Fact::ClusterReady(_))).next();
    let judged = times(|fact| matches!(fact, Fact::VerdictReached(_))).next_back();
    let lasted = judged.zip(ready).map(|(judged, ready)| judged.since(ready)).unwrap_or_default();
    if lasted < soak.duration {
        found.push(Violation::new(SOAK, format!("{id}: lasted {lasted}, requested {}", soak.duration)));
    }
}

/// Without faults, every run must reach its verdict. A simulation in which no run succeeds is no evidence for the invariants.
fn healthy(evidence: &RunFiles, found: &mut Vec<Violation>) {
    if Fault::ALL.iter().any(|fault| evidence.scenario.faults.rate(*fault) > 0)
        || !evidence.scenario.crash_at.is_empty()
    {
        return;
    }
    for (requested, ending) in evidence.scenario.requested_runs.iter().zip(evidence.endings()) {
        // A budget may end a run without faults, too.
        if requested.workflow.cost.is_some() && ending.conclusion == "failed" {
            continue;
        }
        let verdict = (requested.workflow.check_count() > 0).then(|| "pass".to_owned());
        if ending.conclusion != "completed" || ending.verdict != verdict {
            found.push(Violation::new(HEALTHY, format!("{ending:?}")));
        }
    }
}

/// Whether the record accepts a fact about a cluster. The replay may record such facts even after the end of the run, because clusters
/// still cost money; the release of an absent cluster is free.
fn is_cluster_fact(evidence: &RunFiles, record: &str) -> bool {
    let record = evidence.objects.get(record).and_then(|body| serde_json::from_slice::<Record>(body).ok());
    record.is_some_and(|record| match record.entry {
        RecordEntry::Accepted { fact, .. } => {
            matches!(*fact, Fact::ClusterAccepted(_) | Fact::ClusterReady(_) | Fact::ClusterDeleted(_))
        }
        _ => false,
    })
}

fn replay(evidence: &RunFiles, found: &mut Vec<Violation>) {
    let after = evidence.indexed_history().skip_while(|(_, event)| !matches!(event, ExternalEvent::Replayed));
    for (_, event) in after {
        let effect = match event {
            ExternalEvent::Stored { name } => name.starts_with("ledger/") && !is_cluster_fact(evidence, name),
            // The replay may also load a row with the hours of a cluster whose fact was recorded late.
            ExternalEvent::Loaded { load, .. } => !load.contains(".used."),
            ExternalEvent::BuildBegan { .. }
            | ExternalEvent::ClusterBegan { .. }
            | ExternalEvent::JobBegan { .. } => true,
            _ => false,
        };
        if effect {
            found.push(Violation::new(REPLAY, event.to_string()));
        }
    }
}
