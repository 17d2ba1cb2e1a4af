//! A verdict as a document, and the order of severity.

use model::{Reason, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{diagnose::Diagnosis, fingerprint::Fingerprint, locate::Suspect};

/// A verdict with its reasons. This is the document `burnin/verdict/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Schema of the document: always `burnin/verdict/v1`.
    pub schema: String,
    /// Verdict by the most severe reason.
    pub verdict: Verdict,
    /// Reasons, most severe first. A pass also has reasons.
    pub reasons: Vec<Reason>,
    /// Probable causes, most significant first, with their evidence.
    #[serde(default)]
    pub diagnoses: Vec<Diagnosis>,
    /// Suspected ranks, GPUs or nodes, highest confidence first.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
    /// Environment of the measurement.
    #[serde(default)]
    pub fingerprint: Fingerprint,
}

impl Judgement {
    /// Combines two judgements: the reasons of both, and the more severe verdict.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.reasons.extend(other.reasons);
        self.reasons.sort_by_key(|reason| severity(reason.weighs));
        self.verdict = verdict(&self.reasons);
        self.diagnoses.extend(other.diagnoses);
        self.suspects.extend(other.suspects);
        self.suspects.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        if self.fingerprint != other.fingerprint {
            self.fingerprint.0.retain(|name, value| other.fingerprint.get(name) == Some(value));
        }
        self
    }
}

/// The most severe reason decides: fail, then inconclusive, then pass. Without a reason the verdict is
/// inconclusive.
pub(crate) fn verdict(sorted: &[Reason]) -> Verdict {
    sorted.first().map_or(Verdict::Inconclusive, |gravest| gravest.weighs)
}

pub(crate) const fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fail => 0,
        Verdict::Inconclusive => 1,
        Verdict::Pass => 2,
    }
}
