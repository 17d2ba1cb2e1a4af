//! Numbers of GPUs that a check must measure, as the cluster's settings state them.

use std::collections::BTreeMap;

use model::{Cluster, Every};

/// GPUs that a check must measure on each node. A GPU that a node lost before the run is in no log, so only the settings
/// show that its measurement is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatedGpus {
    /// GPUs by the name of the node.
    named: BTreeMap<String, u32>,
    /// GPUs of a node whose name is not in `named`: a log and the scheduler may name a host differently. `None` if the nodes have different
    /// numbers.
    others: Option<u32>,
    /// GPUs of the nodes, including GPUs that the check need not measure.
    installed: BTreeMap<String, u32>,
    /// Number of GPUs of all nodes.
    pub(crate) total: u32,
}

impl StatedGpus {
    /// The stated GPUs of a check whose program starts once for each node or rank (`every`); `None` if the settings state no number of
    /// GPUs for any node, or if the program measures pairs of nodes.
    ///
    /// A program that is started for each rank measures at most one GPU for each rank.
    pub fn of(cluster: &Cluster, every: Every) -> Option<Self> {
        let of_node = |node: &model::Node| {
            let gpus = node.gpus?;
            match every {
                Every::Node => Some(gpus),
                Every::Rank => Some(gpus.min(node.slots)),
                Every::Pair => None,
            }
        };
        let all: Vec<_> = cluster.nodes.iter().map(|node| (node, of_node(node))).collect();
        let named: BTreeMap<_, _> =
            all.iter().filter_map(|(node, gpus)| Some((node.name.clone(), (*gpus)?))).collect();
        let first = all.first().and_then(|(_, gpus)| *gpus);
        let others = first.filter(|_| all.iter().all(|(_, gpus)| *gpus == first));
        let total = named.values().sum();
        let installed =
            cluster.nodes.iter().filter_map(|node| Some((node.name.clone(), node.gpus?))).collect();
        (!named.is_empty()).then_some(Self { named, others, installed, total })
    }

    /// Number of nodes with GPUs.
    pub(crate) fn nodes(&self) -> usize {
        self.named.values().filter(|gpus| **gpus > 0).count()
    }

    /// Number of GPUs of a node, by its name in the log; `None` if the settings do not state it.
    pub(crate) fn on(&self, node: &str) -> Option<u32> {
        self.named.get(node).copied().or(self.others)
    }

    /// Whether a node with this name has no more than `count` GPUs.
    pub(crate) fn has_only(&self, node: &str, count: usize) -> bool {
        self.installed.get(node).is_some_and(|installed| *installed as usize <= count)
    }
}
