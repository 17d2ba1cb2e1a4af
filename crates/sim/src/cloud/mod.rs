//! Simulated external systems (builds, clusters, jobs, warehouse) behind the services' ports.
//!
//! Their events are written to the world's history. Clusters have the labels of real ones (run, attempt, expiry) and end at their expiry
//! without a request, so that the independent sweeper, which reads only labels, has all its inputs: [`Clouds::clusters`] and
//! [`WorldState::end_cluster`](crate::world::WorldState::end_cluster).

mod answer;
mod builds;
mod clusters;
mod jobs;
pub mod state;
mod warehouse;

pub use answer::SECRET;
pub use builds::SimBuilds;
pub use clusters::SimClusters;
pub use jobs::SimScheduler;
pub use state::{Clouds, SimCluster, SimClusterState, SimJob, SimJobStage as JobStage};
pub use warehouse::SimWarehouse;
