//! Bad members and bad links, from the metrics of any program on pairs: transfers between nodes, or copies between GPUs.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    measurement::Reading,
    metric::{Better, Metric, Subject},
};

use crate::locate::{Located, PairOptions, PairResult, Suspect, from_pairs, plateau};

use super::{PAIR_FAILED, pairs::both_ends};

/// Name, unit and labels of a metric: values that agree in them are comparable.
type Comparable<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>);

/// Names of the metrics that measure pairs and have a direction of improvement.
#[must_use]
pub fn pair_metrics(readings: &[Reading]) -> BTreeSet<&str> {
    let metrics = readings.iter().flat_map(|reading| &reading.metrics);
    metrics.filter(|metric| speed(metric).is_some()).map(|metric| &*metric.name).collect()
}

/// Units in which a metric of pairs is printed. Values in different units cannot be compared.
#[must_use]
pub fn units_of_pairs<'a>(readings: &'a [Reading], metric: &str) -> BTreeSet<&'a str> {
    let metrics = readings.iter().flat_map(|reading| &reading.metrics);
    metrics.filter(|it| *it.name == *metric && speed(it).is_some()).map(|metric| &*metric.unit).collect()
}

/// Finds the bad members from these metrics of the pairs, each in its own direction.
///
/// A value is compared with values of the same labels, or with values of healthy logs. The speed of a pair in a log is the geometric mean
/// of its compared values: a single message size is not sufficient evidence. A pair with a failed program is degraded.
#[must_use]
pub fn from_pair_metrics(
    readings: &[Reading],
    healthy: &[Reading],
    metrics: &BTreeSet<&str>,
    options: &PairOptions,
) -> Located {
    let expected = expected(if healthy.is_empty() { readings } else { healthy }, metrics);
    let mut members: BTreeMap<String, Subject> = BTreeMap::new();
    let mut results = Vec::new();
    for reading in readings {
        // For each pair the sum of the logarithms of its values relative to the expected ones, and the number of values.
        let mut pairs: BTreeMap<(String, String), (f64, u32)> = BTreeMap::new();
        let mut named = |subject: &Subject| {
            let (a, b) = both_ends(subject)?;
            let [a, b] = [a, b].map(|end| {
                let name = name(&end);
                members.insert(name.clone(), end);
                name
            });
            Some((a, b))
        };
        for metric in reading.metrics.iter().filter(|metric| metrics.contains(&*metric.name)) {
            let has_direction = matches!(metric.better, Better::Higher | Better::Lower);
            // Two GPUs without a direct connection have no value, which is normal.
            if !has_direction || metric.unmeasurable.is_some() {
                continue;
            }
            let Some(pair) = named(&metric.subject) else { continue };
            let (sum, count) = pairs.entry(pair).or_default();
            if let Some((speed, expected)) = speed(metric).zip(expected.get(&comparable(metric))) {
                *sum += (speed / expected).ln();
                *count += 1;
            }
        }
        let failed = reading.findings.iter().filter(|finding| finding.code == PAIR_FAILED);
        for (a, b) in failed.filter_map(|finding| named(&finding.subject)) {
            results.push(PairResult { a, b, busbw: 0.0, ok: false });
        }
        for ((a, b), (sum, count)) in pairs {
            // A pair without a comparable value was not measured.
            let ok = count > 0;
            let busbw = if ok { (sum / f64::from(count)).exp() } else { 0.0 };
            results.push(PairResult { a, b, busbw, ok });
        }
    }
    let mut located = from_pairs(&results, &PairOptions { expected_busbw: Some(1.0), ..*options });
    for suspect in located.suspects.iter_mut().chain(&mut located.suspected) {
        let Some(subject) = suspect.host.take().and_then(|name| members.get(&name)) else { continue };
        *suspect = Suspect {
            rank: subject.rank,
            host: subject.node.as_ref().map(ToString::to_string),
            gpu: subject.gpu,
            evidence: metrics.iter().map(ToString::to_string).collect(),
            ..suspect.clone()
        };
    }
    located
}

/// The value of a pair as a number that is larger for better pairs. `None` if it is not the value of a pair, or the direction is unknown.
fn speed(metric: &Metric) -> Option<f64> {
    both_ends(&metric.subject)?;
    let value = metric.value?;
    match metric.better {
        Better::Higher => Some(value.max(0.0)),
        // A duration of 0 is not a measurement.
        Better::Lower => (value > 0.0).then(|| 1.0 / value),
        Better::Exact | Better::None => None,
    }
}

fn comparable(metric: &Metric) -> Comparable<'_> {
    let labels = metric.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    (&metric.name, &metric.unit, labels.collect())
}

/// Speed of a good pair, for each kind of value.
fn expected<'a>(readings: &'a [Reading], metrics: &BTreeSet<&str>) -> BTreeMap<Comparable<'a>, f64> {
    let mut values: BTreeMap<Comparable<'a>, Vec<PairResult>> = BTreeMap::new();
    for metric in
        readings.iter().flat_map(|reading| &reading.metrics).filter(|it| metrics.contains(&*it.name))
    {
        if let Some(busbw) = speed(metric) {
            let result = PairResult { a: String::new(), b: String::new(), busbw, ok: true };
            values.entry(comparable(metric)).or_default().push(result);
        }
    }
    let plateaus = values.into_iter().map(|(of, results)| (of, plateau(&results)));
    plateaus.filter(|(_, expected)| *expected > 0.0).collect()
}

fn name(end: &Subject) -> String {
    match &end.node {
        Some(node) if end.gpu.is_none() && end.rank.is_none() => node.to_string(),
        _ => end.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use model::{measurement::LogEnd, metric::Scope};

    use super::*;

    /// One log of all pairs of four nodes, in which the pairs of one node have other values.
    fn reading(better: Better, good: f64, bad: f64) -> Reading {
        let mut metrics = Vec::new();
        for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            for size in ["8", "4096"] {
                metrics.push(Metric {
                    name: "link.value".into(),
                    unit: "u".into(),
                    better,
                    scope: Scope::Pair,
                    subject: Subject {
                        node: Some(format!("n{a}").into()),
                        peer: Some(format!("n{b}").into()),
                        ..Subject::default()
                    },
                    labels: BTreeMap::from([("size".to_owned(), size.to_owned())]).into(),
                    // Sizes differ more than good and bad pairs.
                    value: Some(if b == 3 { bad } else { good } * if size == "8" { 1.0 } else { 30.0 }),
                    resolution: None,
                    unmeasurable: None,
                    line: 1,
                });
            }
        }
        Reading { ended: LogEnd::Complete, metrics, ..Reading::default() }
    }

    fn located(reading: &Reading, healthy: &[Reading]) -> Located {
        let readings = std::slice::from_ref(reading);
        from_pair_metrics(readings, healthy, &pair_metrics(readings), &PairOptions::default())
    }

    #[test]
    fn each_metric_has_its_own_direction() {
        for (better, good, bad) in [(Better::Higher, 50.0, 30.0), (Better::Lower, 2.0, 3.0)] {
            let located = super::tests::located(&reading(better, good, bad), &[]);
            let hosts: Vec<_> = located.suspects.iter().map(|suspect| suspect.host.as_deref()).collect();
            assert_eq!(hosts, [Some("n3")], "{located:?}");
            assert_eq!(located.suspects[0].evidence, ["link.value"]);
            assert!(super::tests::located(&reading(better, good, good), &[]).healthy);
        }
        assert!(pair_metrics(&[reading(Better::None, 1.0, 2.0)]).is_empty());
    }

    #[test]
    fn a_pair_without_a_value_is_bad_and_an_unconnected_pair_is_not() {
        for better in [Better::Higher, Better::Lower] {
            let mut one = reading(better, 50.0, 50.0);
            for metric in one.metrics.iter_mut().filter(|metric| metric.subject.peer.as_deref() == Some("n3"))
            {
                metric.value = None;
            }
            let suspects = super::tests::located(&one, &[]).suspects;
            let hosts: Vec<_> = suspects.iter().map(|suspect| suspect.host.as_deref()).collect();
            assert_eq!(hosts, [Some("n3")]);
            // Pairs of GPUs without a connection have a reason instead of a value.
            for metric in one.metrics.iter_mut().filter(|metric| metric.value.is_none()) {
                metric.unmeasurable = Some("N/A".into());
            }
            assert!(super::tests::located(&one, &[]).healthy);
        }
    }

    #[test]
    fn pairs_that_are_all_slow_are_found_by_comparison_with_healthy_logs() {
        let slow = reading(Better::Lower, 3.0, 3.0);
        assert!(located(&slow, &[]).healthy);
        assert!(!located(&slow, &[reading(Better::Lower, 2.0, 2.0)]).healthy);
    }
}
