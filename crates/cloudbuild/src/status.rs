use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of a build or step, with Cloud Build's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BuildStatus {
    /// Created, not yet queued.
    Pending,
    /// Queued, not started. Final for a step that never ran.
    Queued,
    /// Running.
    Working,
    /// Succeeded.
    Success,
    /// Failed because of the build itself.
    Failure,
    /// Failed because of the executor.
    InternalError,
    /// Exceeded its timeout.
    Timeout,
    /// Stopped on request, or because its build had already failed.
    Cancelled,
    /// Waited longer in the queue than `queueTtl`.
    Expired,
}

impl BuildStatus {
    /// All values, in the order of their declaration.
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

impl fmt::Display for BuildStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_text_have_the_same_spelling() {
        for status in BuildStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), serde_json::json!(status.as_str()));
        }
    }

    #[test]
    fn six_statuses_are_final() {
        assert_eq!(BuildStatus::ALL.iter().filter(|status| status.is_final()).count(), 6);
    }
}
