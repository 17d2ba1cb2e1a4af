//! Several values of one key in a log whose format has one value for each key.

use model::{Criteria, Verdict, measurement::Reading, metric::Metric};

use super::{
    FoundReasons,
    keys::{BorrowedKey, described},
    listed,
    measured::ByName,
};

/// Whether the format of the log has one value for each key. In other formats each row is a separate measurement, and each is judged: ranks
/// without a prefix, and programs that run several times, print several values of one subject.
pub(super) fn has_one_value_per_key(reading: &Reading) -> bool {
    reading.format.as_deref() == Some("key-value")
}

/// Usual causes: several ranks print to one log without their numbers, or a program repeats its measurement.
const NEXT_STEP: &str = "print each key once, end each measurement with a line such as `CHECK_PASS`, begin each line with the number of its rank as \
                         `srun --label` and `mpirun --tag-output` do, or read rank and labels by named groups of `row` in `read:`";

/// Reports values of judged keys that contradict another value of the same key and subject: the log does not state which of them is the
/// result. A key is judged if a criterion selects it. Baselines omit all other keys, because a key without a criterion has no direction.
pub(super) fn judge(
    reading: &Reading,
    by_name: &ByName<'_>,
    criteria: &Criteria,
    found: &mut FoundReasons<'_>,
) {
    if !has_one_value_per_key(reading) {
        return;
    }
    let mut contradictions = Vec::new();
    for (name, metrics) in by_name.groups().filter(|(_, metrics)| metrics.len() > 1) {
        let is_judged = |metric: &&&Metric| {
            let mut own = criteria
                .metrics
                .iter()
                .filter(|criterion| criterion.selects(name, &metric.labels))
                .peekable();
            // Values of a settled window belong to a series, and are judged together.
            own.peek().is_some() && own.all(|criterion| criterion.settled.is_none())
        };
        contradictions.extend(contradicting(metrics.iter().filter(is_judged).copied()));
    }
    if !contradictions.is_empty() {
        let text = format!("different values of one metric: {}; {NEXT_STEP}", listed(contradictions));
        found.add(Verdict::Inconclusive, "AMBIGUOUS", text);
    }
}

/// The first contradiction of each key, in the order of their lines.
pub(super) fn contradicting<'a>(metrics: impl Iterator<Item = &'a Metric>) -> Vec<String> {
    let mut values: Vec<_> = metrics.map(|metric| (BorrowedKey::of(metric), metric)).collect();
    // The sort is stable, and linear for a fleet, whose subjects are almost in order.
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
