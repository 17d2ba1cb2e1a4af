//! The document `verdict.json`: a verdict with the inputs that reproduce it.

use model::MeasurementsFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Baseline, Judgement, Pin};

/// A verdict with its inputs: `verdict.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// Verdict with its reasons and diagnoses.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// Name and digest of the criteria.
    pub criteria: String,
    /// Digest of the baseline; `None` without a baseline.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Baseline with which the run was compared; `None` without a baseline.
    #[serde(default)]
    pub judged_by: Option<Baseline>,
    /// Manual choice of that baseline, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// Plateau levels of the runs since the baseline was learned, oldest first: excess time, relative.
    #[serde(default)]
    pub earlier: Vec<f64>,
    /// Levels of the metrics of the runs since the baseline was learned, oldest first: one for each of the baseline's `fleets`, null if
    /// the run did not measure it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_metrics: Vec<Vec<Option<f64>>>,
    /// SHA-256 of the judged log, hex; `None` without a log.
    #[serde(default)]
    pub log_sha256: Option<String>,
    /// The parsed logs; `None` if they are not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurements: Option<MeasurementsFile>,
}
