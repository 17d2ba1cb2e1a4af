//! The program of a benchmark: one of nccl-tests, or any other whose output is read as metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Workload;

/// What a benchmark runs.
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
    /// Number of its processes.
    pub every: Every,
    /// Container image with the program, `NAME@sha256:DIGEST`, instead of the workflow's. Kubernetes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How its output is read.
    pub read: OutputFormat,
}

impl CommandLine {
    /// The program, without arguments.
    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}

/// For which part of the cluster a program is started once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Every {
    /// One process on each node, on all nodes at once; the output of each node is read on its own.
    #[default]
    Node,
    /// One process for each rank, started as nccl-tests are: for programs that communicate, such as HPL with MPI.
    Rank,
}

/// How the output of a program is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// A format of `burnin parse`, by its name.
    Format(String),
    /// A declared parser: the document of `burnin parse --read`.
    Declared(serde_json::Value),
}
