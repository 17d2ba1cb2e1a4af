//! A verdict as it is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Baseline, Judgement, Pin};

/// A verdict with what it was reached from: `verdict.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// The verdict.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// Name and digest of the criteria judged by.
    pub criteria: String,
    /// Digest of the baseline judged by; none when there was none.
    #[serde(default)]
    pub baseline: Option<String>,
    /// The baseline itself.
    #[serde(default)]
    pub judged_by: Option<Baseline>,
    /// Who decided on that baseline, where a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// Levels of the plateau in the runs since the baseline was learned, oldest first: how much longer it took, relative.
    #[serde(default)]
    pub earlier: Vec<f64>,
    /// SHA-256 of the log judged, hex; none when there was no log.
    #[serde(default)]
    pub log_sha256: Option<String>,
}
