//! Several values of one metric of one subject.

use model::{
    Criteria, Verdict,
    metric::{Better, Metric},
};

use super::{
    FoundReasons,
    keys::{BorrowedKey, described},
    listed,
    measured::ByName,
};

/// Running totals, which a training log prints after each iteration.
const TOTALS: [&str; 2] = ["training.nan_iterations", "training.skipped_iterations"];

/// Reports judged values that contradict another value with the same name, unit, labels and subject: nothing states which of them is
/// the result. Values of a settled window belong to a series, and are judged together.
pub(super) fn judge(
    by_name: &ByName<'_>,
    criteria: &Criteria,
    is_compared: bool,
    found: &mut FoundReasons<'_>,
) {
    let mut contradictions = Vec::new();
    for (name, metrics) in by_name.groups() {
        let of_name = || criteria.metrics.iter().filter(|criterion| criterion.metric == name);
        if metrics.len() < 2 || !is_compared && of_name().next().is_none() {
            continue;
        }
        let is_judged = |metric: &&&Metric| {
            let own = || of_name().filter(|criterion| criterion.selects(name, &metric.labels));
            let is_bounded = own().any(|criterion| criterion.bounds());
            (is_bounded || is_compared && metric.better != Better::None)
                && own().all(|criterion| criterion.settled.is_none())
        };
        contradictions.extend(contradicting(metrics.iter().filter(is_judged).copied()));
    }
    if !contradictions.is_empty() {
        let text = format!(
            "different values of one metric: {}; write one value for each subject, or distinguish them by a label",
            listed(contradictions)
        );
        found.add(Verdict::Inconclusive, "AMBIGUOUS", text);
    }
}

/// The first contradiction of each value, in the order of their lines.
pub(super) fn contradicting<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Vec<String> {
    let judged = metrics.filter(|metric| !TOTALS.contains(&&*metric.name));
    let mut values: Vec<_> = judged.map(|metric| (BorrowedKey::of(metric), metric)).collect();
    // Stable, and linear for a fleet, whose subjects are almost in order.
    values.sort_by_key(|(key, _)| *key);
    let of_key = values.chunk_by(|a, b| a.0 == b.0).filter_map(|values| {
        let (key, first) = values.first()?;
        let (_, other) = values.iter().find(|(_, other)| other.value != first.value)?;
        let text = format!("{} is {} and {}", described(&key.owned()), printed(first), printed(other));
        Some((first.line, text))
    });
    let mut contradictions: Vec<_> = of_key.collect();
    contradictions.sort();
    contradictions.into_iter().map(|(_, text)| text).collect()
}

fn printed(metric: &Metric) -> String {
    match (metric.value, &metric.unmeasurable) {
        (Some(value), _) => format!("{value} {} (line {})", metric.unit, metric.line),
        (None, reason) => format!("{} (line {})", reason.as_deref().unwrap_or("no value"), metric.line),
    }
}
