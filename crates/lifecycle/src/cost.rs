//! What a run's clusters cost.

use model::{ClusterSpec, Money, Span, Timestamp};
use serde::Serialize;

use crate::state::{Lease, LeaseState, RunState};

/// What a run used of its clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Nodes of its cluster.
    pub nodes: u32,
    /// How long clusters were held: from being asked for to being confirmed gone.
    pub held: Span,
    /// How long of it the benchmark ran.
    pub busy: Span,
    /// What they cost, where a price is known.
    pub spent: Option<Money>,
}

impl Usage {
    /// How long clusters were held while nothing was measured.
    pub fn idle(&self) -> Span {
        Span(self.held.0.saturating_sub(self.busy.0))
    }
}

impl Lease {
    /// How long the cluster has been held by `now`.
    pub(crate) fn held_by(&self, now: Timestamp) -> Span {
        match self.state {
            LeaseState::Returned => self.held,
            LeaseState::Asked | LeaseState::Held => Span(self.held.0 + now.since(self.counted_from).0),
        }
    }
}

impl RunState {
    /// What was used of clusters by `now`.
    pub fn usage(&self, now: Timestamp) -> Usage {
        if !self.rents() {
            return Usage::default();
        }
        let held = self.leases.values().map(|lease| lease.held_by(now).0).sum();
        let busy = self.job().and_then(|job| Some(job.ended_at?.since(job.started_at?)));
        let spent = self.workflow.cost.as_ref().map(|_| self.spent(now));
        Usage { nodes: self.nodes(), held: Span(held), busy: busy.unwrap_or_default(), spent }
    }

    fn nodes(&self) -> u32 {
        // What came up may be less than what was asked for; what is paid is what was asked for.
        self.workflow.cluster.as_ref().map_or(0, |cluster| cluster.system().nodes())
    }

    pub(crate) fn budget(&self) -> Option<Money> {
        self.workflow.cost.as_ref()?.budget
    }

    /// What the clusters have cost by `now`, at most: one that was asked for is taken to exist.
    pub(crate) fn spent(&self, now: Timestamp) -> Money {
        let Some(cost) = &self.workflow.cost else { return Money::default() };
        let spent = |lease: &Lease| cost.node_hour.for_hours_of(self.nodes(), lease.held_by(now));
        self.leases.values().map(spent).sum()
    }

    /// When the run has to be stopped so that its clusters are gone before its money is; none while none is needed.
    pub(crate) fn stops_at(&self) -> Option<Timestamp> {
        let (budget, cost) = (self.budget()?, self.workflow.cost.as_ref()?);
        let mut needed = self
            .leases
            .iter()
            .filter(|(attempt, lease)| lease.state != LeaseState::Returned && self.needs_lease(**attempt));
        needed.next()?;
        let left = (budget - self.spent(self.recorded_at)).pays_for(self.nodes(), cost.node_hour)?;
        let grace = self.workflow.limits.grace;
        Some(self.recorded_at + Span(left.0.saturating_sub(grace.0)))
    }

    /// When a cluster that is asked for at `at` has to end by itself: its lease, or what is left of the money.
    pub(crate) fn lease_ends(&self, at: Timestamp) -> Timestamp {
        let lease = self.workflow.limits.lease;
        let paid = self
            .budget()
            .zip(self.workflow.cost.as_ref())
            .and_then(|(budget, cost)| (budget - self.spent(at)).pays_for(self.nodes(), cost.node_hour));
        at + paid.map_or(lease, |paid| paid.min(lease))
    }
}

/// The most that the clusters of a workflow can cost, whatever happens; none where no price is known.
pub fn most(workflow: &model::Workflow) -> Option<Money> {
    let cost = workflow.cost.as_ref()?;
    let Some(ClusterSpec::Rent(system)) = &workflow.cluster else { return Some(Money::default()) };
    let each = cost.node_hour.for_hours_of(system.nodes(), workflow.limits.lease);
    let all: Money = (0..workflow.limits.attempts).map(|_| each).sum();
    Some(cost.budget.map_or(all, |budget| budget.min(all)))
}
