//! Simulated clusters, for tests of the provisioner without a real provider.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use model::{Class, Cluster, ClusterAccess, Deleted, Failure, Node};
use service::{Clock, PortError};

use crate::provider::{ClusterListing, ClusterProvider, ClusterStatus, LeaseRequest, ListedCluster};

/// A provider whose clusters are ready at the second poll.
pub struct FakeClusters {
    clock: Arc<dyn Clock>,
    clusters: Mutex<BTreeMap<String, Fake>>,
}

enum Fake {
    Starting(u32, Box<(Cluster, ListedCluster)>),
    Released,
}

impl FakeClusters {
    /// Creates a provider without clusters; `clock` provides the time of its listings.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, clusters: Mutex::default() }
    }

    /// Names of the existing clusters.
    pub fn alive(&self) -> Vec<String> {
        let clusters = self.clusters();
        clusters
            .iter()
            .filter(|(_, fake)| !matches!(fake, Fake::Released))
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn clusters(&self) -> MutexGuard<'_, BTreeMap<String, Fake>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl ClusterProvider for FakeClusters {
    async fn create(&self, order: &LeaseRequest) -> Result<String, PortError> {
        let nodes = order.system.nodes();
        let nodes = (0..nodes).map(|number| Node::new(format!("node-{number}"), 1)).collect();
        let access = ClusterAccess::new("fake", &order.name);
        let cluster = Cluster { name: order.name.clone(), nodes, access };
        let listed = ListedCluster {
            name: order.name.clone(),
            run: order.id.run.to_string(),
            expires_at: Some(order.expires_at),
        };
        match self
            .clusters()
            .entry(order.name.clone())
            .or_insert(Fake::Starting(0, Box::new((cluster, listed))))
        {
            Fake::Starting(..) => Ok(order.name.clone()),
            Fake::Released => {
                let why = format!("{} was released", order.name);
                Err(PortError::Permanent(Failure::new(Class::Cancelled, "GIVEN_BACK", why)))
            }
        }
    }

    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError> {
        Ok(match self.clusters().get_mut(name) {
            None | Some(Fake::Released) => ClusterStatus::Absent,
            Some(Fake::Starting(polls, made)) => {
                *polls += 1;
                if *polls > 1 { ClusterStatus::Ready(made.0.clone()) } else { ClusterStatus::Starting }
            }
        })
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        self.clusters().insert(name.to_owned(), Fake::Released);
        let evidence = "the list is empty".to_owned();
        Ok(Deleted { name: name.to_owned(), evidence, confirmed_at: self.clock.now() })
    }

    async fn list(&self) -> Result<ClusterListing, PortError> {
        let there = |fake: &Fake| match fake {
            Fake::Starting(_, made) => Some(made.1.clone()),
            Fake::Released => None,
        };
        Ok(ClusterListing {
            at: self.clock.now(),
            clusters: self.clusters().values().filter_map(there).collect(),
        })
    }
}
