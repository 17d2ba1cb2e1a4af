//! Values of one run for the run history: one per metric, and the state of each node.

use std::collections::BTreeMap;

use model::metric::{Better, Scope, Severity};

use crate::{
    ReportInput,
    measured::{MeasuredSize, measured},
    metrics::{self, MetricSummary},
    text,
};
use verdict::baseline::Region;

/// Maximum number of metrics of a run.
const METRICS: usize = 24;
/// Maximum number of nodes listed for a run, worst first.
const NODES: usize = 64;
/// Maximum number of findings of a node.
const FINDINGS: usize = 4;
/// Maximum length of a name, characters.
const NAME: usize = 80;
/// Maximum length of a finding's text, characters.
const TEXT: usize = 160;

#[derive(Clone, Debug, PartialEq)]
pub struct MetricValue {
    /// Name with its labels, such as `all_reduce plateau` or `memory.h2d size=8388608`.
    pub name: String,
    pub unit: String,
    /// Direction of improvement.
    pub better: Better,
    /// Median over all subjects.
    pub value: f64,
}

/// Metric values and findings of one node in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeValue {
    pub node: String,
    /// Worst value of the run's first judged metric on this node.
    pub value: Option<f64>,
    /// The metric in which the node is furthest from the median of all values, and its distance in the worse direction, relative.
    pub worst: Option<(String, f64)>,
    /// Codes and texts of the node's findings, most severe first.
    pub findings: Vec<NodeFinding>,
    /// Confidence of the suspicion, 0 to 1, if the verdict suspects the node.
    pub suspected: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeFinding {
    pub code: String,
    /// The program's own text.
    pub text: String,
    pub log: String,
    /// Line of the log, starting at 1.
    pub line: u64,
}

/// All values of a run or a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Values of metrics: plateaus first, then the other metrics in the order of the logs; metrics that are never judged last.
    pub metrics: Vec<MetricValue>,
    /// States of nodes, worst first; empty if no metric, finding or suspicion names a node.
    pub nodes: Vec<NodeValue>,
    /// Number of omitted nodes.
    pub more_nodes: usize,
}

/// The values of a run or of logs.
#[must_use]
pub fn values(input: &ReportInput<'_>) -> Values {
    let plateaus = measured(input).filter_map(|table| {
        let collective = table.table.collective.as_deref().unwrap_or("bandwidth");
        let value = plateau(&table.rows)?;
        let name = format!("{} plateau", text::shortened(collective, NAME));
        Some(MetricValue { name, unit: "GB/s".to_owned(), better: Better::Higher, value })
    });
    let all = metrics::in_log_order(input);
    let summaries = all.iter().filter_map(|summary| {
        let labels: String = summary.labels.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        Some(MetricValue {
            name: text::shortened(&format!("{}{labels}", summary.name), NAME),
            unit: text::shortened(&summary.unit, NAME),
            better: summary.better,
            value: summary.median.filter(|median| median.is_finite())?,
        })
    });
    let metrics = plateaus.chain(summaries).take(METRICS).collect();
    let mut nodes = nodes(input, &all);
    let more_nodes = nodes.len().saturating_sub(NODES);
    nodes.truncate(NODES);
    Values { metrics, nodes, more_nodes }
}

/// Median bus bandwidth of the plateau; `None` without a plateau, and for one rank, which measures no link.
fn plateau(rows: &[MeasuredSize<'_>]) -> Option<f64> {
    let rows = rows.iter().filter(|row| row.region == Some(Region::Plateau));
    let mut values: Vec<_> = rows.flat_map(|row| row.placed().map(|placed| placed.half.busbw)).collect();
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().filter(|value| *value > 0.0)
}

#[derive(Default)]
struct NodeEntry {
    value: Option<f64>,
    worst: Option<(String, f64)>,
    findings: Vec<(Severity, NodeFinding)>,
    suspected: Option<f64>,
}

fn nodes(input: &ReportInput<'_>, summaries: &[MetricSummary]) -> Vec<NodeValue> {
    let mut nodes: BTreeMap<String, NodeEntry> = BTreeMap::new();
    let first = summaries.iter().find(|summary| summary.better != Better::None);
    let medians: BTreeMap<_, _> = summaries
        .iter()
        .filter(|summary| summary.better != Better::None && summary.values > 1)
        .filter_map(|summary| Some(((summary.name.as_str(), &summary.labels), summary.median?)))
        .collect();
    for (log, reading) in metrics::logs(input) {
        for metric in &reading.metrics {
            let Some(value) = metric.value else { continue };
            if matches!(metric.scope, Scope::World | Scope::Rank) && metric.subject.node.is_none() {
                continue;
            }
            let entry = nodes.entry(node_of(metric.subject.node.as_deref(), log)).or_default();
            if first.is_some_and(|first| *first.name == *metric.name && first.labels == *metric.labels) {
                let worse = |known: f64| match metric.better {
                    Better::Lower => value > known,
                    _ => value < known,
                };
                if entry.value.is_none_or(worse) {
                    entry.value = Some(value);
                }
            }
            let median = medians.get(&(&*metric.name, &*metric.labels)).filter(|median| **median != 0.0);
            let Some(apart) = median.map(|median| worse_by(metric.better, value, *median)) else { continue };
            if apart.is_finite() && entry.worst.as_ref().is_none_or(|(_, known)| apart > *known) {
                entry.worst = Some((text::shortened(&metric.name, NAME), apart));
            }
        }
        for finding in &reading.findings {
            let entry = nodes.entry(node_of(finding.subject.node.as_deref(), log)).or_default();
            entry.findings.push((
                finding.severity,
                NodeFinding {
                    code: text::shortened(&finding.code, NAME),
                    text: text::shortened(&finding.text, TEXT),
                    log: log.to_owned(),
                    line: finding.line,
                },
            ));
        }
    }
    for suspect in input.reported_judgement().into_iter().flat_map(|judgement| &judgement.suspects) {
        let Some(host) = &suspect.host else { continue };
        let entry = nodes.entry(text::shortened(host, NAME)).or_default();
        entry.suspected = Some(entry.suspected.unwrap_or(0.0).max(suspect.confidence));
    }
    let mut nodes: Vec<_> = nodes.into_iter().map(node).collect();
    nodes.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
    nodes
}

/// A metric or finding without a node applies to the node of the log.
fn node_of(node: Option<&str>, log: &str) -> String {
    let file = log.rsplit_once('/').map_or(log, |(_, file)| file);
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    text::shortened(node.unwrap_or(stem), NAME)
}

/// Distance from the median in the worse direction, relative.
fn worse_by(better: Better, value: f64, median: f64) -> f64 {
    match better {
        Better::Higher => (median - value) / median.abs(),
        Better::Lower => (value - median) / median.abs(),
        Better::Exact => ((value - median) / median).abs(),
        Better::None => f64::NAN,
    }
}

fn node((node, mut entry): (String, NodeEntry)) -> NodeValue {
    entry.findings.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let findings = entry.findings.into_iter().map(|(_, finding)| finding).take(FINDINGS).collect();
    NodeValue { node, value: entry.value, worst: entry.worst, findings, suspected: entry.suspected }
}

/// Suspected nodes first, then nodes with findings, then the nodes furthest from the median.
fn rank(node: &NodeValue) -> (f64, bool, f64) {
    let apart = node.worst.as_ref().map_or(0.0, |(_, apart)| *apart);
    (node.suspected.unwrap_or(0.0), !node.findings.is_empty(), apart)
}

#[cfg(test)]
mod tests {
    use model::measurement::Reading;

    use super::*;
    use crate::ReportedLog;

    fn reading(node: &str, value: f64, findings: &serde_json::Value) -> Reading {
        let metric = serde_json::json!({
            "name": "memory.copy", "unit": "GB/s", "better": "higher", "scope": "node", "subject": {"node": node},
            "value": value, "unmeasurable": null, "line": 3,
        });
        Reading {
            metrics: serde_json::from_value(serde_json::json!([metric])).unwrap(),
            findings: serde_json::from_value(findings.clone()).unwrap(),
            ..Reading::default()
        }
    }

    #[test]
    fn nodes_with_findings_precede_slow_nodes_and_slow_nodes_precede_good_nodes() {
        let none = serde_json::json!([]);
        let xid = serde_json::json!([
            {"code": "XID_79", "subject": {"node": "c"}, "severity": "hardware", "text": "fell off", "line": 9}
        ]);
        let readings = [reading("a", 100.0, &none), reading("b", 90.0, &none), reading("c", 101.0, &xid)];
        let logs = readings.iter().map(|reading| ReportedLog { name: "1/x.log", reading, judgement: None });
        let values = values(&ReportInput { logs: logs.collect(), ..ReportInput::default() });
        let names: Vec<_> = values.nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!(values.nodes[0].findings[0].line, 9);
        assert_eq!(values.nodes[1].worst, Some(("memory.copy".to_owned(), 0.1)));
        let [metric] = &values.metrics[..] else { panic!("expected one metric, found {:?}", values.metrics) };
        assert_eq!((metric.name.as_str(), metric.value), ("memory.copy", 100.0));
    }

    #[test]
    fn a_metric_without_a_node_belongs_to_the_node_of_its_log() {
        assert_eq!(node_of(None, "1/node-3.log"), "node-3");
        assert_eq!(node_of(Some("a7"), "1/node-3.log"), "a7");
    }
}
