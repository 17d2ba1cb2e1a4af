use model::{Span, Timestamp};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SoakProgress {
    /// Start of the first job.
    pub began: Timestamp,
    /// Number of rounds that have begun.
    pub rounds: u16,
    /// Start of the last round.
    pub round_began: Timestamp,
    /// Duration of the longest finished round.
    pub longest: Span,
    /// Time at which the last round ended, and the reason why no further round follows.
    pub ended: Option<(Timestamp, SoakEnd)>,
}

/// Reason for the end of a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakEnd {
    TimePassed,
    /// A check of the last round did not pass.
    NotPassed,
    /// Another round would exceed the cluster's lease.
    Lease,
    /// Another round would exceed the budget.
    Budget,
    /// The soak has reached the maximum number of checks.
    MaxChecks,
}

impl SoakProgress {
    /// Duration of the soak, up to the end of the last round or to `now`.
    pub fn lasted(&self, now: Timestamp) -> Span {
        self.ended.map_or(now, |(at, _)| at).since(self.began)
    }
}
