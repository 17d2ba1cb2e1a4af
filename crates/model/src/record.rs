//! Records of the ledger: accepted facts and decisions of the conductor, in versioned formats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Attempt, Class, Conclusion, EventKey, Fact, Failure, Money, RunId, Stage, Timestamp};

/// The newest record format. All older formats remain readable.
pub const RECORD_FORMAT: u32 = 5;

/// One object of a run's ledger, immutable once written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Format of this record; see [`RECORD_FORMAT`].
    pub format: u32,
    /// Run of the ledger.
    pub run: RunId,
    /// Sequence number in the ledger, starting at 1, without gaps.
    pub seq: u64,
    /// Unique per write. After a lost response, the nonce distinguishes the conductor's own write from a concurrent
    /// one.
    pub nonce: String,
    /// The conductor's clock, non-decreasing within a run. Deadlines depend on no other clock.
    pub recorded_at: Timestamp,
    /// The recorded fact or decision.
    pub entry: RecordEntry,
}

/// An accepted fact, or a decision of the conductor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordEntry {
    /// A fact that changed the state of the run.
    Accepted {
        /// Id of the message that caused the record.
        event: EventKey,
        /// Attempt of the fact; 1 for facts about the whole run.
        attempt: Attempt,
        /// Payload of the message.
        fact: Box<Fact>,
    },
    /// The infrastructure failed an attempt and the limit allows another.
    AttemptOpened {
        /// Stage of the failed attempt.
        stage: Stage,
        /// Attempt number of the new attempt, at least 2.
        attempt: Attempt,
        /// Failure of the previous attempt.
        because: Failure,
    },
    /// The stage exceeded its limit; its state is being polled.
    Overdue {
        /// Stage beyond its limit.
        stage: Stage,
        /// Attempt beyond its limit.
        attempt: Attempt,
    },
    /// The stage sent no fact after it was polled.
    TimedOut {
        /// Stage without a response.
        stage: Stage,
        /// Attempt without a response.
        attempt: Attempt,
    },
    /// Continuing would exceed the budget of the run. Since format 2.
    OverBudget {
        /// Cost of the clusters up to this record.
        spent: Money,
        /// Budget of the run.
        budget: Money,
    },
    /// The result is final and all resources are released.
    Closed {
        /// Conclusion of the run.
        conclusion: Conclusion,
    },
}

impl RecordEntry {
    /// Format in which this entry is written: the oldest that supports it, so that older programs can read
    /// it.
    pub fn format(&self) -> u32 {
        let (stage, attempt) = match self {
            Self::Accepted { fact, attempt, .. } => (fact.stage(), *attempt),
            Self::AttemptOpened { stage, attempt, .. }
            | Self::Overdue { stage, attempt }
            | Self::TimedOut { stage, attempt } => (Some(*stage), *attempt),
            Self::OverBudget { .. } | Self::Closed { .. } => (None, Attempt::FIRST),
        };
        let requests_checks = matches!(
            self, Self::Accepted { fact, .. }
            if matches!(&**fact, Fact::RunRequested(requested) if !requested.workflow.checks.is_empty())
        );
        let yields = match self {
            Self::Accepted { fact, .. } => {
                fact.failure().is_some_and(|failure| failure.class == Class::Yielded)
            }
            Self::Closed { conclusion } => matches!(conclusion, Conclusion::Yielded { .. }),
            _ => false,
        };
        match self {
            // Format 5 introduced runs that yield.
            _ if yields => 5,
            // Format 4 introduced several checks: an older program would skip them.
            _ if requests_checks || !attempt.check.is_first() => 4,
            // Format 3 introduced the locate stage.
            _ if matches!(stage, Some(Stage::Locate)) => 3,
            Self::OverBudget { .. } => 2,
            _ => 1,
        }
    }
}
