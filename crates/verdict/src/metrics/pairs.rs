//! The bad end, or the bad link, from values of pairs: copies between GPUs, or transfers between nodes.

use std::collections::BTreeMap;

use model::metric::Subject;

use crate::locate::{PairOptions, PairResult, SuspectLink, from_pairs};

use super::{position::owned, suspects::Evidence};

/// Records evidence against ends and links, from the good and bad pairs of one metric. `what`: name of the metric, or
/// code of the finding.
///
/// `all`: every tested pair, good ones included, because they show which ends work.
pub(super) fn evidence<'a>(what: &str, all: impl Iterator<Item = (&'a Subject, bool)>) -> Vec<Evidence> {
    let mut ends: BTreeMap<String, Subject> = BTreeMap::new();
    let mut results = Vec::new();
    for (subject, ok) in all {
        let Some((a, b)) = both_ends(subject) else { continue };
        let [a, b] = [a, b].map(|end| {
            let name = end.to_string();
            ends.insert(name.clone(), end);
            name
        });
        results.push(PairResult { a, b, busbw: if ok { 1.0 } else { 0.0 }, ok });
    }
    if is_shared(&results) {
        return Vec::new();
    }
    let located = from_pairs(&results, &PairOptions { expected_busbw: Some(1.0), ..PairOptions::default() });
    let of_end = |name: &str, confidence| {
        let subject = ends.get(name)?.clone();
        Some(Evidence { subject, what: what.to_owned(), strength: confidence })
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

/// Whether most pairs are bad without a common endpoint: a setting of all nodes is then more likely than many bad nodes.
fn is_shared(results: &[PairResult]) -> bool {
    let bad: Vec<_> = results.iter().filter(|result| !result.ok).collect();
    let has = |end: &String| bad.iter().all(|result| [&result.a, &result.b].contains(&end));
    let common = bad.first().is_some_and(|first| has(&first.a) || has(&first.b));
    bad.len() == results.len() || (bad.len() * 2 > results.len() && !common)
}

/// The two ends of a pair: GPUs of a node by index, ranks by number, otherwise nodes by name.
pub(super) fn both_ends(subject: &Subject) -> Option<(Subject, Subject)> {
    let peer = subject.peer.as_ref()?;
    let first = Subject { peer: None, ..owned(subject) };
    let second = match (subject.gpu, subject.rank) {
        (Some(_), _) => Subject { gpu: Some(peer.parse().ok()?), ..first.clone() },
        (None, Some(_)) => Subject { rank: Some(peer.parse().ok()?), ..first.clone() },
        (None, None) => Subject { node: Some(peer.clone()), ..first.clone() },
    };
    Some((first, second))
}
