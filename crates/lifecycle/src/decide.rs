//! What is to be recorded.

use model::{Attempt, Entry, EventKey, Fact, Record, Stage, Timestamp, planted};

use crate::{
    evolve::evolve,
    state::{LeaseState, RunState},
};

/// A fact as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Occurrence {
    /// Which message it is.
    pub event: EventKey,
    /// The attempt it speaks of.
    pub attempt: Attempt,
    /// What happened.
    pub fact: Fact,
}

/// What wakes a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Something happened.
    Fact(Box<Occurrence>),
    /// Time passed, or nobody knows what happened since.
    Tick,
}

/// What is to be recorded, in this order.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Entries to append.
    pub entries: Vec<Entry>,
    /// Why the fact itself is not among them.
    pub ignored: Option<Ignored>,
}

/// Why a fact changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// This very message was accepted before.
    Duplicate,
    /// It tells nothing that is not known.
    NothingNew,
    /// It speaks of an attempt that was given up.
    OlderAttempt,
    /// It speaks of an attempt that was never opened.
    UnknownAttempt,
    /// The answer is settled; there is nothing left to cancel.
    Settled,
    /// The run is closed; only its clusters matter now.
    Closed,
    /// The workflow has no such stage.
    NotAsked,
}

impl Ignored {
    /// For logs and `explain`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "this very message was accepted before",
            Self::NothingNew => "it tells nothing that is not known",
            Self::OlderAttempt => "it speaks of an attempt that was given up",
            Self::UnknownAttempt => "it speaks of an attempt that was never opened",
            Self::Settled => "the answer is settled, there is nothing left to cancel",
            Self::Closed => "the run is closed, only its clusters matter now",
            Self::NotAsked => "the workflow has no such stage",
        }
    }
}

/// The entries with which a run begins.
pub fn decide_first(occurrence: Occurrence) -> Entry {
    Entry::Accepted { event: occurrence.event, attempt: Attempt::FIRST, fact: Box::new(occurrence.fact) }
}

/// What to record of an input, and what follows from it by now.
#[must_use]
pub fn decide(state: &RunState, input: Input, now: Timestamp) -> Decision {
    let mut entries = Vec::new();
    let mut ignored = None;
    let mut state = state.clone();
    let mut push = |state: &mut RunState, entry: Entry| {
        let record = provisional(state, entry.clone(), now);
        *state = evolve(state.clone(), &record);
        entries.push(entry);
    };
    if let Input::Fact(occurrence) = input {
        match refusal(&state, &occurrence, now) {
            Some(why) => ignored = Some(why),
            None => {
                let Occurrence { event, attempt, fact } = *occurrence;
                push(&mut state, Entry::Accepted { event, attempt, fact: Box::new(fact) });
            }
        }
    }
    // Each entry removes its own cause, so this ends.
    while let Some(entry) = due(&state, now) {
        push(&mut state, entry);
    }
    Decision { entries, ignored }
}

/// A record as it would be, for looking ahead. Only the number and the time matter to the fold.
fn provisional(state: &RunState, entry: Entry, now: Timestamp) -> Record {
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

/// Why a fact is not recorded, if it is not.
fn refusal(state: &RunState, occurrence: &Occurrence, now: Timestamp) -> Option<Ignored> {
    let Occurrence { event, attempt, fact } = occurrence;
    if state.seen.contains(event) {
        return Some(Ignored::Duplicate);
    }
    match (fact, fact.stage()) {
        (Fact::RunRequested(_) | Fact::RunClosed(_) | Fact::RunUsed(_), _) => {
            return Some(Ignored::NothingNew);
        }
        (Fact::CancelRequested(_), _) if state.settled.is_some() || planted("cancel_is_ignored") => {
            return Some(Ignored::Settled);
        }
        (Fact::CancelRequested(_), _) => {}
        (_, None) => return Some(Ignored::NotAsked),
        (_, Some(stage)) => {
            if !state.wants(stage) {
                return Some(Ignored::NotAsked);
            }
            let about_money = state.rents() && concerns_lease(state, *attempt, fact);
            let current = state.attempt(stage);
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
    // The least trusting test of all: would the fold be any different?
    let entry = Entry::Accepted { event: event.clone(), attempt: *attempt, fact: Box::new(fact.clone()) };
    let after = evolve(state.clone(), &provisional(state, entry, now));
    same_knowledge(state, after).then_some(Ignored::NothingNew)
}

/// A cluster that came or went matters at any time: money outlives the run.
fn concerns_lease(state: &RunState, attempt: Attempt, fact: &Fact) -> bool {
    let lease = state.leases.get(&attempt).map(|lease| lease.state);
    match fact {
        _ if planted("late_cluster_is_ignored") => false,
        Fact::ClusterAccepted(_) | Fact::ClusterReady(_) => lease != Some(LeaseState::Held),
        Fact::ClusterDeleted(_) => lease.is_some_and(|lease| lease != LeaseState::Returned),
        _ => false,
    }
}

fn same_knowledge(before: &RunState, mut after: RunState) -> bool {
    after.seq = before.seq;
    after.recorded_at = before.recorded_at;
    after.seen.clone_from(&before.seen);
    for (stage, state) in &mut after.stages {
        state.moved = before.stages.get(stage).and_then(|old| old.moved);
    }
    *before == after
}

/// The next entry that the state and the clock call for.
fn due(state: &RunState, now: Timestamp) -> Option<Entry> {
    pass_budget(state, now)
        .or_else(|| open_attempt(state))
        .or_else(|| pass_limit(state, now))
        .or_else(|| close(state))
}

/// Giving back takes a moment, and costs: a run is stopped before its money is spent, not after.
fn pass_budget(state: &RunState, now: Timestamp) -> Option<Entry> {
    let budget = state.budget()?;
    if state.stops_at()? > now {
        return None;
    }
    // The answer needs no cluster any more: only the search for the bad node is given up.
    if matches!(state.frontier(), Some(Stage::Verdict | Stage::Locate)) {
        let attempt = state.attempt(Stage::Locate);
        return Some(Entry::TimedOut { stage: Stage::Locate, attempt });
    }
    Some(Entry::OverBudget { spent: state.spent(now), budget })
}

fn open_attempt(state: &RunState) -> Option<Entry> {
    let stage = state.frontier()?;
    let (broken, failure) = state.retriable(stage)?;
    Some(Entry::AttemptOpened {
        stage: broken,
        attempt: state.attempt(broken).next(),
        because: failure.clone(),
    })
}

/// Past its limit a stage is asked how it is; only silence after that is a timeout.
fn pass_limit(state: &RunState, now: Timestamp) -> Option<Entry> {
    let stage = state.frontier()?;
    let known = state.stage(stage)?;
    let attempt = known.attempt;
    match known.overdue {
        None if now >= known.since? + state.limit(stage) => Some(match planted("timeout_without_asking") {
            true => Entry::TimedOut { stage, attempt },
            false => Entry::Overdue { stage, attempt },
        }),
        Some(asked) if now >= asked + state.workflow.limits.grace => Some(Entry::TimedOut { stage, attempt }),
        _ => None,
    }
}

fn close(state: &RunState) -> Option<Entry> {
    let (conclusion, _) = state.settled.as_ref()?;
    let returned = state.leases_returned() || planted("close_without_the_lease");
    let idle = state.abandoned().next().is_none() || planted("close_while_something_runs");
    let done = state.closed.is_none() && returned && idle;
    done.then(|| Entry::Closed { conclusion: conclusion.clone() })
}
