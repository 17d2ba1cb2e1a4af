//! Verdict on the hardware evidence of the nodes: changes during the job.

use std::collections::BTreeSet;

use model::{EvidenceRule, GpuSamples, NodeEvidence, Verdict, count, metric::Finding};

use super::{FoundReasons, findings, listed, position::SubjectPosition};
use crate::evidence::RunEvidence;

/// Adds reasons for changes and for missing evidence; without either, one reason reports unchanged hardware.
pub(super) fn judge(evidence: &RunEvidence<'_>, rule: EvidenceRule, found: &mut FoundReasons<'_>) {
    let nodes = &evidence.reading.evidence;
    // Evidence is not expected in the log of another launcher: only Burnin's own jobs collect it.
    let is_expected = rule == EvidenceRule::Required || (rule.is_taken() && evidence.cluster.is_some());
    if !is_expected && nodes.is_empty() {
        return;
    }
    let changes: Vec<_> = nodes.iter().flat_map(|node| &node.findings).collect();
    findings::judge_each(&changes, |findings| is_shared(nodes, findings), found);
    let corrected: Vec<_> = nodes.iter().flat_map(|node| &node.recorded).collect();
    if !corrected.is_empty() {
        let named = corrected.iter().map(|it| format!("{} ({}: {})", it.code, it.subject, it.text)).collect();
        let text = format!("the hardware corrected errors, which need no action: {}", listed(named));
        found.add(Verdict::Pass, "ERRORS_CORRECTED", text);
    }
    let mut missing = absent(evidence);
    for node in nodes {
        missing.extend(node.missing.iter().map(|part| format!("{}: {part}", node.node)));
    }
    if !missing.is_empty() {
        let weighs = if rule == EvidenceRule::Required { Verdict::Inconclusive } else { Verdict::Pass };
        let text = format!("hardware evidence is missing: {}", listed(missing));
        found.add(weighs, "EVIDENCE_MISSING", text);
    } else if changes.is_empty() && corrected.is_empty() {
        found.add(Verdict::Pass, "HARDWARE_UNCHANGED", unchanged(nodes));
    }
}

/// Nodes of the cluster without evidence.
fn absent(evidence: &RunEvidence<'_>) -> Vec<String> {
    let nodes = &evidence.reading.evidence;
    let Some(cluster) = evidence.cluster else {
        return if nodes.is_empty() { vec!["all nodes".to_owned()] } else { Vec::new() };
    };
    let seen: BTreeSet<_> = nodes.iter().map(|node| node.node.as_str()).collect();
    let all: BTreeSet<_> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    match all.len().saturating_sub(seen.len()) {
        _ if seen.is_subset(&all) => all.difference(&seen).map(|node| format!("{node}: all")).collect(),
        // Some kinds of cluster choose the nodes when the job starts.
        0 => Vec::new(),
        missing => vec![format!("{missing} of {} nodes", all.len())],
    }
}

/// Whether all GPUs have the finding; for findings about other devices, whether all nodes have it.
fn is_shared(nodes: &[NodeEvidence], findings: &[&Finding]) -> bool {
    let subjects = findings.iter().map(|finding| &finding.subject);
    let gpus: BTreeSet<_> =
        nodes.iter().flat_map(|node| &node.gpus).map(|gpu| SubjectPosition::of(&gpu.subject)).collect();
    let own: BTreeSet<_> = subjects
        .clone()
        .filter(|subject| subject.gpu.is_some())
        .map(|subject| SubjectPosition::of(subject).without_link())
        .collect();
    if !own.is_empty() {
        return gpus.len() > 1 && gpus.is_subset(&own);
    }
    let of_nodes: BTreeSet<_> = subjects.filter_map(|subject| subject.node.as_deref()).collect();
    nodes.len() > 1 && nodes.iter().all(|node| of_nodes.contains(node.node.as_str()))
}

fn unchanged(nodes: &[NodeEvidence]) -> String {
    let gpus: Vec<_> = nodes.iter().flat_map(|node| &node.gpus).collect();
    let samples: Vec<&GpuSamples> = gpus.iter().filter_map(|gpu| gpu.during.as_ref()).collect();
    let of = format!("{} and {}", count(nodes.len() as u64, "node"), count(gpus.len() as u64, "GPU"));
    let text = format!("no error counter rose and no link went down on {of}");
    let highest = |value: fn(&GpuSamples) -> u64| samples.iter().map(|it| value(it)).max();
    let (Some(heat), Some(power), Some(clock)) = (
        highest(|it| it.highest_temperature_c),
        highest(|it| it.highest_power_w),
        highest(|it| it.highest_clock_mhz),
    ) else {
        return text;
    };
    format!("{text}; maximum during the job: {heat} C, {power} W, {clock} MHz")
}
