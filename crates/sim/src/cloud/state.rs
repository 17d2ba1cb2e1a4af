//! The true state of the external systems: builds, clusters, jobs and loaded rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ::warehouse::Load;
use build_service::BuildPhase;
use model::{Attempt, JobEnd, Node, RunId, Timestamp};

use crate::workload::{self, RankOutput};

/// State of all systems outside the services.
#[derive(Default)]
pub struct Clouds {
    pub builds: BTreeMap<String, PlannedBuild>,
    /// Builds that must not start.
    pub stopped_builds: BTreeSet<String>,
    pub clusters: BTreeMap<String, SimCluster>,
    /// Names that must no longer be used for a cluster.
    pub released: BTreeSet<String>,
    /// Jobs by name. Boxed, because half of a tree's slots are empty.
    pub jobs: BTreeMap<String, Box<SimJob>>,
    /// Names of all jobs started on a cluster.
    pub jobs_on: BTreeMap<String, Vec<String>>,
    /// Reasons of drained nodes, by cluster and node.
    pub drained: BTreeMap<(String, String), String>,
    /// Jobs that must not start.
    pub stopped_jobs: BTreeSet<String>,
    /// Loaded rows by load.
    pub loads: BTreeMap<String, Arc<Load>>,
    /// Loaded rows, in the form that the judge's queries return.
    pub history: ::warehouse::memory::History,
    /// Number of calls whose effect is still pending.
    pub landing: u64,
}

impl Clouds {
    /// Whether a resource costs money, or will do so when a pending call takes effect.
    pub fn busy(&self) -> bool {
        self.landing > 0
            || self.builds.values().any(PlannedBuild::is_active)
            || self
                .clusters
                .values()
                .any(|cluster| !cluster.existing && cluster.state != SimClusterState::Deleted)
            || self.jobs.values().any(|job| job.is_active())
    }
}

pub struct PlannedBuild {
    /// Whether the build has ended.
    pub(super) over: bool,
    pub(super) end: BuildPhase,
}

impl PlannedBuild {
    /// Whether the build is running and costs money.
    pub const fn is_active(&self) -> bool {
        !self.over
    }

    pub(super) fn state(&self) -> BuildPhase {
        if self.over { self.end.clone() } else { BuildPhase::Running }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimClusterState {
    /// Starting.
    Starting,
    /// The cluster accepts jobs.
    Ready,
    /// The cluster exists, but accepts no jobs.
    Broken(&'static str),
    /// Being deleted.
    Ending,
    /// Deleted.
    Deleted,
}

#[derive(Clone, Debug)]
pub struct SimCluster {
    /// Label: the run; `None` for an existing cluster.
    pub run: Option<RunId>,
    /// Label: the attempt.
    pub attempt: Attempt,
    /// Label: expiry time of the cluster, which is then deleted without a request.
    pub expires_at: Timestamp,
    pub nodes: u32,
    /// Numbers of the cluster's slow nodes.
    pub slow: BTreeSet<u32>,
    /// An existing cluster, which is not deleted.
    pub existing: bool,
    pub state: SimClusterState,
}

impl SimCluster {
    /// An external cluster that always exists, possibly with a slow node.
    pub fn existing(slow: Option<u32>) -> Self {
        let slow = slow.into_iter().collect();
        let expires_at = Timestamp::from_millis(i64::MAX);
        let (run, attempt) = (None, Attempt::FIRST);
        Self { run, attempt, expires_at, nodes: 3, slow, existing: true, state: SimClusterState::Ready }
    }

    /// Names of the slow nodes.
    pub fn slow_nodes(&self) -> Vec<String> {
        self.slow.iter().map(|node| format!("node-{node}")).collect()
    }

    /// Makes a second node slow. At least three good nodes remain, so that pairs show which nodes are slow.
    pub(super) fn add_slow_node(&mut self) {
        let enough = !self.existing && self.nodes >= 5 && self.slow.len() == 1;
        let next = self.slow.first().map(|node| (node + 1) % self.nodes);
        self.slow.extend(next.filter(|_| enough));
    }

    pub(super) fn facts(&self, name: &str) -> model::Cluster {
        let nodes = (0..self.nodes).map(|number| Node::new(format!("node-{number}"), 1));
        let access = model::ClusterAccess::new("sim", name);
        model::Cluster { name: name.to_owned(), nodes: nodes.collect(), access }
    }
}

/// True state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimJobStage {
    /// Queued.
    Pending,
    Running,
    /// The job ended, on its own or on request.
    Ended(JobEnd),
    /// Lost, with the scheduler's code.
    Lost(&'static str),
    /// Preempted by another job.
    Yielded,
}

/// A job with its planned output.
pub struct SimJob {
    /// Name of the cluster that runs the job.
    pub cluster: String,
    /// Names of the nodes that the job runs on.
    pub nodes: Vec<String>,
    pub stage: SimJobStage,
    /// Whether the job started, so that a log exists.
    pub began: bool,
    /// Complete output of the job; rendered at each read to save memory.
    pub output: RankOutput,
}

impl SimJob {
    /// Whether the job is queued or running.
    pub const fn is_active(&self) -> bool {
        matches!(self.stage, SimJobStage::Pending | SimJobStage::Running)
    }

    /// Current content of the output file `file` of the job.
    pub(super) fn written(&self, name: &str, file: &str) -> Vec<u8> {
        if file != workload::LOG {
            return b"nothing to say\n".to_vec();
        }
        let mut log = self.output.text(name).into_bytes();
        if matches!(self.stage, SimJobStage::Running) {
            log.truncate(log.len() / 2);
        }
        log
    }
}
