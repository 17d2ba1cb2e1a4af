//! Collects reasons and derives the verdict.

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

/// Input of a verdict. The request is known only for a run, not for a single log.
#[derive(Clone, Copy, Debug)]
pub struct RunEvidence<'a> {
    /// Measurements in the logs.
    pub reading: &'a Reading,
    /// Other evidence in the logs.
    pub clues: &'a Clues,
    /// End of the job.
    pub job: Option<&'a JobEnd>,
    /// Requested benchmark.
    pub workload: Option<&'a Workload>,
    /// Cluster of the run: one rank per slot.
    pub cluster: Option<&'a Cluster>,
    /// Fingerprint fields that are not in the logs.
    pub setup: Option<&'a Fingerprint>,
}

impl<'a> RunEvidence<'a> {
    /// Evidence from a single log.
    pub const fn of(reading: &'a Reading, clues: &'a Clues) -> Self {
        Self { reading, clues, job: None, workload: None, cluster: None, setup: None }
    }
}

/// Reference values of a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard<'a> {
    /// Criteria, including published references.
    pub criteria: Option<&'a Criteria>,
    /// Healthy curve of this cluster.
    pub baseline: Option<&'a Baseline>,
    /// The [level](Baseline::level) of every run since the baseline was learned, oldest first.
    pub earlier: &'a [f64],
    /// Manual choice of the baseline, if any.
    pub pin: Option<&'a Pin>,
    /// Reasons about the baseline itself: runs excluded from it, or why the cluster's history does not
    /// provide one.
    pub learned: &'a [Reason],
}

/// A verdict with its reasons. This is the document `burnin/verdict/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// `burnin/verdict/v1`.
    pub schema: String,
    /// The verdict.
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

/// The most severe reason decides: fail, then inconclusive, then pass. Without a reason the verdict is
/// inconclusive.
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

/// The verdict. Deterministic: the same evidence and standard give the same verdict.
#[must_use]
pub fn judge(evidence: &RunEvidence<'_>, standard: &Standard<'_>) -> Judgement {
    let fingerprint = Fingerprint::of(evidence);
    let mut reasons = sanity::reasons(evidence, standard.criteria);
    // A table with contradictory content is not compared with a standard.
    if sanity::measures_what_it_claims(&reasons) {
        reasons.extend(performance::reasons(evidence, &fingerprint, standard));
    }
    reasons.sort_by_key(|reason| gravity(reason.weighs));
    let verdict = verdict(&reasons);
    let required = standard.criteria.and_then(|criteria| criteria.network.as_deref());
    let diagnoses = diagnose(evidence, required, verdict);
    // A missing program does not make a node suspect.
    let started = reasons.iter().all(|reason| reason.code != sanity::NOT_STARTED);
    let suspects = if started { suspects(evidence, &diagnoses, verdict) } else { Vec::new() };
    Judgement { schema: "burnin/verdict/v1".to_owned(), verdict, reasons, diagnoses, suspects, fingerprint }
}

/// Per-process times identify a rank; log lines identify a node.
fn suspects(evidence: &RunEvidence<'_>, diagnoses: &[Diagnosis], verdict: Verdict) -> Vec<Suspect> {
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
