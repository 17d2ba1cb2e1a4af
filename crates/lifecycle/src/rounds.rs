//! Decides after each round of a soak whether another round begins.

use model::{
    CheckIndex, Class, Conclusion, Failure, Soak, SoakRound, Span, Stage, Timestamp, Verdict,
    failpoint_is_active,
};

use crate::{
    soak::{SoakEnd, SoakProgress},
    state::{LeaseState, RunState},
};

/// Maximum number of earlier rounds that a verdict compares.
const COMPARED: usize = 30;

impl RunState {
    /// Number of started rounds; 1 without a soak.
    pub fn rounds(&self) -> u16 {
        self.soak.map_or(1, |progress| progress.rounds)
    }

    /// One round of each check, for summaries: the first round that ended without a pass, otherwise the last round.
    pub fn summarized_checks(&self) -> impl Iterator<Item = CheckIndex> {
        self.workflow.check_indices().map(|first| self.summarized(first))
    }

    fn summarized(&self, first: CheckIndex) -> CheckIndex {
        let count = self.workflow.check_count();
        let mut rounds = (0..self.rounds()).map(|round| CheckIndex(first.0 + round * count));
        let not_passed = |check: &CheckIndex| self.check_has_ended(*check) && !self.passed(*check);
        rounds.find(not_passed).unwrap_or(CheckIndex(first.0 + (self.rounds() - 1) * count))
    }

    /// Number of rounds in which a check of the workflow passed; `None` without a soak.
    pub fn rounds_passed(&self, check: CheckIndex) -> Option<u16> {
        self.workflow.soak?;
        let count = self.workflow.check_count();
        let first = check.0 % count.max(1);
        let passed = (0..self.rounds()).filter(|round| self.passed(CheckIndex(first + round * count)));
        u16::try_from(passed.count()).ok()
    }

    fn passed(&self, check: CheckIndex) -> bool {
        self.verdict_of(check).is_some_and(|reached| reached.verdict == Verdict::Pass)
    }

    /// Position of the check with this name. In a soak `name@3` is its third round, and `name` the round in summaries.
    pub fn check_named(&self, name: &str) -> Option<CheckIndex> {
        let check = self.workflow.check_named(name)?;
        let check = if name.contains('@') { check } else { self.summarized(check) };
        self.checks().find(|known| *known == check)
    }

    /// Begins the soak with the first job, and the next round after the last check of a round.
    pub(crate) fn follow_soak(&mut self, at: Timestamp) {
        let Some(soak) = self.workflow.soak else { return };
        if self.settled.is_some() || self.cancelled_by.is_some() || self.over_budget.is_some() {
            return;
        }
        let current_step = self.current_step();
        let Some(mut progress) = self.soak else {
            if current_step.is_some_and(|step| step.stage == Stage::Job) {
                let longest = Span::default();
                self.soak =
                    Some(SoakProgress { began: at, rounds: 1, round_began: at, longest, ended: None });
            }
            return;
        };
        let measured = current_step.is_none_or(|step| step.stage == Stage::Results);
        if progress.ended.is_some() || !measured {
            return;
        }
        progress.longest = progress.longest.max(at.since(progress.round_began));
        match self.soak_end(soak, &progress, at) {
            Some(end) => progress.ended = Some((at, end)),
            None => {
                progress.rounds += 1;
                progress.round_began = at;
            }
        }
        self.soak = Some(progress);
    }

    /// Reason not to start another round at `at`.
    fn soak_end(&self, soak: Soak, progress: &SoakProgress, at: Timestamp) -> Option<SoakEnd> {
        if !self.last_round().all(|check| self.passed(check)) {
            return Some(SoakEnd::NotPassed);
        }
        if at >= progress.began + soak.duration || failpoint_is_active("soak_ends_after_a_round") {
            return Some(SoakEnd::TimePassed);
        }
        let checks = self.workflow.check_count().saturating_mul(progress.rounds.saturating_add(1));
        if checks > Soak::MAX_CHECKS {
            return Some(SoakEnd::MaxChecks);
        }
        let needed = Span(progress.longest.0 + self.workflow.limits.grace.0);
        let held = self.leases.values().find(|lease| lease.state == LeaseState::Held);
        if let Some(lease) = held.filter(|lease| at + needed > lease.expires_at) {
            // A budget below the cost of the full lease shortens the lease.
            let is_shortened = lease.expires_at.since(lease.asked_at) < self.workflow.limits.lease;
            return Some(if is_shortened { SoakEnd::Budget } else { SoakEnd::Lease });
        }
        let paid = held.and_then(|_| self.paid_for(at));
        paid.is_some_and(|paid| paid < needed).then_some(SoakEnd::Budget)
    }

    /// Conclusion of a soak that ended before its duration had passed, although every judged check passed.
    pub(crate) fn short_soak(&self) -> Option<Conclusion> {
        let (soak, progress) = (self.workflow.soak?, self.soak?);
        let (at, end) = progress.ended?;
        let why = match end {
            SoakEnd::TimePassed | SoakEnd::NotPassed => return None,
            SoakEnd::Lease => "another round would exceed the cluster's lease; raise limits.lease".to_owned(),
            SoakEnd::Budget => "another round would exceed the budget; raise cost.budget".to_owned(),
            SoakEnd::MaxChecks => format!(
                "a soak has at most {} checks; make the programs of the checks run longer",
                Soak::MAX_CHECKS
            ),
        };
        let lasted = progress.lasted(at);
        let message = format!(
            "the soak ended after {lasted} of {} and {} rounds: {why}",
            soak.duration, progress.rounds
        );
        let failure = Failure::new(Class::Input, "SOAK_SHORT", message);
        let check = self.last_round().last().unwrap_or_default();
        Some(Conclusion::Failed { stage: Stage::Job, check, failure })
    }

    /// Earlier rounds of a check after the warm-up, oldest first: at most 30, evenly spaced.
    pub(crate) fn earlier_rounds(&self, check: CheckIndex) -> Vec<SoakRound> {
        let count = self.workflow.check_count();
        let round = self.workflow.round_of(check);
        let settled = SoakRound::settled_from(round + 1)..round;
        let step = settled.len().div_ceil(COMPARED).max(1);
        let stored = settled.step_by(step).filter_map(|earlier| {
            let check = CheckIndex(check.0 - (round - earlier) * count);
            let measurements = self.verdict_of(check)?.measurements.as_deref().cloned();
            Some(SoakRound { round: earlier + 1, measurements })
        });
        stored.collect()
    }
}
