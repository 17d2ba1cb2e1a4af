//! Maximum and minimum bandwidth of a network of known line rate.
//!
//! Notation: `line` is the rate of a node in one direction, GB/s; `ranks` are all ranks, on `nodes` nodes with
//! `ranks / nodes` ranks each. Bus bandwidth is that of nccl-tests (nccl-tests `doc/PERFORMANCE.md`): chosen so that it does not
//! depend on the number of ranks for collectives that a ring executes.

use model::{Collective, Floor};

/// Minimum message size at which a collective of up to 64 ranks reaches its bandwidth, bytes.
const LARGE: u64 = 1 << 30;
/// Minimum part of a rank at which a ring of more than 64 ranks reaches its bandwidth, bytes.
const LARGE_PART: u64 = 16 << 20;

/// Network of a run.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub line: f64,
    pub ranks: u32,
    pub nodes: u32,
}

impl Network {
    /// `None` unless the ranks fill at least two nodes.
    pub fn of(line: Option<f64>, ranks: Option<u32>, ranks_per_node: Option<u32>) -> Option<Self> {
        let (line, ranks, per_node) = (line.filter(|line| *line > 0.0)?, ranks?, ranks_per_node?);
        let nodes = nodes(ranks, per_node)?;
        Some(Self { line, ranks, nodes })
    }

    fn ranks_per_node(&self) -> f64 {
        f64::from(self.ranks / self.nodes)
    }

    /// Highest bus bandwidth that the network permits. `None` for send-receive, gather and scatter, whose limit depends on the adapters
    /// that NCCL selects.
    pub fn limit(&self, collective: Collective) -> Option<f64> {
        let ranks = f64::from(self.ranks);
        match collective {
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Broadcast
            | Collective::Reduce => Some(self.line),
            // After a reduction within each node, every node sends only the data that the other nodes lack.
            Collective::AllReduce => Some(self.line * (ranks - 1.0) / ranks * self.exchange()),
            // Every rank sends to the ranks of all other nodes.
            Collective::Alltoall => {
                let here = self.ranks_per_node();
                Some(self.line * (ranks - 1.0) / (here * (ranks - here)))
            }
            Collective::Sendrecv | Collective::Gather | Collective::Scatter => None,
        }
    }

    /// Inverse of the share of a message that a node exchanges with other nodes: 2 for two nodes, near 1 for many.
    pub fn exchange(&self) -> f64 {
        f64::from(self.nodes) / f64::from(self.nodes - 1)
    }

    /// Bus bandwidth that the simplest algorithm reaches on a good network: a ring over all ranks, or one adapter for
    /// each rank.
    fn expected(&self, collective: Collective) -> f64 {
        let (ranks, here) = (f64::from(self.ranks), self.ranks_per_node());
        match collective {
            Collective::AllReduce => self.line,
            Collective::Sendrecv => self.line / here,
            // The adapter of the root limits the bandwidth.
            Collective::Gather | Collective::Scatter => self.line / here * (ranks - 1.0) / (ranks - here),
            _ => self.limit(collective).unwrap_or(self.line),
        }
    }

    /// Floors at the large measured sizes. If no measured size is large, one floor at the smallest large size.
    pub fn floors(&self, collective: Collective, share: f64, measured: &[u64]) -> Vec<Floor> {
        let least = LARGE.max(u64::from(self.ranks) * LARGE_PART);
        // nccl-tests rounds sizes down to equal parts.
        let mut sizes: Vec<_> =
            measured.iter().copied().filter(|size| *size as f64 >= 0.99 * least as f64).collect();
        sizes.dedup();
        if sizes.is_empty() {
            sizes.push(least);
        }
        let busbw = (share * self.expected(collective) * 100.0).round() / 100.0;
        sizes.into_iter().map(|size| Floor::everywhere(size, busbw)).collect()
    }
}

/// Number of nodes if the ranks fill at least two nodes completely; otherwise `None`.
pub fn nodes(ranks: u32, per_node: u32) -> Option<u32> {
    (per_node > 0 && ranks.is_multiple_of(per_node) && ranks / per_node >= 2).then(|| ranks / per_node)
}
