//! Simulated external systems (builds, clusters, jobs, warehouse) behind the services' ports.
//!
//! Their events are written to the world's history. Clusters carry the labels of real ones (run, attempt,
//! expiry) and end by themselves at their expiry, so that the independent sweeper, which deletes by labels
//! alone, has all it needs: [`Clouds::clusters`] and [`Inner::end_cluster`].

mod builds;
mod clusters;
mod jobs;
mod warehouse;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ::warehouse::Load;
use model::{Class, Failure, planted};
use service::PortError;

pub use builds::SimBuilds;
pub use clusters::{SimCluster, SimClusterState, SimClusters};
pub use jobs::{SimJob, SimJobStage as JobStage, SimScheduler};
pub use warehouse::SimWarehouse;

use crate::{
    Happening,
    effect::EffectResult,
    world::{Inner, SimService},
};

/// Part of the providers' error messages. It must never be stored.
pub const SECRET: &str = "token-7f3a9c-of-the-provider";

/// Everything outside the services.
#[derive(Default)]
pub struct Clouds {
    /// Builds by name.
    pub builds: BTreeMap<String, builds::PlannedBuild>,
    /// Builds that must not start.
    pub stopped_builds: BTreeSet<String>,
    /// Clusters by name.
    pub clusters: BTreeMap<String, SimCluster>,
    /// Names that must not be used for a cluster any more.
    pub given_back: BTreeSet<String>,
    /// Jobs by name. Boxed, because half of a tree's slots are empty.
    pub jobs: BTreeMap<String, Box<SimJob>>,
    /// Names of all jobs started on a cluster.
    pub jobs_on: BTreeMap<String, Vec<String>>,
    /// Jobs that must not start.
    pub stopped_jobs: BTreeSet<String>,
    /// Loaded rows by load.
    pub loads: BTreeMap<String, Arc<Load>>,
    /// The same data, for the judge's queries.
    pub chronicle: judge::fake::Chronicle,
    /// Number of calls whose effect is still pending.
    pub landing: u64,
}

impl Clouds {
    /// Whether anything costs money, or will.
    pub fn busy(&self) -> bool {
        self.landing > 0
            || self.builds.values().any(builds::PlannedBuild::going)
            || self
                .clusters
                .values()
                .any(|cluster| !cluster.existing && cluster.state != SimClusterState::Gone)
            || self.jobs.values().any(|job| job.going())
    }
}

fn passing<T>(why: &str) -> Result<T, PortError> {
    Err(PortError::Transient(format!("{why} ({SECRET})")))
}

fn answered<T>(answer: EffectResult<Result<T, PortError>>) -> Result<T, PortError> {
    match answer {
        EffectResult::Done(Err(PortError::Transient(why))) if planted("secret_in_a_failure") => {
            Err(PortError::Permanent(Failure::new(Class::Infrastructure, "ERROR", why)))
        }
        EffectResult::Done(said) => said,
        EffectResult::Lost(_) => passing("the connection was reset"),
        EffectResult::Refused => passing("503, try again"),
    }
}

impl Inner {
    /// Ends a cluster and all its jobs.
    pub fn end_cluster(&mut self, name: &str, why: &'static str) {
        let Some(cluster) =
            self.clouds.clusters.get_mut(name).filter(|cluster| cluster.state != SimClusterState::Gone)
        else {
            return;
        };
        cluster.state = SimClusterState::Gone;
        self.lose_jobs(name, "CLUSTER_GONE");
        self.note(SimService::Outside, Happening::ClusterEnded { name: name.to_owned(), why });
    }
}
