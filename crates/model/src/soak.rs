//! Soak: checks that are repeated for a stated duration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MeasurementsFile, Span};

/// All checks are repeated, round after round, until the duration has passed or a check does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Soak {
    /// Minimum duration from the start of the first job to the end of the last round: 10 seconds to 168 hours.
    #[serde(rename = "for")]
    pub duration: Span,
    /// Maximum decline of a value from the first to the last compared round, relative to its median in the first third of the compared
    /// rounds. The first fifth of all rounds, in which the devices warm up, is not compared.
    #[serde(default = "default_drift")]
    #[schemars(range(min = 0.001, max = 0.5))]
    pub drift: f64,
}

const fn default_drift() -> f64 {
    0.02
}

impl Soak {
    /// Maximum number of checks of all rounds. Each adds about seven records to the ledger.
    pub const MAX_CHECKS: u16 = 5000;
}

/// A round of a check, and the earlier rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoakRounds {
    /// Number of this round, starting at 1.
    pub round: u16,
    /// Maximum decline of a value, relative to the first third of the rounds.
    pub drift: f64,
    /// Rounds to compare, oldest first.
    pub earlier: Vec<SoakRound>,
}

/// An earlier round of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoakRound {
    /// Number of the round, starting at 1.
    pub round: u16,
    /// Stored measurements of the round; absent if too large to store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurements: Option<MeasurementsFile>,
}

impl SoakRound {
    /// Index of the first round after warm-up: the first fifth of the completed rounds is not compared.
    pub const fn settled_from(rounds: u16) -> u16 {
        rounds / 5
    }
}
