//! The page of a system: its metrics over dates, its changes, its nodes and its runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use model::{Span, Timestamp, Verdict};
use report::{
    NodeValue,
    trend::{self, MarkKind, PointTone, Trend, TrendMark, TrendPoint, number},
};
use run_index::{KnownValues, RunSummary};
use serde::{Deserialize, Serialize};
use verdict::Fingerprint;

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    nights::{self, NightRun, day, field_of},
    numbers::{CheckMetric, direction, main_of},
    overview::ListedRun,
    times::{DisplayTime, date},
};

/// Ranges to choose from, in days; the last one is unlimited.
const RANGES: [(&str, Option<i64>); 4] = [("7", Some(7)), ("30", Some(30)), ("90", Some(90)), ("all", None)];
/// Default range.
const USUAL: &str = "30";
/// Maximum wait for values that are not read yet; the page is updated once they are.
const TIMEOUT: Span = Span::from_millis(400);
/// Maximum number of judged runs in the charts.
const RUNS: usize = 2000;
/// Maximum number of rows in the table of runs.
const ROWS: usize = 100;
/// Maximum number of points in all charts together; a page is at most 200 KiB.
const POINTS: usize = 360;
/// Minimum number of points in a chart.
const LEAST_POINTS: usize = 90;
/// Maximum number of charts.
const CHARTS: usize = 4;
/// Maximum number of marks in a chart; only the newest marks are shown.
const MARKS: usize = 26;
/// Maximum number of columns with values in the table of runs.
const COLUMNS: usize = 4;
/// Maximum number of nodes shown.
const NODES: usize = 64;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// Query: cluster, range, check, metric and night to show.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SystemQuery {
    /// Cluster, named as on the overview page.
    on: Option<String>,
    /// Range: `7`, `30`, `90` or `all` days.
    days: String,
    check: String,
    /// Name of the metric to show, which belongs to the selected check.
    metric: String,
    /// Date whose runs the table shows; empty for all dates of the range.
    night: String,
}

#[derive(Serialize)]
struct SystemPage<'a> {
    workflow: String,
    place: &'a str,
    /// Other clusters of the workflow.
    others: Vec<&'a str>,
    query: SystemQuery,
    ranges: Vec<&'static str>,
    checks: Vec<String>,
    charts: Vec<MetricChart>,
    /// Number of checks without a chart.
    more_charts: usize,
    nodes: Option<NodeTable>,
    columns: Vec<String>,
    rows: Vec<NightRow>,
    more_rows: usize,
    /// Results in the range, most severe first.
    counts: Vec<(String, usize)>,
    latest: Option<NightRun>,
    latest_at: Option<DisplayTime>,
    pending: usize,
    /// Number of judged runs beyond the maximum.
    left_out: usize,
    startable: bool,
    beside_gateway: bool,
}

/// A metric over dates.
#[derive(Serialize)]
struct MetricChart {
    title: String,
    better: &'static str,
    check: String,
    /// Chart as HTML, escaped by the report crate; empty without a value in the range.
    html: String,
    shown: usize,
    runs: usize,
    marks: Vec<Mark>,
    /// The other metrics of the check.
    metrics: Vec<String>,
}

/// A change, for the list below a chart.
#[derive(Serialize)]
struct Mark {
    label: String,
    date: String,
    run: String,
    text: String,
    setup: bool,
}

#[derive(Serialize)]
struct NodeTable {
    run: String,
    rows: Vec<SystemNode>,
    more: usize,
    runs: usize,
}

#[derive(Serialize)]
struct SystemNode {
    node: String,
    tone: &'static str,
    mark: &'static str,
    value: String,
    metric: String,
    /// Distance of the node's worst metric from the median of the nodes.
    apart: String,
    findings: Vec<FindingLine>,
    suspected: String,
    /// Number of runs in the range in which the node is suspected or has a finding.
    flagged: usize,
}

#[derive(Serialize)]
struct FindingLine {
    code: String,
    text: String,
    href: String,
}

#[derive(Serialize)]
struct NightRow {
    run: ListedRun,
    values: Vec<Option<String>>,
    /// Codes of the reasons that decide a verdict other than pass.
    why: String,
}

/// Handler of `GET /systems/{workflow}`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Path(workflow): Path<String>,
    Query(mut query): Query<SystemQuery>,
) -> Result<Response, ErrorPage> {
    if !query.days.is_empty() && !RANGES.iter().any(|(name, _)| *name == query.days) {
        return Err(ErrorPage::bad_request("days: expected 7, 30, 90 or all."));
    }
    let all = dashboard.run_index.all().await?;
    let systems = nights::systems(&all);
    let mut clusters: Vec<_> = systems.iter().filter(|((name, _), _)| *name == workflow).collect();
    // The cluster of the newest run comes first.
    clusters.sort_by_key(|(_, summaries)| {
        std::cmp::Reverse(summaries.first().map(|summary| summary.requested_at))
    });
    let chosen = match &query.on {
        Some(on) => clusters.iter().find(|((_, place), _)| place == on),
        None => clusters.first(),
    };
    let Some(((_, place), summaries)) = chosen else {
        return Err(ErrorPage::not_found(format!(
            "No runs of {workflow} on this cluster. The overview lists all systems."
        )));
    };
    let now = dashboard.clock.now();
    if query.days.is_empty() {
        // Show a system that is younger than a week in the shortest range, because in a longer one all its runs would
        // be at the edge of the chart.
        let is_new = summaries.last().is_none_or(|summary| day(now) - day(summary.requested_at) < 7);
        if is_new { RANGES[0].0 } else { USUAL }.clone_into(&mut query.days);
    }
    let days = RANGES.into_iter().find(|(name, _)| *name == query.days).and_then(|(_, days)| days);
    let first = days.map(|days| Timestamp::from_millis((day(now) - days + 1) * DAY_MS));
    let inside = |summary: &&&RunSummary| first.is_none_or(|first| summary.requested_at >= first);
    let ranged: Vec<&RunSummary> = summaries.iter().filter(inside).copied().collect();
    let judged: Vec<&RunSummary> =
        ranged.iter().filter(|summary| summary.verdict.is_some()).copied().collect();
    // The judged run before the range: its setup may differ from that of the first run in the range.
    let before =
        summaries.iter().filter(|summary| !inside(summary)).find(|summary| summary.verdict.is_some());
    let shown = &judged[..judged.len().min(RUNS)];
    let values = dashboard.run_index.values(shown.iter().chain(before).copied(), TIMEOUT).await;
    let range = (
        first.or(judged.last().map(|summary| summary.requested_at)).unwrap_or(now),
        // Without a range the axis ends at the last run.
        days.map_or_else(|| judged.first().map_or(now, |summary| summary.requested_at), |_| now),
    );
    let series = SystemSeries { judged: shown, before: before.copied(), values: &values, range };
    let keys = series.keys(&query)?;
    let charted = &keys[..keys.len().min(CHARTS)];
    let charts = charted.iter().map(|key| series.chart(key, POINTS / charted.len().max(1))).collect();
    let columns: Vec<_> = keys.iter().take(COLUMNS).collect();
    let listed =
        ranged.iter().filter(|summary| query.night.is_empty() || date(summary.requested_at) == query.night);
    let listed: Vec<_> = listed.collect();
    let row = |summary: &&&RunSummary| NightRow {
        run: ListedRun::of(summary, &values, now),
        values: columns.iter().map(|key| key.number(values.of(&summary.run)?)).collect(),
        why: reason_codes(summary, &values),
    };
    let latest = summaries.iter().find(|summary| summary.verdict.is_some());
    let startable = dashboard.plans.plans().await.unwrap_or_default();
    let data = SystemPage {
        place,
        others: clusters.iter().map(|((_, place), _)| *place).filter(|other| other != place).collect(),
        ranges: RANGES.iter().map(|(name, _)| *name).collect(),
        checks: series.checks(),
        charts,
        more_charts: keys.len() - charted.len(),
        nodes: series.nodes(&query.check),
        columns: columns.iter().map(|key| key.title()).collect(),
        rows: listed.iter().take(ROWS).map(row).collect(),
        more_rows: listed.len().saturating_sub(ROWS),
        counts: counts(&ranged),
        latest: latest.map(|summary| NightRun::of(summary)),
        latest_at: latest.map(|summary| DisplayTime::of(summary.requested_at, now)),
        pending: values.pending,
        left_out: judged.len() - shown.len(),
        startable: startable.iter().any(|plan| plan.workflow == workflow && !plan.broken),
        beside_gateway: dashboard.beside_gateway,
        workflow: workflow.clone(),
        query,
    };
    Ok(frame::page(dashboard.beside_gateway, &workflow, "system.html", data))
}

fn counts(summaries: &[&RunSummary]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for summary in summaries {
        *counts.entry(NightRun::of(summary).word).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Codes of the reasons that decide a verdict other than pass.
fn reason_codes(summary: &RunSummary, values: &KnownValues) -> String {
    let Some(verdict) = summary.verdict.filter(|verdict| *verdict != Verdict::Pass) else {
        return String::new();
    };
    let checks = values.of(&summary.run).map_or(&[][..], |values| &values.checks);
    let reasons = checks.iter().filter(|check| check.verdict == verdict).flat_map(|check| &check.reasons);
    let mut seen = BTreeSet::new();
    let codes = reasons.filter(|reason| reason.weighs == verdict && seen.insert(&reason.code));
    codes.take(3).map(|reason| reason.code.as_str()).collect::<Vec<_>>().join(", ")
}

/// The judged runs of a range, newest first, with their values.
struct SystemSeries<'a> {
    judged: &'a [&'a RunSummary],
    /// The judged run before the range.
    before: Option<&'a RunSummary>,
    values: &'a KnownValues,
    range: (Timestamp, Timestamp),
}

impl SystemSeries<'_> {
    /// Names of the checks, in the order of the newest run.
    fn checks(&self) -> Vec<String> {
        let mut names = Vec::new();
        for summary in self.judged {
            let checks = self.values.of(&summary.run).map_or(&[][..], |values| &values.checks);
            for name in checks.iter().filter_map(|check| check.check.as_ref()) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    /// The metrics to show: one metric of each check, or the metric that the query selects.
    fn keys(&self, query: &SystemQuery) -> Result<Vec<CheckMetric>, ErrorPage> {
        let mut keys: Vec<CheckMetric> = Vec::new();
        for summary in self.judged {
            for check in self.values.of(&summary.run).map_or(&[][..], |values| &values.checks) {
                let name = check.check.as_deref().unwrap_or_default();
                if !query.check.is_empty() && name != query.check {
                    continue;
                }
                let wanted = check.values.metrics.iter().find(|metric| metric.name == query.metric);
                let metric = if query.metric.is_empty() { main_of(check) } else { wanted };
                let known = keys.iter().any(|key| key.check == check.check);
                if let Some(metric) = metric.filter(|_| !known) {
                    keys.push(CheckMetric::of((check, metric)));
                }
            }
        }
        let is_filtered = !query.metric.is_empty() || !query.check.is_empty();
        // Values that are still being read may contain the selected metric.
        if keys.is_empty() && is_filtered && self.values.pending == 0 {
            return Err(ErrorPage::not_found(
                "The runs of this range did not measure the selected check or metric; choose a longer range, or another metric.",
            ));
        }
        Ok(keys)
    }

    fn chart(&self, key: &CheckMetric, most: usize) -> MetricChart {
        let oldest_first = || self.judged.iter().rev();
        let points: Vec<_> = oldest_first()
            .filter_map(|summary| {
                let (check, metric) = key.find(self.values.of(&summary.run)?)?;
                let tone = match check.verdict {
                    Verdict::Pass => PointTone::Pass,
                    Verdict::Fail => PointTone::Fail,
                    Verdict::Inconclusive => PointTone::Inconclusive,
                };
                let at = summary.requested_at.to_string();
                let at = at.get(..16).unwrap_or(&at).replace('T', " ");
                let described = format!(
                    "{} {}\n{at} UTC\n{}: {}",
                    number(metric.value),
                    metric.unit,
                    check.verdict,
                    summary.run
                );
                let (run, at) = (summary.run.to_string(), summary.requested_at);
                Some(TrendPoint { run, at, value: metric.value, tone, described })
            })
            .collect();
        let runs = points.len();
        let points = thinned(points, most.max(LEAST_POINTS));
        let marks = self.marks(key);
        let newest = self.judged.iter().find_map(|summary| key.find(self.values.of(&summary.run)?));
        let others = newest.map_or(&[][..], |(check, _)| &check.values.metrics);
        let better = newest.map_or(model::metric::Better::None, |(_, metric)| metric.better);
        let shown = points.len();
        let of = Trend {
            metric: key.name.clone(),
            unit: key.unit.clone(),
            better,
            points,
            marks: marks.iter().map(|(mark, _)| mark.clone()).collect(),
            range: self.range,
        };
        MetricChart {
            title: key.title(),
            better: direction(better),
            check: key.check.clone().unwrap_or_default(),
            html: trend::part(&of),
            shown,
            runs,
            marks: marks
                .into_iter()
                .rev()
                .map(|(mark, run)| Mark {
                    label: mark.label,
                    date: date(mark.at),
                    run,
                    text: mark.text,
                    setup: mark.kind == MarkKind::Setup,
                })
                .collect(),
            metrics: others.iter().filter(|it| it.name != key.name).map(|it| it.name.clone()).collect(),
        }
    }

    /// Changes of the fingerprint between consecutive runs of the check, and the first runs whose verdict reports a change;
    /// oldest first, each with its run.
    fn marks(&self, key: &CheckMetric) -> Vec<(TrendMark, String)> {
        let mut found: Vec<(TrendMark, String)> = Vec::new();
        let runs = self.before.iter().chain(self.judged.iter().rev());
        let mut previous: Option<(&Fingerprint, BTreeSet<&str>)> = None;
        let checks: Vec<_> = runs
            .filter_map(|summary| {
                let values = self.values.of(&summary.run)?;
                let check = values.checks.iter().find(|check| check.check == key.check)?;
                Some((*summary, check, Fingerprint(check.setup.clone())))
            })
            .collect();
        for (summary, check, setup) in &checks {
            let reported: BTreeSet<_> = check
                .reasons
                .iter()
                .map(|reason| reason.code.as_str())
                .filter(|code| is_change(code))
                .collect();
            if let Some((before, known)) = &previous {
                let fields: Vec<_> = before.differences(setup).map(|field| field_of(&field)).collect();
                let mut add = |kind, text| {
                    let mark = TrendMark { at: summary.requested_at, label: String::new(), text, kind };
                    found.push((mark, summary.run.to_string()));
                };
                if !fields.is_empty() {
                    add(MarkKind::Setup, fields.join("; "));
                }
                let new = check
                    .reasons
                    .iter()
                    .filter(|reason| is_change(&reason.code) && !known.contains(reason.code.as_str()));
                let new: Vec<_> = new.map(|reason| format!("{}: {}", reason.code, reason.text)).collect();
                if !new.is_empty() {
                    add(MarkKind::Verdict, new.join("; "));
                }
            }
            previous = Some((setup, reported));
        }
        found.drain(..found.len().saturating_sub(MARKS));
        let letters = ('A'..='Z').map(String::from);
        for ((mark, _), label) in found.iter_mut().zip(letters) {
            mark.label = label;
        }
        found
    }

    /// The nodes of the newest run that names nodes, worst first.
    fn nodes(&self, wanted: &str) -> Option<NodeTable> {
        let of_check = |name: &Option<String>| wanted.is_empty() || name.as_deref() == Some(wanted);
        let nodes = |summary: &&RunSummary| {
            let values = self.values.of(&summary.run);
            let checks = values.map_or(&[][..], |values| &values.checks);
            checks.iter().filter(|check| of_check(&check.check)).collect::<Vec<_>>()
        };
        let names_nodes =
            |summary: &&&RunSummary| nodes(summary).iter().any(|check| !check.values.nodes.is_empty());
        let newest = self.judged.iter().find(names_nodes)?;
        let mut flagged: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for summary in self.judged {
            for node in nodes(summary).into_iter().flat_map(|check| &check.values.nodes) {
                if is_flagged(node) {
                    flagged.entry(&node.node).or_default().insert(summary.run.as_str());
                }
            }
        }
        // A node that several checks measured is listed for the check in which it is worst.
        let mut known = BTreeSet::new();
        let checks = nodes(newest);
        let mut all: Vec<_> = checks
            .iter()
            .flat_map(|check| check.values.nodes.iter().map(move |node| (*check, node)))
            .collect();
        let severity =
            |node: &NodeValue| (is_flagged(node), node.worst.as_ref().map_or(0.0, |(_, apart)| *apart));
        all.sort_by(|(_, a), (_, b)| {
            severity(b).partial_cmp(&severity(a)).unwrap_or(std::cmp::Ordering::Equal)
        });
        all.retain(|(_, node)| known.insert(node.node.as_str()));
        let more = checks.iter().map(|check| check.values.more_nodes).max().unwrap_or(0);
        let row = |(check, node): &(&run_index::CheckValues, &NodeValue)| SystemNode {
            node: node.node.clone(),
            tone: if is_flagged(node) { "bad" } else { "good" },
            mark: if is_flagged(node) { "✗" } else { "✓" },
            value: node
                .value
                .zip(main_of(check))
                .map_or_else(String::new, |(value, metric)| format!("{} {}", number(value), metric.unit)),
            metric: main_of(check).map_or_else(String::new, |metric| metric.name.clone()),
            apart: match &node.worst {
                Some((metric, apart)) if *apart >= 0.0005 => {
                    format!("{:.1} % worse in {metric}", 100.0 * apart)
                }
                _ => String::new(),
            },
            findings: node
                .findings
                .iter()
                .map(|finding| FindingLine {
                    code: finding.code.clone(),
                    text: finding.text.clone(),
                    href: log_line(newest.run.as_str(), &finding.log, finding.line),
                })
                .collect(),
            suspected: node.suspected.map_or_else(String::new, |part| format!("{:.0} %", 100.0 * part)),
            flagged: flagged.get(node.node.as_str()).map_or(0, BTreeSet::len),
        };
        Some(NodeTable {
            run: newest.run.to_string(),
            more: more + all.len().saturating_sub(NODES),
            rows: all.iter().take(NODES).map(row).collect(),
            runs: self.judged.len(),
        })
    }
}

fn is_flagged(node: &NodeValue) -> bool {
    node.suspected.is_some() || !node.findings.is_empty()
}

/// Address of a line of a log. The page of a log starts at a line, so that every line has an address.
fn log_line(run: &str, log: &str, line: u64) -> String {
    let name: String = log.split('/').map(crate::logs::encoded).collect::<Vec<_>>().join("/");
    let from = line.saturating_sub(20).max(1);
    format!("/runs/{run}/logs/{name}?from={from}#L{line}")
}

/// Whether a reason reports a change of the level since the system's earlier runs. Changes of the setup have their own
/// marks.
fn is_change(code: &str) -> bool {
    let compared = ["BELOW_BASELINE", "WORSE_THAN_BASELINE", "DIP"].contains(&code);
    let changed = ["SHIFTED", "DRIFTED", "CHANGED"].iter().any(|word| code.contains(word));
    compared || (changed && code != "SETUP_CHANGED")
}

/// At most `most` points, evenly spread. Points that did not pass take up to half of them, passed points the rest.
fn thinned(points: Vec<TrendPoint>, most: usize) -> Vec<TrendPoint> {
    let all = points.len();
    if all <= most {
        return points;
    }
    let failed = points.iter().filter(|point| point.tone != PointTone::Pass).count().min(most / 2);
    let good = most - failed;
    let passes = points.iter().filter(|point| point.tone == PointTone::Pass).count().max(1);
    let others = (all - passes).max(1);
    let (mut pass, mut other) = (0, 0);
    let keep = |point: &TrendPoint| {
        let (seen, share, of) = match point.tone {
            PointTone::Pass => (&mut pass, good, passes),
            _ => (&mut other, failed, others),
        };
        *seen += 1;
        // The number of kept points grows evenly with the number of examined ones.
        *seen * share / of > (*seen - 1) * share / of
    };
    let mut keep = keep;
    points.into_iter().filter(|point| keep(point)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_failures_and_an_even_share_of_the_rest() {
        let point = |number: usize| TrendPoint {
            run: number.to_string(),
            at: Timestamp::from_millis(number as i64),
            value: 1.0,
            tone: if number % 100 == 7 { PointTone::Fail } else { PointTone::Pass },
            described: String::new(),
        };
        let kept = thinned((0..1000).map(point).collect(), 100);
        assert_eq!(kept.len(), 100);
        assert_eq!(kept.iter().filter(|point| point.tone == PointTone::Fail).count(), 10);
        assert!(kept.last().unwrap().run == "999", "the newest run is kept");
    }

    #[test]
    fn changes_of_the_setup_are_not_changes_of_the_level() {
        for (code, change) in [
            ("SHIFTED", true),
            ("DRIFTED", true),
            ("BELOW_BASELINE", true),
            ("SETUP_CHANGED", false),
            ("BELOW_FLOOR", false),
            ("SANE", false),
        ] {
            assert_eq!(is_change(code), change, "{code}");
        }
    }

    #[test]
    fn a_finding_links_to_its_line() {
        assert_eq!(log_line("r-1", "1/a b.log", 500), "/runs/r-1/logs/1/a%20b.log?from=480#L500");
        assert_eq!(log_line("r-1", "1/x.log", 3), "/runs/r-1/logs/1/x.log?from=1#L3");
    }
}
