use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Judgement of the cluster by its measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All requested measurements exist and meet the criteria.
    Pass,
    /// A measurement violates the criteria.
    Fail,
    /// Data needed for a pass or a fail is missing.
    Inconclusive,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// One reason of a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Stable code, listed in the documentation.
    pub code: String,
    /// Verdict that this reason supports.
    pub weighs: Verdict,
    /// Explanation for display.
    pub text: String,
}

impl Reason {
    /// A reason that supports `verdict`.
    pub fn new(verdict: Verdict, code: &str, text: impl Into<String>) -> Self {
        Self { code: code.to_owned(), weighs: verdict, text: text.into() }
    }
}

/// Verdict on the measurements, with its reasons, fingerprint and suspects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictReached {
    /// Verdict on the measurements.
    pub verdict: Verdict,
    /// Reasons of the verdict. A pass also has reasons.
    pub reasons: Vec<Reason>,
    /// Name and digest of the criteria.
    pub criteria: String,
    /// Digest of the baseline; `None` without a baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Environment of the measurement, field by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fingerprint: BTreeMap<String, String>,
    /// SHA-256 of the judged log, hex; `None` without a log.
    pub log_sha256: Option<String>,
    /// Suspected nodes, highest confidence first, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspects: Vec<VerdictSuspect>,
    /// Object name of the full verdict in the artefact bucket.
    pub object: String,
    /// The parsed logs; `None` if an older version judged them without this object, or if they are too large for one object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurements: Option<Box<MeasurementsFile>>,
}

/// A node that a verdict suspects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictSuspect {
    /// Host name, as the program printed it.
    pub node: String,
    /// Metrics, findings and lines that name the node, each after its GPU.
    pub evidence: Vec<String>,
}

/// The stored parsed logs of a run: `measurements.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasurementsFile {
    /// Object name in the artefact bucket.
    pub object: String,
    /// SHA-256 of the object, hex.
    pub sha256: String,
}
