//! Re-test of nodes before they return to service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run that re-tests nodes: if every check passes, the nodes that Burnin drained return to service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retest {
    /// Nodes to re-test. The other nodes of the run are their partners.
    pub nodes: Vec<String>,
    /// Whether nodes that pass return to service, or their return is only proposed.
    pub after_pass: AfterPass,
}

/// Action on re-tested nodes after a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterPass {
    /// Report the command that returns the node to service.
    #[default]
    Propose,
    /// Return the node to service.
    Return,
}

/// A node that passed its re-test, and the action taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetestedNode {
    /// Name in the scheduler.
    pub node: String,
    /// Action taken.
    pub returned: Returned,
}

/// Action taken on a node that passed its re-test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Returned {
    /// No action; the field contains the command that would return the node to service.
    Proposed {
        /// Command that returns the node to service.
        command: String,
    },
    /// The node is in service.
    Applied,
    /// No action was taken.
    Left {
        /// Reason why the node was not returned to service.
        why: String,
    },
}
