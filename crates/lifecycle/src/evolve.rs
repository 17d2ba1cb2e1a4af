//! Applies records to the state of a run.

use model::{
    Attempt, Class, Drained, EventKey, Fact, Failure, Money, Record, RecordEntry, Stage, Step, Timestamp,
    failpoint_is_active,
};

use crate::state::{AttemptEnd, EarlierAttempt, Lease, LeaseState, RunState, StageState};

/// A ledger with an invalid beginning or a gap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableLedger {
    #[error("the ledger is empty")]
    Empty,
    /// Record 1 is not `run.requested`.
    #[error("the ledger's first record is not run.requested but {0}")]
    Beginning(String),
    /// A record number is missing or out of order.
    #[error("the ledger has record {found} instead of record {expected}")]
    Gap { expected: u64, found: u64 },
}

/// The state of a run from its ledger. Records must be in order.
///
/// # Errors
/// Returns an error if the first record is not a run request or a number is missing.
pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<RunState, UnreadableLedger> {
    let mut records = records.into_iter();
    let first = records.next().ok_or(UnreadableLedger::Empty)?;
    let mut state = begin(first)?;
    for record in records {
        if record.seq != state.seq + 1 {
            return Err(UnreadableLedger::Gap { expected: state.seq + 1, found: record.seq });
        }
        state = evolve(state, record);
    }
    Ok(state)
}

fn begin(record: &Record) -> Result<RunState, UnreadableLedger> {
    if record.seq != 1 {
        return Err(UnreadableLedger::Gap { expected: 1, found: record.seq });
    }
    let RecordEntry::Accepted { event, fact, .. } = &record.entry else {
        return Err(UnreadableLedger::Beginning(format!("{:?}", record.entry)));
    };
    let Fact::RunRequested(requested) = &**fact else {
        return Err(UnreadableLedger::Beginning(fact.event_type().to_owned()));
    };
    let mut state = RunState {
        run: record.run.clone(),
        workflow: requested.workflow.clone(),
        trigger: requested.trigger.clone(),
        requested_at: record.recorded_at,
        seq: 1,
        recorded_at: record.recorded_at,
        cancelled_by: None,
        over_budget: None,
        stages: Default::default(),
        drained: Default::default(),
        leases: Default::default(),
        soak: None,
        settled: None,
        closed: None,
        seen: [event.clone()].into(),
    };
    state.follow(record.recorded_at);
    Ok(state)
}

/// The state after one more record. Total: a record that is invalid in this state changes only the position.
#[must_use]
pub fn evolve(mut state: RunState, record: &Record) -> RunState {
    // Time never decreases within a run, even if a record has an earlier time.
    let at = record.recorded_at.max(state.recorded_at);
    state.seq = record.seq;
    state.recorded_at = at;
    match &record.entry {
        RecordEntry::Accepted { event, attempt, fact } => state.accept(event, *attempt, fact, at),
        RecordEntry::AttemptOpened { stage, attempt, because } => {
            state.open_attempt(stage.of(attempt.check), *attempt, because, at)
        }
        RecordEntry::Overdue { stage, attempt } => {
            state.current(stage.of(attempt.check), *attempt, |stage| stage.overdue = Some(at))
        }
        RecordEntry::TimedOut { stage, attempt } => {
            // The search for bad nodes may be abandoned before it starts.
            let step = stage.of(attempt.check);
            state.stage_mut(step);
            state.current(step, *attempt, |stage| {
                stage.end.get_or_insert(AttemptEnd::TimedOut);
            })
        }
        RecordEntry::OverBudget { spent, budget } => state.stop_spending(*spent, *budget),
        RecordEntry::Closed { .. } => state.closed = Some(at),
    }
    state.follow(at);
    state
}

impl RunState {
    fn accept(&mut self, event: &EventKey, attempt: Attempt, fact: &Fact, at: Timestamp) {
        self.seen.insert(event.clone());
        self.apply_to_lease(attempt, fact, at);
        self.apply_drains(fact);
        match fact {
            // The first record contains the request; a second request cannot change it.
            Fact::RunRequested(_) | Fact::RunClosed(_) | Fact::RunUsed(_) | Fact::ClusterDeleted(_) => {}
            Fact::CancelRequested(cancel) => {
                self.cancelled_by.get_or_insert_with(|| cancel.by.clone());
            }
            _ => {
                if let Some(stage) = fact.stage() {
                    let step = stage.of(attempt.check);
                    self.stage_mut(step);
                    self.current(step, attempt, |state| state.apply_fact(fact, at));
                }
            }
        }
    }

    /// Clusters cost money in any state: facts about them count for any attempt, at any time.
    fn apply_to_lease(&mut self, attempt: Attempt, fact: &Fact, at: Timestamp) {
        if !self.provisions_cluster() {
            return;
        }
        match fact {
            Fact::ClusterAccepted(_) | Fact::ClusterReady(_) => {
                let new = Lease::new(at, self.lease_ends(at), LeaseState::Held);
                let lease = self.leases.entry(attempt).or_insert(new);
                if lease.state == LeaseState::Returned {
                    lease.counted_from = at;
                }
                lease.state = LeaseState::Held;
            }
            // A cluster that was never requested cannot be released; the fact must not end a later lease.
            Fact::ClusterDeleted(_) => {
                if let Some(lease) = self.leases.get_mut(&attempt) {
                    lease.held = lease.held_by(at);
                    lease.state = LeaseState::Returned;
                }
            }
            _ => {}
        }
    }

    /// A drained node counts toward the run's maximum even if its search is reported as timed out.
    fn apply_drains(&mut self, fact: &Fact) {
        let Fact::NodesLocated(suspects) = fact else { return };
        let cluster = self.attempt(Stage::Cluster);
        let drained =
            suspects.nodes.iter().filter(|suspect| matches!(suspect.drained, Drained::Applied { .. }));
        self.drained.extend(drained.map(|suspect| (cluster, suspect.node.clone())));
    }

    /// Ends the run for budget reasons; clusters are released as usual.
    fn stop_spending(&mut self, spent: Money, budget: Money) {
        let step = self.current_step().unwrap_or(Stage::Cluster.into());
        let currency = self.workflow.cost.as_ref().map_or("", |cost| cost.currency.as_str());
        let message = format!(
            "{spent} {currency} of {budget} were spent on clusters, and releasing them needs the rest; raise cost.budget, or shorten the run"
        );
        let failure = Failure::new(Class::Input, "OVER_BUDGET", message);
        self.over_budget.get_or_insert((step, failure));
    }

    fn open_attempt(&mut self, opened: Step, attempt: Attempt, because: &Failure, at: Timestamp) {
        self.stage_mut(opened);
        // The stages after a lost cluster must be repeated as well, each as a new attempt. The logs of earlier checks are
        // collected: those checks are unchanged.
        let repeated: Vec<Step> = self
            .stages
            .range(opened..)
            .filter(|(step, state)| {
                let started = state.handle.is_some() || state.end.is_some() || state.since.is_some();
                let kept = opened.check != step.check || !opened.stage.is_of_check();
                **step == opened || (started && !(kept && self.check_has_ended(step.check)))
            })
            .map(|(step, _)| *step)
            .collect();
        for step in repeated {
            let Some(state) = self.stages.get_mut(&step) else { continue };
            let next = if step == opened { attempt } else { state.attempt.next() };
            let mut earlier = std::mem::take(&mut state.earlier);
            earlier.push(EarlierAttempt {
                attempt: state.attempt,
                handle: state.handle.take(),
                because: because.clone(),
            });
            *state = StageState { earlier, ..StageState::new(next) };
            if step == opened {
                state.since = Some(at);
            }
        }
    }

    /// Adds an absent step with its first attempt.
    fn stage_mut(&mut self, step: Step) -> &mut StageState {
        self.stages.entry(step).or_insert_with(|| StageState::new(Attempt::first_of(step.check)))
    }

    fn current(&mut self, step: Step, attempt: Attempt, change: impl FnOnce(&mut StageState)) {
        if let Some(state) = self.stages.get_mut(&step).filter(|state| state.attempt == attempt) {
            change(state);
        }
    }

    /// Derives the conclusion, the current step, and the lease that this step may open, from the stages.
    fn follow(&mut self, at: Timestamp) {
        self.follow_soak(at);
        if self.settled.is_none() {
            self.settled = self.conclusion().map(|conclusion| (conclusion, at));
        }
        let Some(step) = self.current_step() else { return };
        let state = self.stage_mut(step);
        if state.end.is_some() {
            return; // failed: the next attempt follows
        }
        state.since.get_or_insert(at);
        let attempt = state.attempt;
        let returned = self.leases_returned() || failpoint_is_active("second_cluster_at_once");
        if step.stage == Stage::Cluster && self.provisions_cluster() && returned {
            let lease = Lease::new(at, self.lease_ends(at), LeaseState::Asked);
            self.leases.entry(attempt).or_insert(lease);
        }
    }
}

impl StageState {
    /// Progress is a join: the furthest known state, independent of the order of arrival. The first end state
    /// is final.
    fn apply_fact(&mut self, fact: &Fact, at: Timestamp) {
        if self.end.is_none() {
            self.moved = Some(at);
        }
        match fact {
            Fact::ImageAccepted(handle) | Fact::ClusterAccepted(handle) | Fact::JobAccepted(handle) => {
                self.handle.get_or_insert_with(|| handle.handle.clone());
            }
            _ if fact.is_terminal() => {
                self.stopped = true;
                // The end of a stage removes all its deadlines, even if no start was recorded: the order in which
                // facts arrive has no effect.
                (self.since, self.moved, self.overdue) = (None, None, None);
                let end = match fact.failure() {
                    Some(failure) => AttemptEnd::Failed(failure.clone()),
                    None => AttemptEnd::Succeeded(Box::new(fact.clone())),
                };
                match &self.end {
                    None => self.end = Some(end),
                    Some(_) if failpoint_is_active("last_end_counts") => self.end = Some(end),
                    Some(first) if *first != end => self.contested = true,
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
}
