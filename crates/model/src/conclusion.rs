use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CheckIndex, Failure, Stage};

/// Conclusion of a run. Independent of the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Conclusion {
    /// All stages succeeded.
    Completed,
    /// A stage failed permanently.
    Failed {
        /// Failed stage.
        stage: Stage,
        /// Index of the check whose stage ended; the first check for the image and cluster stages.
        #[serde(default, skip_serializing_if = "CheckIndex::is_first")]
        check: CheckIndex,
        /// Failure that ended the stage.
        failure: Failure,
    },
    /// A stage sent no fact in the grace period after its limit.
    TimedOut {
        /// Stage without a response.
        stage: Stage,
        /// Index of the check whose stage ended; the first check for the image and cluster stages.
        #[serde(default, skip_serializing_if = "CheckIndex::is_first")]
        check: CheckIndex,
    },
    /// Cancelled on request.
    Cancelled {
        /// Person or system that cancelled the run.
        by: String,
    },
    /// The workflow yields to other jobs, and other jobs need the nodes. Since format 5.
    Yielded {
        /// Stage that ended because other jobs need the nodes.
        stage: Stage,
        /// Index of the check whose stage ended; the first check for the image and cluster stages.
        #[serde(default, skip_serializing_if = "CheckIndex::is_first")]
        check: CheckIndex,
        /// Failure that ended the stage.
        failure: Failure,
    },
}

impl Conclusion {
    /// The conclusion as one word, as in `burnin/run/v1`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled { .. } => "cancelled",
            Self::Yielded { .. } => "yielded",
        }
    }
}
