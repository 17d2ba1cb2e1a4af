use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a build or a step stands, in Cloud Build's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Created, not yet queued.
    Pending,
    /// Queued; work has not begun. A step that never ran ends like this.
    Queued,
    /// Being executed.
    Working,
    /// Finished well.
    Success,
    /// Failed by its own doing.
    Failure,
    /// Failed by the doing of whoever runs it.
    InternalError,
    /// Took longer than it was allowed.
    Timeout,
    /// Stopped on request, or because the build it belonged to had already failed.
    Cancelled,
    /// Waited in the queue for longer than `queueTtl`.
    Expired,
}

impl Status {
    /// Every status, in the order above.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Queued,
        Self::Working,
        Self::Success,
        Self::Failure,
        Self::InternalError,
        Self::Timeout,
        Self::Cancelled,
        Self::Expired,
    ];

    /// Whether a build in this status will never change again.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Queued | Self::Working)
    }

    /// Cloud Build's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Queued => "QUEUED",
            Self::Working => "WORKING",
            Self::Success => "SUCCESS",
            Self::Failure => "FAILURE",
            Self::InternalError => "INTERNAL_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::Cancelled => "CANCELLED",
            Self::Expired => "EXPIRED",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_text_spell_a_status_alike() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), serde_json::json!(status.as_str()));
        }
    }

    #[test]
    fn six_statuses_are_final() {
        assert_eq!(Status::ALL.iter().filter(|status| status.is_final()).count(), 6);
    }
}
