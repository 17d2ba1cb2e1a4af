//! A run that a person chose as the reference (`burnin baseline pin`).

use model::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A manual choice of a run as reference: author, time and reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pin {
    /// Sequence number in the workflow's pin history, starting at 1.
    pub number: u64,
    /// Run that is the reference.
    pub run: RunId,
    /// Part of the run that is the reference.
    pub source: PinSource,
    /// Author of the pin.
    pub by: String,
    /// Time at which the run was pinned.
    pub at: Timestamp,
    /// Reason, for display.
    pub why: String,
}

/// Part of a run that is the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PinSource {
    /// The run's own measurements.
    #[default]
    Run,
    /// The baseline by which the run was judged.
    Learned,
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, run, source, by, at, why } = self;
        let what = match source {
            PinSource::Run => "",
            PinSource::Learned => "the baseline of ",
        };
        let at = at.to_string();
        let date = at.get(..10).unwrap_or(&at);
        write!(f, "{what}{run}, which {by} pinned on {date} (number {number})")?;
        if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
    }
}
