//! What the ledger holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Attempt, EventKey, Fact, Failure, Money, RunId, Stage, Timestamp};

/// The newest format. Old formats are read for ever.
pub const RECORD_FORMAT: u32 = 3;

/// One object of a run's ledger: written once, never again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Format number.
    pub format: u32,
    /// The run.
    pub run: RunId,
    /// Number in the ledger, from 1, without gaps.
    pub seq: u64,
    /// Who wrote it: tells our own write from a rival's when a store reports a conflict after a lost answer.
    pub nonce: String,
    /// The conductor's clock, never going back within a run. The only time that moves a deadline.
    pub recorded_at: Timestamp,
    /// What is recorded.
    pub entry: Entry,
}

/// A fact accepted, or a decision of the conductor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A fact that taught something.
    Accepted {
        /// Which message it was.
        event: EventKey,
        /// The attempt it speaks of; 1 for facts about the run as a whole.
        attempt: Attempt,
        /// The fact.
        fact: Box<Fact>,
    },
    /// The infrastructure broke an attempt and the budget allows another.
    AttemptOpened {
        /// The stage.
        stage: Stage,
        /// The new attempt.
        attempt: Attempt,
        /// What broke the one before.
        because: Failure,
    },
    /// The stage's limit has passed; the worker is being asked how it is.
    Overdue {
        /// The stage.
        stage: Stage,
        /// The attempt.
        attempt: Attempt,
    },
    /// Asked after its limit, the stage stayed silent.
    TimedOut {
        /// The stage.
        stage: Stage,
        /// The attempt.
        attempt: Attempt,
    },
    /// Going on would cost more than the run may cost. Since format 2.
    OverBudget {
        /// What the clusters have cost by now.
        spent: Money,
        /// What they may cost.
        budget: Money,
    },
    /// The answer is settled and everything is given back.
    Closed {
        /// How the run ended.
        conclusion: Conclusion,
    },
}

impl Entry {
    /// The format that a record of it is written in: the oldest that has it, so that programs of before read on.
    pub fn format(&self) -> u32 {
        let stage = match self {
            Self::Accepted { fact, .. } => fact.stage(),
            Self::AttemptOpened { stage, .. }
            | Self::Overdue { stage, .. }
            | Self::TimedOut { stage, .. } => Some(*stage),
            Self::OverBudget { .. } | Self::Closed { .. } => None,
        };
        match self {
            // The stage itself is of that format.
            _ if matches!(stage, Some(Stage::Locate)) => 3,
            Self::OverBudget { .. } => 2,
            _ => 1,
        }
    }
}

/// How a run ended. Not the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Conclusion {
    /// Every stage did its work.
    Completed,
    /// A stage failed for good.
    Failed {
        /// The stage.
        stage: Stage,
        /// Why.
        failure: Failure,
    },
    /// A stage stayed silent past its limit.
    TimedOut {
        /// The stage.
        stage: Stage,
    },
    /// Somebody asked to end it.
    Cancelled {
        /// Who.
        by: String,
    },
}

impl Conclusion {
    /// One word, as in `burnin/run/v1`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed { .. } => "failed",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}
