//! The bad end, or the bad link, from values of pairs: copies between GPUs, or transfers between nodes.

use std::collections::BTreeMap;

use model::metric::{Metric, Subject};

use crate::locate::{PairOptions, PairResult, SuspectLink, from_pairs};

use super::{place::owned, suspects::Evidence};

/// Accuses ends and links by the pairs of one metric, of which some are bad.
///
/// `all`: every measured pair, good ones included, because they show which ends work.
pub(super) fn evidence(all: &[&Metric], bad: &[&Metric]) -> Vec<Evidence> {
    let is_bad = |metric: &Metric| bad.iter().any(|other| std::ptr::eq(*other, metric));
    let mut ends: BTreeMap<String, Subject> = BTreeMap::new();
    let mut results = Vec::new();
    for metric in all {
        let Some((a, b)) = both_ends(&metric.subject) else { continue };
        let [a, b] = [a, b].map(|end| {
            let name = end.to_string();
            ends.insert(name.clone(), end);
            name
        });
        let ok = !is_bad(metric);
        results.push(PairResult { a, b, busbw: if ok { 1.0 } else { 0.0 }, ok });
    }
    // If most pairs are bad, a setting of all is more likely than a bad end of each.
    if results.iter().filter(|result| !result.ok).count() * 2 > results.len() {
        return Vec::new();
    }
    let located = from_pairs(&results, &PairOptions { expected_busbw: Some(1.0), ..PairOptions::default() });
    let Some(what) = all.first().map(|metric| metric.name.to_string()) else { return Vec::new() };
    let of_end = |name: &str, confidence| {
        let subject = ends.get(name)?.clone();
        Some(Evidence { subject, what: what.clone(), strength: confidence })
    };
    let suspects = located.suspects.iter();
    let suspects = suspects.filter_map(|it| of_end(it.host.as_deref().unwrap_or_default(), it.confidence));
    let links = located.links.iter().filter_map(|SuspectLink { a, b, confidence }| {
        let mut evidence = of_end(a, *confidence)?;
        evidence.subject.link = Some(format!("to {}", ends.get(b)?).into());
        Some(evidence)
    });
    suspects.chain(links).collect()
}

/// The two ends of a pair: GPUs of a node by index, ranks by number, otherwise nodes by name.
fn both_ends(subject: &Subject) -> Option<(Subject, Subject)> {
    let peer = subject.peer.as_ref()?;
    let first = Subject { peer: None, ..owned(subject) };
    let second = match (subject.gpu, subject.rank) {
        (Some(_), _) => Subject { gpu: Some(peer.parse().ok()?), ..first.clone() },
        (None, Some(_)) => Subject { rank: Some(peer.parse().ok()?), ..first.clone() },
        (None, None) => Subject { node: Some(peer.clone()), ..first.clone() },
    };
    Some((first, second))
}
