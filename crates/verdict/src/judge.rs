//! Reasons gathered, and what they come to.

use model::{Cluster, Criteria, JobEnd, Reason, Verdict, Workload, measurement::Reading};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    baseline::Baseline,
    clues::Clues,
    diagnose::{self, Diagnosis, diagnose},
    fingerprint::Fingerprint,
    locate::{Suspect, from_processes},
    performance,
    pin::Pin,
    sanity,
};

/// Everything a verdict is reached from. What was asked for is known of a run, not of a log on its own.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What the logs measured.
    pub reading: &'a Reading,
    /// What else they say.
    pub clues: &'a Clues,
    /// How the job ended.
    pub job: Option<&'a JobEnd>,
    /// What was asked for.
    pub workload: Option<&'a Workload>,
    /// What it ran on: one rank a slot.
    pub cluster: Option<&'a Cluster>,
    /// Fields of the fingerprint that no log tells.
    pub setup: Option<&'a Fingerprint>,
}

impl<'a> Evidence<'a> {
    /// A log on its own.
    pub const fn of(reading: &'a Reading, clues: &'a Clues) -> Self {
        Self { reading, clues, job: None, workload: None, cluster: None, setup: None }
    }
}

/// What a run is held against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard<'a> {
    /// What others reach, and what has to be so in any case.
    pub criteria: Option<&'a Criteria>,
    /// What this cluster does when it is healthy.
    pub baseline: Option<&'a Baseline>,
    /// The [level](Baseline::level) of every run since the baseline was learned, oldest first.
    pub earlier: &'a [f64],
    /// Who decided on the baseline, where a person did.
    pub pin: Option<&'a Pin>,
    /// Reasons about the baseline itself: runs left out of it, or why the cluster's own past is none.
    pub learned: &'a [Reason],
}

/// A verdict with its reasons. This is the document `burnin/verdict/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// `burnin/verdict/v1`.
    pub schema: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, gravest first. A pass has a reason as well.
    pub reasons: Vec<Reason>,
    /// What probably went wrong, most telling first, with the lines that prove it.
    #[serde(default)]
    pub diagnoses: Vec<Diagnosis>,
    /// Who is probably bad, surest first.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
    /// What it was measured on.
    #[serde(default)]
    pub fingerprint: Fingerprint,
}

impl Judgement {
    /// Of two: the reasons of both, and the graver verdict.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.reasons.extend(other.reasons);
        self.reasons.sort_by_key(|reason| gravity(reason.weighs));
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

/// The gravest reason decides: fail, then inconclusive, then pass. No reason at all is missing evidence.
fn verdict(sorted: &[Reason]) -> Verdict {
    sorted.first().map_or(Verdict::Inconclusive, |gravest| gravest.weighs)
}

const fn gravity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fail => 0,
        Verdict::Inconclusive => 1,
        Verdict::Pass => 2,
    }
}

/// The verdict. The same evidence and standard give the same verdict, always.
#[must_use]
pub fn judge(evidence: &Evidence<'_>, standard: &Standard<'_>) -> Judgement {
    let fingerprint = Fingerprint::of(evidence);
    let mut reasons = sanity::reasons(evidence, standard.criteria);
    // A table that is not what it claims to be is not measured against anything.
    if sanity::measures_what_it_claims(&reasons) {
        reasons.extend(performance::reasons(evidence, &fingerprint, standard));
    }
    reasons.sort_by_key(|reason| gravity(reason.weighs));
    let verdict = verdict(&reasons);
    let required = standard.criteria.and_then(|criteria| criteria.network.as_deref());
    let diagnoses = diagnose(evidence, required, verdict);
    // A node is not bad because a program is missing on it.
    let started = reasons.iter().all(|reason| reason.code != sanity::NOT_STARTED);
    let suspects = if started { suspects(evidence, &diagnoses, verdict) } else { Vec::new() };
    Judgement { schema: "burnin/verdict/v1".to_owned(), verdict, reasons, diagnoses, suspects, fingerprint }
}

/// Times of single processes name a rank, the logs' own words name a node.
fn suspects(evidence: &Evidence<'_>, diagnoses: &[Diagnosis], verdict: Verdict) -> Vec<Suspect> {
    let mut suspects = diagnose::suspects(evidence, diagnoses);
    let timed = |reading: &Reading| {
        reading.tables.iter().flat_map(|table| &table.rows).any(|row| row.processes.is_some())
    };
    if verdict == Verdict::Fail && timed(evidence.reading) {
        suspects.extend(from_processes(evidence.reading, &[]).suspects);
    }
    suspects.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    suspects
}

pub(crate) fn reason(weighs: Verdict, code: &str, text: impl Into<String>) -> Reason {
    Reason { code: code.to_owned(), weighs, text: text.into() }
}
