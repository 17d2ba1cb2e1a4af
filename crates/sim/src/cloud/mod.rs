//! The outside worlds: builds, clusters, jobs and a warehouse that only exist on paper, behind the services' own ports.
//!
//! What they do is written into the world's history as it happens. Clusters carry the labels that real ones carry (run,
//! attempt, expiry) and end by themselves at their expiry, so that a second door beside the provisioner, which deletes
//! by label alone, finds here all that it needs: [`Clouds::clusters`] and [`Inner::end_cluster`].

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
pub use clusters::{Cluster, SimClusters, State};
pub use jobs::{Job, SimScheduler, Stage as JobStage};
pub use warehouse::SimWarehouse;

use crate::{
    Happening,
    door::Answer,
    world::{Inner, Service},
};

/// What providers say when they fail. It must never be kept.
pub const SECRET: &str = "token-7f3a9c-of-the-provider";

/// Everything that exists outside of the services.
#[derive(Default)]
pub struct Clouds {
    /// Builds by name.
    pub builds: BTreeMap<String, builds::Planned>,
    /// Builds that must not start any more.
    pub stopped_builds: BTreeSet<String>,
    /// Clusters by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// Names that no cluster may have any more.
    pub given_back: BTreeSet<String>,
    /// Jobs by name, in boxes: half of a tree's places are empty.
    pub jobs: BTreeMap<String, Box<Job>>,
    /// Names of the jobs that were ever begun on a cluster.
    pub jobs_on: BTreeMap<String, Vec<String>>,
    /// Jobs that must not begin any more.
    pub stopped_jobs: BTreeSet<String>,
    /// What runs brought, by load.
    pub loads: BTreeMap<String, Arc<Load>>,
    /// The same, as the judge looks it up.
    pub chronicle: judge::fake::Chronicle,
    /// Calls that are still to have their effect.
    pub landing: u64,
}

impl Clouds {
    /// Something costs money, or is about to.
    pub fn busy(&self) -> bool {
        self.landing > 0
            || self.builds.values().any(builds::Planned::going)
            || self.clusters.values().any(|cluster| !cluster.existing && cluster.state != State::Gone)
            || self.jobs.values().any(|job| job.going())
    }
}

fn passing<T>(why: &str) -> Result<T, PortError> {
    Err(PortError::Passing(format!("{why} ({SECRET})")))
}

fn answered<T>(answer: Answer<Result<T, PortError>>) -> Result<T, PortError> {
    match answer {
        Answer::Done(Err(PortError::Passing(why))) if planted("secret_in_a_failure") => {
            Err(PortError::Final(Failure::new(Class::Infrastructure, "ERROR", why)))
        }
        Answer::Done(said) => said,
        Answer::Lost(_) => passing("the connection was reset"),
        Answer::Refused => passing("503, try again"),
    }
}

impl Inner {
    /// Ends a cluster, and every job on it.
    pub fn end_cluster(&mut self, name: &str, why: &'static str) {
        let Some(cluster) = self.clouds.clusters.get_mut(name).filter(|cluster| cluster.state != State::Gone)
        else {
            return;
        };
        cluster.state = State::Gone;
        self.lose_jobs(name, "CLUSTER_GONE");
        self.note(Service::Outside, Happening::ClusterEnded { name: name.to_owned(), why });
    }
}
