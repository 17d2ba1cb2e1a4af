//! Decides which entries to record.

use model::{Attempt, EventKey, Fact, Record, RecordEntry, Stage, Step, Timestamp, failpoint_is_active};

use crate::{
    evolve::evolve,
    state::{LeaseState, RunState},
};

#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedFact {
    /// CloudEvents source and id of the message.
    pub event: EventKey,
    pub attempt: Attempt,
    pub fact: Fact,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Fact(Box<ReceivedFact>),
    /// Time passed, or a restart lost the preceding inputs.
    Tick,
}

/// Entries to record, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub entries: Vec<RecordEntry>,
    /// Reason why the fact was not recorded.
    pub ignored: Option<Ignored>,
}

/// Reason why a fact has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The same message was accepted before.
    Duplicate,
    NothingNew,
    /// The fact belongs to an abandoned attempt.
    OlderAttempt,
    /// The fact belongs to an attempt that was never started.
    UnknownAttempt,
    /// The result is final; a cancel has no effect.
    Settled,
    /// The run is closed; only facts about its clusters have an effect.
    Closed,
    /// The workflow has no such stage.
    NotRequired,
}

impl Ignored {
    /// Text for logs and `explain`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "the same message was accepted before",
            Self::NothingNew => "the fact contains nothing new",
            Self::OlderAttempt => "the fact belongs to an abandoned attempt",
            Self::UnknownAttempt => "the fact belongs to an attempt that was never started",
            Self::Settled => "the result is final; a cancel has no effect",
            Self::Closed => "the run is closed; only facts about its clusters have an effect",
            Self::NotRequired => "the fact belongs to a stage that the workflow does not have",
        }
    }
}

pub fn decide_first(occurrence: ReceivedFact) -> RecordEntry {
    RecordEntry::Accepted {
        event: occurrence.event,
        attempt: Attempt::FIRST,
        fact: Box::new(occurrence.fact),
    }
}

/// Entries to record for an input, including those due at `now`.
#[must_use]
pub fn decide(state: &RunState, input: Input, now: Timestamp) -> Decision {
    let mut entries = Vec::new();
    let mut ignored = None;
    let mut state = state.clone();
    let mut push = |state: &mut RunState, entry: RecordEntry| {
        let record = provisional(state, entry.clone(), now);
        *state = evolve(state.clone(), &record);
        entries.push(entry);
    };
    if let Input::Fact(occurrence) = input {
        match refusal(&state, &occurrence, now) {
            Some(why) => ignored = Some(why),
            None => {
                let ReceivedFact { event, attempt, fact } = *occurrence;
                push(&mut state, RecordEntry::Accepted { event, attempt, fact: Box::new(fact) });
            }
        }
    }
    // Each entry removes its own cause, so the loop ends.
    while let Some(entry) = due(&state, now) {
        push(&mut state, entry);
    }
    Decision { entries, ignored }
}

/// A provisional record, to compute the next state before the append. The fold evaluates only the record's number and
/// time.
fn provisional(state: &RunState, entry: RecordEntry, now: Timestamp) -> Record {
    let recorded_at = now.max(state.recorded_at);
    Record {
        format: entry.format(),
        run: state.run.clone(),
        seq: state.seq + 1,
        nonce: String::new(),
        recorded_at,
        entry,
    }
}

/// Reason why a fact is not recorded; `None` for a recorded fact.
fn refusal(state: &RunState, occurrence: &ReceivedFact, now: Timestamp) -> Option<Ignored> {
    let ReceivedFact { event, attempt, fact } = occurrence;
    if state.seen.contains(event) {
        return Some(Ignored::Duplicate);
    }
    match (fact, fact.stage()) {
        (Fact::RunRequested(_) | Fact::RunClosed(_) | Fact::RunUsed(_), _) => {
            return Some(Ignored::NothingNew);
        }
        (Fact::CancelRequested(_), _)
            if state.settled.is_some() || failpoint_is_active("cancel_is_ignored") =>
        {
            return Some(Ignored::Settled);
        }
        (Fact::CancelRequested(_), _) => {}
        (_, None) => return Some(Ignored::NotRequired),
        (_, Some(stage)) => {
            let step = stage.of(attempt.check);
            if !state.requires(step) {
                return Some(Ignored::NotRequired);
            }
            let about_money = state.provisions_cluster() && concerns_lease(state, *attempt, fact);
            let current = state.attempt(step);
            if !about_money && *attempt < current {
                return Some(Ignored::OlderAttempt);
            }
            if !about_money && *attempt > current {
                return Some(Ignored::UnknownAttempt);
            }
            if !about_money && state.closed.is_some() {
                return Some(Ignored::Closed);
            }
        }
    }
    // Last check: record the fact only if it changes the state.
    let entry =
        RecordEntry::Accepted { event: event.clone(), attempt: *attempt, fact: Box::new(fact.clone()) };
    let after = evolve(state.clone(), &provisional(state, entry, now));
    same_state(state, after).then_some(Ignored::NothingNew)
}

/// Facts about clusters are accepted at any time, because clusters cost money after the run has ended.
fn concerns_lease(state: &RunState, attempt: Attempt, fact: &Fact) -> bool {
    let lease = state.leases.get(&attempt).map(|lease| lease.state);
    match fact {
        _ if failpoint_is_active("late_cluster_is_ignored") => false,
        Fact::ClusterAccepted(_) | Fact::ClusterReady(_) => lease != Some(LeaseState::Held),
        Fact::ClusterDeleted(_) => lease.is_some_and(|lease| lease != LeaseState::Returned),
        _ => false,
    }
}

fn same_state(before: &RunState, mut after: RunState) -> bool {
    after.seq = before.seq;
    after.recorded_at = before.recorded_at;
    after.seen.clone_from(&before.seen);
    for (step, state) in &mut after.stages {
        state.moved = before.stages.get(step).and_then(|old| old.moved);
    }
    *before == after
}

/// The next entry required by the state and the clock.
fn due(state: &RunState, now: Timestamp) -> Option<RecordEntry> {
    budget_exceeded(state, now)
        .or_else(|| open_attempt(state))
        .or_else(|| limit_exceeded(state, now))
        .or_else(|| close(state))
}

/// Releasing a cluster takes time and costs money: stop the run before its budget is spent.
fn budget_exceeded(state: &RunState, now: Timestamp) -> Option<RecordEntry> {
    let budget = state.budget()?;
    if state.stops_at()? > now {
        return None;
    }
    if failpoint_is_active("budget_ends_after_the_first_check") && state.ended(Stage::Logs) {
        return None;
    }
    // The result no longer depends on the cluster: only the search for bad nodes is stopped.
    if let Some(Step { check, stage: Stage::Verdict | Stage::Locate }) = state.current_step()
        && !state.more_jobs_after(check)
    {
        let attempt = state.attempt(Stage::Locate.of(check));
        return Some(RecordEntry::TimedOut { stage: Stage::Locate, attempt });
    }
    Some(RecordEntry::OverBudget { spent: state.spent(now), budget })
}

fn open_attempt(state: &RunState) -> Option<RecordEntry> {
    let (broken, failure) = state.retriable(state.current_step()?)?;
    Some(RecordEntry::AttemptOpened {
        stage: broken.stage,
        attempt: state.attempt(broken).next(),
        because: failure.clone(),
    })
}

/// A stage is polled after its limit; the timeout is recorded only if no fact follows.
fn limit_exceeded(state: &RunState, now: Timestamp) -> Option<RecordEntry> {
    let step = state.current_step()?;
    let stage = step.stage;
    let known = state.stage(step)?;
    let attempt = known.attempt;
    match known.overdue {
        None if now >= known.since? + state.limit(step) => {
            Some(match failpoint_is_active("timeout_without_asking") {
                true => RecordEntry::TimedOut { stage, attempt },
                false => RecordEntry::Overdue { stage, attempt },
            })
        }
        Some(overdue_at) if now >= overdue_at + state.workflow.limits.grace => {
            Some(RecordEntry::TimedOut { stage, attempt })
        }
        _ => None,
    }
}

fn close(state: &RunState) -> Option<RecordEntry> {
    let (conclusion, _) = state.settled.as_ref()?;
    let returned = state.leases_returned() || failpoint_is_active("close_without_the_lease");
    let idle = state.abandoned().next().is_none() || failpoint_is_active("close_while_something_runs");
    let done = state.closed.is_none() && returned && idle;
    done.then(|| RecordEntry::Closed { conclusion: conclusion.clone() })
}
