//! A baseline that a person decided on.

use model::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who decided that a run is the reference, when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pin {
    /// Its number in the workflow's history of pins, from 1.
    pub number: u64,
    /// The run.
    pub run: RunId,
    /// What of it.
    pub source: Source,
    /// Who decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, for people.
    pub why: String,
}

/// What of a run is the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// What it measured.
    #[default]
    Run,
    /// The baseline that it was judged by.
    Learned,
}

impl std::fmt::Display for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, run, source, by, at, why } = self;
        let what = match source {
            Source::Run => "",
            Source::Learned => "the baseline of ",
        };
        let at = at.to_string();
        let date = at.get(..10).unwrap_or(&at);
        write!(f, "{what}{run}, which {by} pinned on {date} (number {number})")?;
        if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
    }
}
