//! Search for bad nodes after a failed verdict, and their removal from service.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Attempt, Cluster, ClusterAccess, Image, Node, Program, Retest, RetestedNode, RunId, Timestamp,
    metric::Better,
};

/// After a failed verdict, repeat the benchmark on pairs of the job's nodes while the cluster still exists.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Locate {
    /// Maximum number of pairs to run; default: four per node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub tests: Option<u32>,
    /// Fraction from 0.01 to 0.95: a pair that is slower than the best pairs by this fraction is degraded.
    #[schemars(range(min = 0.01, max = 0.95))]
    pub tolerance: f64,
    /// Action on suspected nodes.
    pub drain: Drain,
    /// Maximum number of nodes that all searches of a run drain. More suspects than this point to a shared cause.
    #[schemars(range(min = 1, max = 4096))]
    pub drain_at_most: u32,
}

impl Default for Locate {
    fn default() -> Self {
        Self { tests: None, tolerance: 0.1, drain: Drain::Propose, drain_at_most: 1 }
    }
}

impl Locate {
    /// Invalid values, each as field and expectation.
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

/// Action on suspected nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Drain {
    /// Report the command that drains the node.
    #[default]
    Propose,
    /// Drain the node.
    Apply,
}

impl Cluster {
    /// A subset of the nodes, as a cluster that accepts jobs through `access`.
    #[must_use]
    pub fn part(&self, names: &[&str], access: ClusterAccess) -> Self {
        let part = |name: &str| {
            let named = self.nodes.iter().find(|node| node.name == name).or(self.nodes.first());
            Node { name: name.to_owned(), ..named.cloned().unwrap_or_else(|| Node::new(name, 1)) }
        };
        let nodes = names.iter().map(|name| part(name)).collect();
        Self { name: self.name.clone(), nodes, access }
    }
}

/// Parameters of a search for bad nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSearch {
    /// Cluster the job ran on.
    pub cluster: Cluster,
    /// Image the job used.
    pub image: Option<Image>,
    /// Program of the job. With nccl-tests, pairs run only the largest size of the workload.
    #[serde(flatten)]
    pub program: Program,
    /// Metrics of the criteria, for a program other than nccl-tests. The speed of a pair is the first of these metrics in its log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Directions that the criteria state for these metrics; other metrics have the direction of their format.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub better: BTreeMap<String, Better>,
    /// Environment variables of each rank; they override those of the cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Job attempt whose nodes are searched.
    pub job_attempt: Attempt,
    /// Limits of the search.
    pub locate: Locate,
    /// Maximum number of further nodes to drain, 0 for none; absent: `locate.drain_at_most`, because earlier searches of
    /// the run drained no node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drains_left: Option<u32>,
    /// Nodes of this cluster that earlier searches of the run drained. They do not count again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drained: Vec<String>,
    /// Hosts that the verdict suspects, such as those with a hardware finding: if they are bad, the search runs about half as many pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspected: Vec<String>,
    /// Deadline of the search, at which it reports its findings.
    pub ends_at: Timestamp,
    /// A re-test that has passed: no pair is run, and its nodes return to service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retest: Option<Retest>,
}

/// Result of a search for bad nodes, or of a re-test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspects {
    /// Suspected nodes, highest confidence first.
    pub nodes: Vec<SuspectNode>,
    /// Suspected links between two nodes that work with other nodes; each entry names both nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<[String; 2]>,
    /// Reason why the search gave no result, or only a partial one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
    /// Number of pairs run.
    pub tests: u32,
    /// Bus bandwidth of the best pairs, GB/s; `None` if no pair completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_busbw: Option<f64>,
    /// Object name of all measurements in the artefact bucket.
    pub object: String,
    /// Nodes that passed their re-test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retested: Vec<RetestedNode>,
}

/// A node that is probably bad, and the action taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspectNode {
    /// Name in the scheduler.
    pub node: String,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// Action taken.
    pub drained: Drained,
}

/// Action taken on a suspected node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Drained {
    /// No action; the field contains the command that would drain the node.
    Proposed {
        /// Command that drains the node.
        command: String,
        /// Reason why the search did not drain the node; absent if the workflow only proposes drains.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The node was drained.
    Applied {
        /// Reason recorded at the node.
        reason: String,
    },
    /// No action was taken.
    Left {
        /// Reason why the node was not drained.
        why: String,
    },
}

impl Drained {
    /// Why the node is still in service, with the proposed command; `None` for a drained node.
    pub fn undrained(&self) -> Option<String> {
        match self {
            Self::Proposed { command, why: None } => Some(format!("drain proposed: {command}")),
            Self::Proposed { command, why: Some(why) } => {
                Some(format!("not drained: {why}; drain proposed: {command}"))
            }
            Self::Left { why } => Some(format!("not drained: {why}")),
            Self::Applied { .. } => None,
        }
    }

    /// Drain reason recorded at a node on behalf of a run.
    pub fn reason(run: &RunId) -> String {
        format!("burnin {run}: slow or wrong in pairs")
    }

    /// Whether Burnin recorded this drain reason.
    pub fn is_ours(reason: &str) -> bool {
        reason.starts_with("burnin ")
    }
}
