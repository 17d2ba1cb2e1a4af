//! Reasons gathered, and what they come to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{Criteria, JobEnd, Reason, Verdict, Workload, measurement::Reading};

use crate::{baseline::Baseline, performance, sanity};

/// Everything a verdict is reached from. What was asked for is known of a run, not of a log on its own.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What the logs say.
    pub reading: &'a Reading,
    /// How the job ended.
    pub job: Option<&'a JobEnd>,
    /// What was asked for.
    pub workload: Option<&'a Workload>,
    /// Ranks the cluster offered: one a slot.
    pub ranks: Option<u32>,
}

/// A verdict with its reasons. This is the document `burnin/verdict/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// `burnin/verdict/v1`.
    pub schema: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, gravest first. A pass has a reason as well.
    pub reasons: Vec<Reason>,
}

impl Judgement {
    /// Of two: the reasons of both, and the graver verdict.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.reasons.extend(other.reasons);
        Self::from_reasons(self.reasons)
    }

    /// The gravest reason decides: fail, then inconclusive, then pass. No reason at all is missing evidence.
    fn from_reasons(mut reasons: Vec<Reason>) -> Self {
        reasons.sort_by_key(|reason| match reason.weighs {
            Verdict::Fail => 0,
            Verdict::Inconclusive => 1,
            Verdict::Pass => 2,
        });
        let verdict = reasons.first().map_or(Verdict::Inconclusive, |gravest| gravest.weighs);
        Self { schema: "burnin/verdict/v1".to_owned(), verdict, reasons }
    }
}

/// The verdict. The same evidence, criteria and baseline give the same verdict, always.
#[must_use]
pub fn judge(evidence: &Evidence<'_>, criteria: Option<&Criteria>, baseline: Option<&Baseline>) -> Judgement {
    let mut reasons = sanity::reasons(evidence, criteria);
    // A table that is not what it claims to be is not measured against anything.
    let sane = reasons.iter().all(|reason| reason.weighs == Verdict::Pass);
    if sane {
        reasons.extend(performance::reasons(evidence, criteria, baseline));
    }
    Judgement::from_reasons(reasons)
}

pub(crate) fn reason(weighs: Verdict, code: &str, text: impl Into<String>) -> Reason {
    Reason { code: code.to_owned(), weighs, text: text.into() }
}
