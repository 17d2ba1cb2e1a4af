//! Collects reasons and derives the verdict.

use model::{Criteria, Reason, Verdict, measurement::Reading};

use crate::{
    diagnose::{self, Diagnosis, diagnose},
    environment,
    evidence::RunEvidence,
    fingerprint::Fingerprint,
    judgement::{Judgement, severity, verdict},
    locate::{Suspect, from_processes},
    metrics, performance, sanity,
    standard::Standard,
};

/// Confidence that the only node of a table with wrong data is bad; a bug of the program would be the other cause.
const WRONG_DATA: f64 = 0.9;

/// The verdict. Deterministic: the same evidence and standard give the same verdict.
#[must_use]
pub fn judge(evidence: &RunEvidence<'_>, standard: &Standard<'_>) -> Judgement {
    let fingerprint = Fingerprint::of(evidence);
    if metrics::is_about_metrics(evidence) {
        return metrics::judge(evidence, standard, fingerprint);
    }
    let mut reasons = sanity::reasons(evidence, standard.criteria);
    if reasons.iter().all(|reason| reason.code != sanity::NOT_STARTED) {
        let severity = standard.criteria.map(|criteria| criteria.environment).unwrap_or_default();
        reasons.extend(environment::reason(&evidence.clues.environment, severity));
    }
    reasons.extend(standard.criteria.and_then(without_effect));
    let (changes, accused) = metrics::hardware(evidence, standard.criteria);
    reasons.extend(changes);
    // A table with contradictory content is not compared with a standard.
    if sanity::measures_what_it_claims(&reasons) {
        reasons.extend(performance::reasons(evidence, &fingerprint, standard));
    }
    reasons.sort_by_key(|reason| severity(reason.weighs));
    let verdict = verdict(&reasons);
    let required = standard.criteria.and_then(|criteria| criteria.network.as_deref());
    let diagnoses = diagnose(evidence, required, verdict);
    // A missing program does not make a node suspect.
    let started = reasons.iter().all(|reason| reason.code != sanity::NOT_STARTED);
    let mut suspects = if started { suspects(evidence, &diagnoses, verdict) } else { Vec::new() };
    suspects.extend(accused);
    if let Some(node) = sanity::node_with_wrong_data(evidence, &reasons)
        && suspects.iter().all(|suspect| suspect.host.as_ref() != Some(&node))
    {
        let evidence = vec!["wrong data; no other node took part".to_owned()];
        suspects.push(Suspect { host: Some(node), confidence: WRONG_DATA, evidence, ..Suspect::default() });
    }
    suspects.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    Judgement { schema: "burnin/verdict/v1".to_owned(), verdict, reasons, diagnoses, suspects, fingerprint }
}

/// Reason for criteria that bound metrics: a table has no metrics, so these bounds would have no effect.
fn without_effect(criteria: &Criteria) -> Option<Reason> {
    let names: Vec<_> = criteria.metrics.iter().map(|criterion| criterion.metric.as_str()).collect();
    let text = || {
        format!(
            "the log has a table of nccl-tests, and the criteria bound metrics: {}; write `floors` or `references`",
            names.join(", ")
        )
    };
    (!names.is_empty()).then(|| Reason::new(Verdict::Inconclusive, "NOT_MEASURED", text()))
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
