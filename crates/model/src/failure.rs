use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Responsibility for a failure. Only the class decides whether the attempt may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The infrastructure failed; another attempt may succeed.
    Infrastructure,
    /// The infrastructure failed and the cluster is lost: another attempt needs a new cluster.
    ClusterLost,
    /// The workload itself failed; a repeated attempt would hide the failure.
    Workload,
    /// The request is invalid; repeating it cannot succeed until it is corrected.
    Input,
    /// Cancelled on request.
    Cancelled,
    /// Other jobs need the nodes of a run that yields to them: the run ends without a result.
    Yielded,
}

/// Cause of a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Responsibility for the failure.
    pub class: Class,
    /// Code from the external system: `INTERNAL_ERROR`, `NODE_FAIL`, ...
    pub code: String,
    /// Cause and next step, for display.
    pub message: String,
}

impl Failure {
    /// A failure of `class` with the external system's own `code`.
    pub fn new(class: Class, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class, code: code.into(), message: message.into() }
    }
}
