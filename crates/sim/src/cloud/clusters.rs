//! A simulated cluster provider.

use std::sync::Arc;

use cluster_api::{ClusterListing, ClusterProvider, ClusterStatus, LeaseRequest, ListedCluster};
use model::{Class, Deleted, Failure, Timestamp, failpoint_is_active};
use service::{Clock, PortError};

use super::{
    answer::{answered, transient},
    state::{SimCluster, SimClusterState},
};
use crate::{
    ExternalEvent, Fault,
    effect::{EffectKind, Effects},
    process::SimService,
    world::{SimWorld, WorldState},
};

/// Client of the cluster provider in one process.
pub struct SimClusters(pub Effects);

impl WorldState {
    /// Ends a cluster and all its jobs.
    pub fn end_cluster(&mut self, name: &str, why: &'static str) {
        let Some(cluster) =
            self.clouds.clusters.get_mut(name).filter(|cluster| cluster.state != SimClusterState::Deleted)
        else {
            return;
        };
        cluster.state = SimClusterState::Deleted;
        self.lose_jobs(name, "CLUSTER_GONE");
        self.note(SimService::Outside, ExternalEvent::ClusterEnded { name: name.to_owned(), why });
    }

    fn begin_cluster(&mut self, world: &Arc<SimWorld>, order: &LeaseRequest, late: bool) {
        if self.clouds.clusters.contains_key(&order.name) {
            return;
        }
        let nodes = order.system.nodes();
        let slow = self.occurs(Fault::SlowNode).then(|| self.random.below(u64::from(nodes)));
        let slow = slow.and_then(|node| u32::try_from(node).ok()).into_iter().collect();
        let (run, attempt, expires_at) = (order.id.run.clone(), order.id.attempt, order.expires_at);
        let state = SimClusterState::Starting;
        let cluster =
            SimCluster { run: Some(run.clone()), attempt, expires_at, nodes, slow, existing: false, state };
        self.clouds.clusters.insert(order.name.clone(), cluster);
        let name = order.name.clone();
        self.note(SimService::Outside, ExternalEvent::ClusterBegan { name, run, expires_at, late });
        let up = if self.occurs(Fault::ClusterLate) {
            self.random.between(60_000, 900_000)
        } else {
            self.random.between(5_000, 60_000)
        };
        let comes = if self.occurs(Fault::StockOut) {
            SimClusterState::Broken("stock-out")
        } else {
            SimClusterState::Ready
        };
        self.later(world, &order.name, up, |inner, name| {
            inner.change_state(name, SimClusterState::Starting, comes)
        });
        let later = up + self.random.between(0, 300_000);
        if self.occurs(Fault::NodeFails) {
            self.later(world, &order.name, later, |inner, name| {
                inner.change_state(name, SimClusterState::Ready, SimClusterState::Broken("node-1 failed"));
                inner.lose_jobs(name, "NODE_FAIL");
            });
        }
        if self.occurs(Fault::Preempted) {
            self.later(world, &order.name, later, |inner, name| inner.end_cluster(name, "preempted"));
        }
        if self.occurs(Fault::Outlives) {
            return;
        }
        let life = (expires_at.as_millis() - self.now).max(0);
        self.later(world, &order.name, life, |inner, name| inner.end_cluster(name, "expired"));
    }

    fn change_state(&mut self, name: &str, from: SimClusterState, to: SimClusterState) {
        if let Some(cluster) = self.clouds.clusters.get_mut(name).filter(|cluster| cluster.state == from) {
            cluster.state = to.clone();
            self.trace(SimService::Outside, || format!("cluster {name} is {to:?}"));
        }
    }

    fn later(
        &mut self,
        world: &Arc<SimWorld>,
        name: &str,
        after: i64,
        then: impl FnOnce(&mut Self, &str) + Send + 'static,
    ) {
        let (world, name) = (Arc::clone(world), name.to_owned());
        self.spawn(SimService::Outside, async move {
            world.sleep(after).await;
            then(&mut world.inner(), &name);
        });
    }
}

#[async_trait::async_trait]
impl ClusterProvider for SimClusters {
    async fn create(&self, order: &LeaseRequest) -> Result<String, PortError> {
        let mut order = order.clone();
        if failpoint_is_active("random_in_a_cluster_name") {
            let number = self.0.world.inner().random.below(1000);
            order.name = format!("{}-cluster-{number}", order.id.run);
        }
        if failpoint_is_active("no_expiry") {
            order.expires_at = order.expires_at + model::Span::from_secs(86_400);
        }
        let world = Arc::clone(&self.0.world);
        let effect = |inner: &mut WorldState| {
            if inner.clouds.released.contains(&order.name) {
                let why = format!("{} was released", order.name);
                return Err(PortError::Permanent(Failure::new(Class::Cancelled, "GIVEN_BACK", why)));
            }
            if !inner.clouds.clusters.contains_key(&order.name) && inner.occurs(Fault::LandsLate) {
                let (order, after) = (order.clone(), inner.random.between(1_000, 900_000));
                inner.clouds.landing += 1;
                inner.spawn(SimService::Outside, async move {
                    world.sleep(after).await;
                    let inner = &mut *world.inner();
                    inner.clouds.landing -= 1;
                    // Not every provider records the release of an unused name.
                    let late = inner.clouds.released.contains(&order.name);
                    if !late || inner.random.once_in(2) {
                        inner.begin_cluster(&world, &order, late);
                    }
                });
                return transient("deadline exceeded");
            }
            inner.begin_cluster(&world, &order, false);
            Ok(order.name.clone())
        };
        answered(self.0.call(EffectKind::Provider, || format!("create cluster {}", order.name), effect).await)
    }

    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError> {
        let effect = |inner: &mut WorldState| {
            let Some(cluster) = inner.clouds.clusters.get(name) else { return Ok(ClusterStatus::Absent) };
            Ok(match cluster.state {
                SimClusterState::Starting => ClusterStatus::Starting,
                SimClusterState::Ready => ClusterStatus::Ready(cluster.facts(name)),
                SimClusterState::Broken(why) => ClusterStatus::Broken(why.to_owned()),
                SimClusterState::Ending => ClusterStatus::Broken("it is being deleted".to_owned()),
                SimClusterState::Deleted => ClusterStatus::Absent,
            })
        };
        let what = || format!("poll cluster {name}");
        answered(self.0.call(EffectKind::Provider, what, effect).await)
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        let world = Arc::clone(&self.0.world);
        let confirmed_at = self.0.now();
        let evidence = || "the list is empty".to_owned();
        let deleted = || Deleted { name: name.to_owned(), evidence: evidence(), confirmed_at };
        let effect = |inner: &mut WorldState| {
            if !failpoint_is_active("delete_leaves_no_mark") {
                inner.clouds.released.insert(name.to_owned());
            }
            let state = inner
                .clouds
                .clusters
                .get(name)
                .map_or(SimClusterState::Deleted, |cluster| cluster.state.clone());
            if state == SimClusterState::Deleted {
                return Ok(deleted());
            }
            inner.note(self.0.service, ExternalEvent::DeleteRequested { name: name.to_owned() });
            if inner.occurs(Fault::DeleteSwallowed) {
                inner.trace(SimService::Outside, || format!("returns 200 and keeps {name}"));
            } else if state != SimClusterState::Ending {
                inner.change_state(name, state, SimClusterState::Ending);
                let takes = inner.random.between(2_000, 40_000);
                inner.later(&world, name, takes, |inner, name| inner.end_cluster(name, "deleted"));
            }
            transient("parts of it still exist")
        };
        let what = || format!("delete cluster {name}");
        let result = answered(self.0.call(EffectKind::Provider, what, effect).await);
        if failpoint_is_active("delete_without_looking") { result.or_else(|_| Ok(deleted())) } else { result }
    }

    async fn list(&self) -> Result<ClusterListing, PortError> {
        let effect = |inner: &mut WorldState| {
            let ours =
                inner.clouds.clusters.iter().filter(|(_, cluster)| cluster.state != SimClusterState::Deleted);
            let listed = ours.filter_map(|(name, cluster)| {
                let (run, expires_at) = (cluster.run.as_ref()?.to_string(), Some(cluster.expires_at));
                Some(ListedCluster { name: name.clone(), run, expires_at })
            });
            Ok(ClusterListing { at: Timestamp::from_millis(inner.now), clusters: listed.collect() })
        };
        answered(self.0.call(EffectKind::Provider, || "list the clusters".to_owned(), effect).await)
    }
}
