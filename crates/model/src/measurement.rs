//! Measurements of a benchmark, in the terms and units of nccl-tests.
//!
//! Sizes are bytes, time is microseconds, bandwidth is GB/s with GB = 10^9 bytes. These types are the document
//! `burnin/parse/v1`: their field names are an interface.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cluster, Node, NodeEvidence,
    metric::{Finding, Gpu, Metric, Scope, Subject},
};

/// The complete content of one log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Format of the log: `nvbandwidth`, `dcgm-diag`, ...; absent for nccl-tests, whose measurements are `tables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Version of the program, if the log states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// End of the log as a whole: the worst end of its tables; without a table `failed` or `empty`.
    pub ended: LogEnd,
    /// First error line of a failed run.
    pub first_error: Option<String>,
    /// One entry per benchmark run found in the log, in file order.
    pub tables: Vec<Table>,
    /// Measurements of other benchmarks, in file order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Errors and states that the program reported, in file order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// GPUs that the log names, apart from the devices of a table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// Hardware evidence of the nodes, collected before, during and after the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<NodeEvidence>,
}

/// End of a log or a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogEnd {
    /// The summary exists, with any result.
    Complete,
    /// Neither a summary nor an error: the output stops early.
    Truncated,
    /// An error and no summary.
    Failed,
    /// No benchmark output was found.
    #[default]
    Empty,
}

impl Reading {
    /// Adds the content of another log of the same run. The end is unchanged, because the end of several logs depends
    /// on the program.
    pub fn append(&mut self, other: Self) {
        self.format = self.format.take().or(other.format);
        self.version = self.version.take().or(other.version);
        self.first_error = self.first_error.take().or(other.first_error);
        self.tables.extend(other.tables);
        self.metrics.extend(other.metrics);
        self.findings.extend(other.findings);
        self.gpus.extend(other.gpus);
        self.evidence.extend(other.evidence);
    }

    /// Findings of the program, then those of the hardware evidence.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(self.evidence.iter().flat_map(|node| &node.findings))
    }

    /// Names both nodes of every subject: the program ran on `node`, against `peer`.
    ///
    /// Subjects that are GPUs or ranks keep their peer, which is another GPU or rank.
    pub fn name_pair(&mut self, node: &str, peer: &str) {
        self.name_node(node);
        let peer = Arc::<str>::from(peer);
        let is_of_node = |subject: &Subject| subject.gpu.is_none() && subject.rank.is_none();
        for metric in self.metrics.iter_mut().filter(|metric| is_of_node(&metric.subject)) {
            metric.scope = Scope::Pair;
            metric.subject.peer = Some(peer.clone());
        }
        for finding in self.findings.iter_mut().filter(|finding| is_of_node(&finding.subject)) {
            finding.subject.peer = Some(peer.clone());
        }
    }

    /// Replaces the names of hosts by those of their nodes.
    pub fn name_nodes(&mut self, nodes: &NodesOfHosts) {
        if nodes.0.is_empty() {
            return;
        }
        for device in self.tables.iter_mut().flat_map(|table| &mut table.devices) {
            if let Some(node) = nodes.of(&device.host) {
                device.host = node.to_string();
            }
        }
        let metrics = self.metrics.iter_mut().map(|metric| &mut metric.subject);
        let findings = self.findings.iter_mut().map(|finding| &mut finding.subject);
        let subjects = metrics.chain(findings).chain(self.gpus.iter_mut().map(|gpu| &mut gpu.subject));
        for name in subjects.flat_map(|subject| [&mut subject.node, &mut subject.peer]).flatten() {
            if let Some(node) = nodes.of(name) {
                *name = node.clone();
            }
        }
    }

    /// Names the node of every subject.
    pub fn name_node(&mut self, node: &str) {
        let node = Arc::<str>::from(node);
        let metrics = self.metrics.iter_mut().map(|metric| &mut metric.subject);
        let findings = self.findings.iter_mut().map(|finding| &mut finding.subject);
        let subjects = metrics.chain(findings).chain(self.gpus.iter_mut().map(|gpu| &mut gpu.subject));
        subjects.for_each(|subject| subject.node = Some(node.clone()));
    }
}

impl LogEnd {
    /// The worse end of two logs; the end of an empty log is ignored.
    #[must_use]
    pub const fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed, _) | (_, Self::Failed) => Self::Failed,
            (Self::Truncated, _) | (_, Self::Truncated) => Self::Truncated,
            (Self::Empty, other) | (other, Self::Empty) => other,
            (Self::Complete, Self::Complete) => Self::Complete,
        }
    }
}

/// Node by host name, for hosts with another name than their node, such as pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodesOfHosts(BTreeMap<String, Arc<str>>);

impl NodesOfHosts {
    /// The hosts with exactly one node, from the nodes that the logs name for each host. Several nodes of one machine have the same
    /// host, whose name is kept.
    pub fn of_logs<'a>(logs: impl IntoIterator<Item = &'a BTreeMap<String, BTreeSet<String>>>) -> Self {
        let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (host, nodes) in logs.into_iter().flatten() {
            all.entry(host).or_default().extend(nodes.iter().map(String::as_str));
        }
        let only = |(host, nodes): (&str, BTreeSet<&str>)| match nodes.into_iter().collect::<Vec<_>>()[..] {
            [node] => Some((host.to_owned(), Arc::from(node))),
            _ => None,
        };
        Self(all.into_iter().filter_map(only).collect())
    }

    /// Keeps only hosts that can belong to a node of this cluster, because any program may print such a line. A host must not have the name
    /// of a node. If all names of nodes are known, its node must be one of them.
    #[must_use]
    pub fn within(mut self, cluster: &Cluster) -> Self {
        let known = cluster.nodes.iter().map(|node| node.name.as_str());
        let known: BTreeSet<_> = known.filter(|name| !Node::is_placeholder(name)).collect();
        let are_all_known = !known.is_empty() && known.len() == cluster.nodes.len();
        self.0.retain(|host, node| {
            !known.contains(host.as_str()) && (!are_all_known || known.contains(&**node))
        });
        self
    }

    /// The node of a host; a program may print the name without the domain. `None` if the name is kept, for example because hosts of this
    /// name in several domains have different nodes.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<&Arc<str>> {
        let with_domain = || {
            let start = format!("{host}.");
            let mut nodes = self.0.range(start.clone()..).take_while(|(name, _)| name.starts_with(&start));
            let (_, first) = nodes.next()?;
            nodes.all(|(_, node)| node == first).then_some(first)
        };
        self.0.get(host).or_else(with_domain)
    }

    /// Replaces the names of hosts in a set.
    pub fn rename(&self, hosts: &mut BTreeSet<String>) {
        if !self.0.is_empty() {
            let names = std::mem::take(hosts).into_iter();
            hosts.extend(names.map(|host| self.of(&host).map_or(host, ToString::to_string)));
        }
    }
}

/// One run of one benchmark program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// `all_reduce`, `all_gather`, ... if the log states it.
    pub collective: Option<String>,
    /// Number of ranks, if the Rank lines cover 0..N-1 without gaps.
    pub ranks: Option<u32>,
    /// The Rank lines, in file order.
    pub devices: Vec<Device>,
    /// Version of the benchmark program, such as `2.19.6`.
    pub nccl_tests_version: Option<String>,
    /// NCCL version loaded at run time, such as `2.28.9`.
    pub nccl_version: Option<String>,
    /// Start of the run, local time from the JSON output, such as `2026-01-05 12:00:07`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Measured rows, in file order.
    pub rows: Vec<Row>,
    /// Number of rows with an incomplete half, truncated or `nan`; they are not in `rows`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unmeasured: u64,
    /// The line `Out of bounds values`.
    pub out_of_bounds: Option<OutOfBounds>,
    /// The line `Avg bus bandwidth`, GB/s. For display; never judged.
    pub average_busbw: Option<f64>,
    /// End of this table.
    pub ended: LogEnd,
}

impl Table {
    /// A table without content.
    pub const fn empty(ended: LogEnd) -> Self {
        Self {
            collective: None,
            ranks: None,
            devices: Vec::new(),
            nccl_tests_version: None,
            nccl_version: None,
            started_at: None,
            rows: Vec::new(),
            unmeasured: 0,
            out_of_bounds: None,
            average_busbw: None,
            ended,
        }
    }
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// A Rank line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Rank in the communicator.
    pub rank: u32,
    /// Host of the process.
    pub host: String,
    /// Device index on its host.
    pub device: Option<u32>,
    /// PCI bus id as printed, such as `0000:1b:00`.
    pub bus_id: Option<String>,
    /// Device name, such as `NVIDIA H200`.
    pub name: Option<String>,
}

/// One row of an nccl-tests table: one message size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Message size, bytes.
    pub size_bytes: u64,
    /// Number of elements.
    pub count: u64,
    /// Element type, such as `float`.
    pub dtype: String,
    /// Reduction, null for collectives without one.
    pub redop: Option<String>,
    /// Root rank as printed (may be -1), null without such a column.
    pub root: Option<i64>,
    /// Input and output in different buffers.
    pub out_of_place: Option<Half>,
    /// Input and output in the same buffer.
    pub in_place: Option<Half>,
    /// Completion time of the row, local time as printed by `-S`, such as `2026-01-05 12:00:07`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Times of each process, from the JSON output of `-I` with MPI; they identify slow processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Box<ProcessTimes>>,
    /// The incomplete half of a row: the line was cut, or one of its numbers is unreadable, such as `nan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<PartialHalf>>,
}

/// A half with missing numbers. It is kept for display and never judged: its row is incomplete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartialHalf {
    /// Buffers of this half.
    pub placement: Placement,
    /// Time of one operation, microseconds; null when unreadable.
    pub time_us: Option<f64>,
    /// Size over time, GB/s; null when unreadable.
    pub algbw: Option<f64>,
    /// Bus bandwidth, GB/s; null when unreadable.
    pub busbw: Option<f64>,
    /// Wrong elements over all ranks; null if unreadable or unchecked.
    pub wrong: Option<u64>,
    /// The columns that are missing or unreadable.
    pub unread: Vec<Column>,
}

impl PartialHalf {
    /// A half without any readable number.
    #[must_use]
    pub fn unread(placement: Placement) -> Self {
        let unread = vec![Column::TimeUs, Column::Algbw, Column::Busbw, Column::Wrong];
        Self { placement, time_us: None, algbw: None, busbw: None, wrong: None, unread }
    }
}

/// Buffer that receives the result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Input and output in different buffers.
    OutOfPlace,
    /// Input and output in the same buffer.
    InPlace,
}

/// A column of the out-of-place or in-place half of a row, named after its field in [`Half`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// `time_us`.
    TimeUs,
    /// `algbw`.
    Algbw,
    /// `busbw`.
    Busbw,
    /// `wrong`.
    Wrong,
    /// Any other column.
    Other,
}

/// Longest time of each iteration in each process, microseconds: `[process][iteration]`, processes in rank
/// order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessTimes {
    /// Times of the out-of-place half; empty if not reported.
    pub out_of_place_us: Vec<Vec<f64>>,
    /// Times of the in-place half; empty if not reported.
    pub in_place_us: Vec<Vec<f64>>,
}

/// One placement of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Half {
    /// Time of one operation, microseconds.
    pub time_us: f64,
    /// Size over time, GB/s.
    pub algbw: f64,
    /// Bus bandwidth, GB/s: comparable with the hardware's peak for any number of ranks.
    pub busbw: f64,
    /// Wrong elements over all ranks; null if unchecked.
    pub wrong: Option<u64>,
    /// Largest relative error, printed in place of `#wrong` until 2022. Nonzero (5e-07) in a correct run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Copy bandwidth of the concurrent side work, GB/s (column `copybw`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copybw: Option<f64>,
    /// Spread over the iterations (columns `i_*` of `-I`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<Iterations>,
}

/// Spread of one half over its iterations, from GPU events; the half's own time uses another clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Iterations {
    /// Shortest iteration, microseconds.
    pub min_us: f64,
    /// Longest iteration, microseconds.
    pub max_us: f64,
    /// 99th percentile (nearest rank), microseconds.
    pub p99_us: f64,
    /// Standard deviation over mean, percent.
    pub cv_pct: f64,
}

/// The summary line `Out of bounds values`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutOfBounds {
    /// Number of placements, over all rows, in which a process found wrong elements.
    pub count: u64,
    /// `OK` was printed. Meaningless for unchecked rows.
    pub ok: bool,
}

/// A message size for display: `8 B`, `64 KiB`, `16 MiB`.
///
/// A size that is not a whole multiple of its unit has one decimal, even `.0`, to distinguish it from an exact size.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = bytes.checked_ilog2().map(|log| log / 10).filter(|power| *power > 0) else {
        return format!("{bytes} B");
    };
    let unit = 1_u64 << (10 * power);
    let name = UNITS[power as usize - 1];
    match bytes % unit {
        0 => format!("{} {name}", bytes / unit),
        _ => format!("{:.1} {name}", bytes as f64 / unit as f64),
    }
}
