//! Verdict on findings.
//!
//! A finding that all GPUs share is configuration until proven otherwise: in a public incident all eight GPUs of every node
//! reported a missing persistence mode, and a grader that did not separate it from hardware drained the fleet. Wrong data is
//! never configuration.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Verdict,
    measurement::Reading,
    metric::{Finding, Severity},
};

use super::{
    FoundReasons, listed,
    position::{SubjectPosition, owned},
};

pub(super) fn judge(reading: &Reading, found: &mut FoundReasons<'_>) {
    let known: BTreeSet<_> = reading.gpus.iter().map(|gpu| SubjectPosition::of(&gpu.subject)).collect();
    let is_shared = |findings: &[&Finding]| {
        let positions: BTreeSet<_> =
            findings.iter().map(|finding| SubjectPosition::of(&finding.subject)).collect();
        known.len() > 1 && known.is_subset(&positions)
    };
    judge_each(&reading.findings.iter().collect::<Vec<_>>(), is_shared, found);
}

/// Adds one reason for each code and severity. `is_shared`: whether all subjects have the findings of one code.
pub(super) fn judge_each(
    findings: &[&Finding],
    is_shared: impl Fn(&[&Finding]) -> bool,
    found: &mut FoundReasons<'_>,
) {
    let mut groups: BTreeMap<(&str, Severity), Vec<&Finding>> = BTreeMap::new();
    for finding in findings.iter().copied() {
        groups.entry((&finding.code, finding.severity)).or_default().push(finding);
    }
    for ((code, severity), findings) in groups {
        let subjects: BTreeSet<_> = findings.iter().map(|finding| owned(&finding.subject)).collect();
        let is_shared = is_shared(&findings);
        let (weighs, kind, reason) = match severity {
            Severity::WrongData => (Verdict::Fail, "wrong data", "WRONG_DATA"),
            Severity::Hardware if is_shared => (
                Verdict::Inconclusive,
                "on all GPUs, so more likely a setting than hardware",
                "FINDING_SHARED",
            ),
            Severity::Hardware => (Verdict::Fail, "hardware", "HARDWARE_FINDING"),
            Severity::Configuration => (Verdict::Inconclusive, "configuration", "CONFIGURATION_FINDING"),
            Severity::Software => (Verdict::Inconclusive, "software", "SOFTWARE_FINDING"),
            Severity::Unknown => (Verdict::Inconclusive, "cause unknown", "UNKNOWN_FINDING"),
        };
        if weighs == Verdict::Fail {
            for finding in &findings {
                found.blame(&finding.subject, code, 0.95);
            }
        }
        let first = findings[0];
        let subjects = listed(subjects.iter().map(ToString::to_string).collect());
        found.add(
            weighs,
            reason,
            format!("{code} ({kind}): {subjects}: {} (line {})", first.text, first.line),
        );
    }
}
