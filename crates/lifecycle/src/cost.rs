//! Cost of a run's clusters.

use model::{ClusterSpec, Money, Span, Timestamp};
use serde::Serialize;

use crate::state::{Lease, LeaseState, RunState};

/// Cluster usage of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Number of requested nodes.
    pub nodes: u32,
    /// Total time of the clusters, each from its request to its confirmed deletion.
    pub held: Span,
    /// Total run time of the benchmark's jobs.
    pub busy: Span,
    /// Cost of the clusters; `None` without a known price.
    pub spent: Option<Money>,
}

impl Usage {
    /// Idle time: the part of `held` without a running benchmark job.
    pub fn idle(&self) -> Span {
        Span(self.held.0.saturating_sub(self.busy.0))
    }
}

impl Lease {
    /// Total time of the cluster up to `now`.
    pub(crate) fn held_by(&self, now: Timestamp) -> Span {
        match self.state {
            LeaseState::Returned => self.held,
            LeaseState::Asked | LeaseState::Held => Span(self.held.0 + now.since(self.counted_from).0),
        }
    }
}

impl RunState {
    pub fn usage(&self, now: Timestamp) -> Usage {
        if !self.provisions_cluster() {
            return Usage::default();
        }
        let held = self.leases.values().map(|lease| lease.held_by(now).0).sum();
        let busy = self.checks().filter_map(|check| {
            let job = self.job_of(check)?;
            Some(job.ended_at?.since(job.started_at?).0)
        });
        let spent = self.workflow.cost.as_ref().map(|_| self.spent(now));
        Usage { nodes: self.nodes(), held: Span(held), busy: Span(busy.sum()), spent }
    }

    fn nodes(&self) -> u32 {
        // Cost is based on the requested nodes, even if fewer were provisioned.
        self.workflow.cluster.as_ref().map_or(0, |cluster| cluster.system().nodes())
    }

    pub(crate) fn budget(&self) -> Option<Money> {
        self.workflow.cost.as_ref()?.budget
    }

    /// Upper bound of the cost at `now`: every requested cluster is assumed to exist.
    pub(crate) fn spent(&self, now: Timestamp) -> Money {
        let Some(cost) = &self.workflow.cost else { return Money::default() };
        let spent = |lease: &Lease| cost.node_hour.for_hours_of(self.nodes(), lease.held_by(now));
        self.leases.values().map(spent).sum()
    }

    /// Time at which the run must stop so that its clusters are released within the budget; `None` without
    /// clusters or budget.
    pub fn stops_at(&self) -> Option<Timestamp> {
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

    /// Expiry of a cluster requested at `at`: its lease, limited by the remaining budget.
    pub(crate) fn lease_ends(&self, at: Timestamp) -> Timestamp {
        let lease = self.workflow.limits.lease;
        at + self.paid_for(at).map_or(lease, |paid| paid.min(lease))
    }

    /// Duration of the cluster that the remaining budget covers at the time `at`; `None` without a budget or a price.
    pub(crate) fn paid_for(&self, at: Timestamp) -> Option<Span> {
        let (budget, cost) = (self.budget()?, self.workflow.cost.as_ref()?);
        (budget - self.spent(at)).pays_for(self.nodes(), cost.node_hour)
    }
}

/// Maximum cost of a workflow's clusters; `None` without a known price.
pub fn max_cost(workflow: &model::Workflow) -> Option<Money> {
    let cost = workflow.cost.as_ref()?;
    let Some(ClusterSpec::Provisioned(system)) = &workflow.cluster else { return Some(Money::default()) };
    let each = cost.node_hour.for_hours_of(system.nodes(), workflow.limits.lease);
    let all: Money = (0..workflow.limits.attempts).map(|_| each).sum();
    Some(cost.budget.map_or(all, |budget| budget.min(all)))
}
