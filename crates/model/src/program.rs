//! The program of a benchmark: one of nccl-tests, or any other whose output is read as metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Workload;

/// Program of a benchmark: one of nccl-tests, or any other program with the format of its output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Program {
    /// A program of nccl-tests.
    #[serde(rename = "workload")]
    NcclTests(Workload),
    /// Any other program.
    #[serde(rename = "command")]
    Command(CommandLine),
}

impl Program {
    /// The workload of nccl-tests; `None` for any other program.
    pub const fn workload(&self) -> Option<&Workload> {
        match self {
            Self::NcclTests(workload) => Some(workload),
            Self::Command(_) => None,
        }
    }

    /// The command line; `None` for nccl-tests.
    pub const fn command(&self) -> Option<&CommandLine> {
        match self {
            Self::Command(command) => Some(command),
            Self::NcclTests(_) => None,
        }
    }

    /// Short name: the collective, or the file name of the program.
    pub fn name(&self) -> &str {
        match self {
            Self::NcclTests(workload) => workload.collective.as_str(),
            Self::Command(command) => command.program().rsplit('/').next().unwrap_or_default(),
        }
    }
}

/// A program that is not part of nccl-tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandLine {
    /// Program and arguments. A program without `/` is looked up in the image, in the cluster's `programs` folder, then on the
    /// `PATH` of the node.
    pub argv: Vec<String>,
    /// The program is started once for each of these parts of the cluster.
    pub every: Every,
    /// Maximum number of rounds of pairs; default: all pairs are measured ([`pair_rounds`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Container image with the program, `NAME@sha256:DIGEST`, instead of the workflow's. Kubernetes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Format of the program's output.
    pub read: OutputFormat,
}

/// Formats whose metrics are values of all ranks together.
pub const WORLD_FORMATS: [&str; 7] = ["elbencho", "hpcg", "hpl", "ior", "mdtest", "osu", "training"];

impl CommandLine {
    /// Whether each value covers all ranks together. Such values cannot locate a bad node.
    pub fn measures_all_ranks(&self) -> bool {
        let of_all = match &self.read {
            OutputFormat::Format(name) => WORLD_FORMATS.contains(&name.as_str()),
            OutputFormat::Declared(rules) => rules["scope"] == "world",
        };
        self.every == Every::Rank && of_all
    }

    /// The program, without arguments.
    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}

/// Parts of the cluster that each start a program once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Every {
    /// One process on each node, on all nodes at the same time; the output of each node is read separately.
    #[default]
    Node,
    /// One process for each rank, started as nccl-tests are: for programs that communicate, such as HPL with MPI.
    Rank,
    /// One process on each of the two nodes of a pair, for all pairs of nodes: a server, then its client. A node is in one pair at
    /// a time. The argument `{peer}` is the address of the server, and is absent from the server's command line. The output of the
    /// client is read.
    Pair,
}

/// The pairs of nodes 0 to `nodes` - 1 in rounds: in a round a node is in at most one pair. All pairs take `nodes` - 1
/// rounds, or `nodes` rounds if the number is odd; `most` limits the rounds. The shell script of the jobs computes the
/// same pairs ([`Every::Pair`]).
///
/// Uses the circle method of round-robin tournaments: the first node keeps its position, the others rotate.
#[must_use]
pub fn pair_rounds(nodes: usize, most: Option<u32>) -> Vec<Vec<(usize, usize)>> {
    let places = nodes + nodes % 2;
    let all = places.saturating_sub(1);
    let rounds = most.map_or(all, |most| all.min(most as usize));
    let mut circle: Vec<usize> = (0..places).collect();
    let mut result = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let pairs = (0..places / 2).map(|at| (circle[at], circle[places - 1 - at]));
        // With an odd number of nodes one node pauses in each round.
        result.push(pairs.filter(|(a, b)| *a < nodes && *b < nodes).collect());
        circle[1..].rotate_right(1);
    }
    result
}

/// Format of the output of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// A format of `burnin parse`, by its name.
    Format(String),
    /// A declared parser: the document of `burnin parse --read`.
    Declared(serde_json::Value),
}
