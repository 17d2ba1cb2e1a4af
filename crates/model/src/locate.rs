//! Finding the bad node after a failed verdict, and taking it out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Attempt, Cluster, Image, Kubernetes, Node, RunId, Slurm, Timestamp, Topology, Workload};

/// After a failed verdict: the benchmark once more on pairs of the job's nodes, while the cluster is still there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Locate {
    /// At most so many pairs are run; without it, four for each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub tests: Option<u32>,
    /// A pair that is slower than the best ones by this part is degraded, 0.01 to 0.95.
    #[schemars(range(min = 0.01, max = 0.95))]
    pub tolerance: f64,
    /// What is done with the nodes that are named.
    pub drain: Drain,
    /// At most so many nodes are taken out. More bad ones than this are rather something that they share.
    #[schemars(range(min = 1, max = 4096))]
    pub drain_at_most: u32,
}

impl Default for Locate {
    fn default() -> Self {
        Self { tests: None, tolerance: 0.1, drain: Drain::Propose, drain_at_most: 1 }
    }
}

impl Locate {
    /// Every value that makes no sense, as field and what was expected.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if self.tests.is_some_and(|tests| !(1..=10_000).contains(&tests)) {
            found.push(("tests", "expected 1 to 10000".to_owned()));
        }
        if !(0.01..=0.95).contains(&self.tolerance) {
            found.push(("tolerance", format!("expected 0.01 to 0.95, found {}", self.tolerance)));
        }
        if !(1..=4096).contains(&self.drain_at_most) {
            found.push(("drain_at_most", format!("expected 1 to 4096, found {}", self.drain_at_most)));
        }
        found
    }
}

/// What is done with a node that is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Drain {
    /// The command that takes it out is told.
    #[default]
    Propose,
    /// It is taken out.
    Apply,
}

impl Cluster {
    /// Some of its nodes, as a cluster that jobs run on.
    #[must_use]
    pub fn part(&self, names: &[&str]) -> Self {
        let slots = |name: &str| {
            let named = self.nodes.iter().find(|node| node.name == name);
            named.or(self.nodes.first()).map_or(1, |node| node.slots)
        };
        let nodes = names.iter().map(|&name| Node { name: name.to_owned(), slots: slots(name) }).collect();
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let endpoint = match (Slurm::of(self), Kubernetes::of(self)) {
            (Ok(Some(slurm)), _) => {
                Slurm { nodes: count, node_list: Some(names.join(",")), ..slurm }.endpoint()
            }
            (_, Ok(Some(whole))) => {
                let only_nodes = names.iter().map(|&name| name.to_owned()).collect();
                // Nodes that are named may be as far apart as they are.
                let topology = whole.topology.as_ref().map(|_| Topology::Unconstrained);
                Kubernetes { nodes: count, only_nodes, topology, ..whole }.endpoint()
            }
            _ => self.endpoint.clone(),
        };
        Self { name: self.name.clone(), nodes, endpoint }
    }
}

/// A search for bad nodes, as the agent is asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// Where the job ran.
    pub cluster: Cluster,
    /// What it ran from.
    pub image: Option<Image>,
    /// What it ran. Pairs run its largest size.
    pub workload: Workload,
    /// The attempt of the job whose nodes are searched.
    pub job_attempt: Attempt,
    /// How far it may go.
    pub locate: Locate,
    /// When it ends, with whatever is known by then.
    pub ends_at: Timestamp,
}

/// What a search for bad nodes came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspects {
    /// Nodes held to be bad, surest first.
    pub nodes: Vec<SuspectNode>,
    /// Links held to be bad between two nodes that are good with others, each as both its ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<[String; 2]>,
    /// Why it could not be told, or not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
    /// Pairs that were run.
    pub tests: u32,
    /// What the best pairs reach, GB/s of bus bandwidth; none when no pair came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_busbw: Option<f64>,
    /// Object name of everything that was measured, in the artefact bucket.
    pub object: String,
}

/// A node held to be bad.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspectNode {
    /// Its name, as the scheduler knows it.
    pub node: String,
    /// From 0 to 1.
    pub confidence: f64,
    /// What was done with it.
    pub drained: Drained,
}

/// What was done with a node that is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Drained {
    /// Nothing; this is how.
    Proposed {
        /// The command that takes it out.
        command: String,
    },
    /// It was taken out of service.
    Applied {
        /// The reason that stands at the node.
        reason: String,
    },
    /// Nothing, and this is why.
    Left {
        /// Why.
        why: String,
    },
}

impl Drained {
    /// The reason that stands at a node taken out for the sake of a run.
    pub fn reason(run: &RunId) -> String {
        format!("burnin {run}: slow or wrong in pairs")
    }
}
