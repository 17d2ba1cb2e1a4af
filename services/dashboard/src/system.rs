//! The page of one system: its measurements by date, changes of its setup, suspected nodes, and its runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use futures::{StreamExt, stream};
use model::{CheckIndex, RunId, Timestamp, metric::Better};
use run_index::{Elsewhere, RunReport, RunStatus, RunSummary};
use serde::{Deserialize, Serialize};

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    nights::{self, NightRun, moment},
};

/// Maximum number of runs shown.
const RUNS: usize = 400;
/// Maximum number of charts.
const CHARTS: usize = 24;
/// Maximum number of metrics of one check.
const METRICS: usize = 6;
/// Runs whose measurements are read at once.
const AT_ONCE: usize = 16;
/// Maximum number of runs whose measurements stay in memory.
const KEPT: usize = 10_000;
/// Width of a chart, in its own units.
const WIDTH: f64 = 960.0;
/// See [`WIDTH`].
const HEIGHT: f64 = 150.0;
const DAY_MS: f64 = 24.0 * 3600.0 * 1000.0;

/// Measurements of closed runs, which never change.
#[derive(Default)]
pub struct KnownRuns(Mutex<BTreeMap<RunId, Arc<MeasuredRun>>>);

/// What the charts need of a run.
#[derive(Debug, Default)]
pub struct MeasuredRun {
    values: Vec<SeriesValue>,
    /// Suspected nodes, with the metrics and findings that show it.
    suspects: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
struct SeriesValue {
    series: String,
    unit: String,
    better: Better,
    value: f64,
}

/// Query: the cluster, and the number of days; all of them if it is 0.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct SystemQuery {
    place: String,
    days: u32,
}

impl Default for SystemQuery {
    fn default() -> Self {
        Self { place: String::new(), days: 30 }
    }
}

#[derive(Serialize)]
struct SystemPage {
    workflow: String,
    place: String,
    days: u32,
    ranges: [(u32, &'static str); 4],
    charts: Vec<Chart>,
    changes: Vec<Change>,
    nodes: Vec<SuspectedNode>,
    runs: Vec<SystemRun>,
}

/// Values of one metric by date.
#[derive(Serialize)]
struct Chart {
    name: String,
    unit: String,
    better: &'static str,
    latest: String,
    /// Points of the line, `x,y x,y ...`.
    line: String,
    points: Vec<Point>,
    changes: Vec<(String, String)>,
    most: String,
    least: String,
    from: String,
    to: String,
}

#[derive(Serialize)]
struct Point {
    x: String,
    y: String,
    tone: &'static str,
    run: RunId,
    text: String,
}

#[derive(Serialize)]
struct Change {
    at: String,
    run: RunId,
    what: String,
    #[serde(skip)]
    time: Timestamp,
}

#[derive(Serialize)]
struct SuspectedNode {
    node: String,
    runs: usize,
    last: RunId,
    at: String,
    evidence: String,
}

#[derive(Serialize)]
struct SystemRun {
    shown: NightRun,
    at: String,
    by: String,
    values: Vec<String>,
}

/// `GET /systems/{workflow}`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Path(workflow): Path<String>,
    Query(SystemQuery { place, days }): Query<SystemQuery>,
) -> Result<Response, ErrorPage> {
    let all = dashboard.view.all().await?;
    let now = dashboard.clock.now();
    let first = match days {
        0 => i64::MIN,
        days => now.as_millis().saturating_sub(i64::from(days).saturating_mul(DAY_MS as i64)),
    };
    let of_system: Vec<_> =
        all.iter().filter(|line| line.workflow == workflow && nights::place(line) == place).collect();
    if of_system.is_empty() {
        return Err(ErrorPage::none(format!("No run of {workflow} on this cluster.")));
    }
    // Newest first.
    let in_range = of_system.into_iter().filter(|line| line.requested_at.as_millis() >= first);
    let lines: Vec<Arc<RunSummary>> = in_range.take(RUNS).cloned().collect();
    let read = |line: Arc<RunSummary>| measured(Arc::clone(&dashboard), line);
    let measured: Vec<_> = stream::iter(lines.clone()).map(read).buffered(AT_ONCE).collect().await;
    let runs: Vec<_> = lines.iter().map(|line| &**line).zip(measured).collect();
    let changes = changes(&runs);
    let view = SystemPage {
        charts: charts(&runs, &changes),
        nodes: nodes(&runs),
        runs: runs.iter().map(|(line, measured)| system_run(line, measured)).collect(),
        changes: changes.into_iter().rev().collect(),
        ranges: [(7, "7 days"), (30, "30 days"), (90, "90 days"), (0, "all")],
        days,
        workflow: workflow.clone(),
        place,
    };
    Ok(frame::page(dashboard.beside_gateway, &workflow, "system.html", view))
}

/// Measurements of a run, from memory if it is closed and was read before. Unreadable ones are absent.
async fn measured(dashboard: Arc<Dashboard>, line: Arc<RunSummary>) -> Arc<MeasuredRun> {
    let known = || dashboard.known.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known().get(&line.run) {
        return Arc::clone(known);
    }
    let mut run = MeasuredRun::default();
    if line.verdict.is_some() {
        // A single benchmark is the only check.
        for check in 0..u16::try_from(line.checks.len()).unwrap_or(u16::MAX).max(1) {
            let report =
                dashboard.view.report_of(&line.run, Some(CheckIndex(check)), Elsewhere::default()).await;
            if let Ok(Some(report)) = report {
                run.add(&report, line.checks.get(usize::from(check)).map(|check| check.name.as_str()));
            }
        }
    }
    let run = Arc::new(run);
    let mut known = known();
    if line.state == RunStatus::Closed && known.len() < KEPT {
        known.insert(line.run.clone(), Arc::clone(&run));
    }
    run
}

impl MeasuredRun {
    fn add(&mut self, report: &RunReport, check: Option<&str>) {
        let story = report.story();
        let named = |what: String| check.map_or_else(|| what.clone(), |check| format!("{check}: {what}"));
        for table in story.logs.iter().flat_map(|log| &log.reading.tables) {
            let Some(row) = table.rows.iter().max_by_key(|row| row.size_bytes) else { continue };
            let halves = [row.out_of_place, row.in_place].into_iter().flatten();
            let values: Vec<_> = halves.map(|half| half.busbw).filter(|busbw| *busbw > 0.0).collect();
            if !values.is_empty() {
                let collective = table.collective.as_deref().unwrap_or("bus bandwidth");
                self.values.push(SeriesValue {
                    series: named(format!("{collective} at {}", report::size(row.size_bytes))),
                    unit: "GB/s".to_owned(),
                    better: Better::Higher,
                    value: values.iter().sum::<f64>() / values.len() as f64,
                });
            }
        }
        let judged = report::metrics(&story).metrics.into_iter().filter(|it| it.better != Better::None);
        for metric in judged.take(METRICS) {
            let Some(value) = metric.median else { continue };
            let labels: Vec<_> =
                metric.labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!(", {}", labels.join(", ")) };
            let (unit, better) = (metric.unit, metric.better);
            let series = named(format!("{}{labels}", metric.name));
            self.values.push(SeriesValue { series, unit, better, value });
        }
        for suspect in story.judgement.iter().flat_map(|judgement| &judgement.suspects) {
            if let Some(host) = &suspect.host {
                let gpu = suspect.gpu.map(|gpu| format!("gpu {gpu}: ")).unwrap_or_default();
                let evidence = suspect.evidence.iter().map(|what| format!("{gpu}{what}"));
                self.suspects.entry(host.clone()).or_default().extend(evidence);
            }
        }
    }
}

/// Changes of the setup between consecutive judged runs, oldest first.
fn changes(runs: &[(&RunSummary, Arc<MeasuredRun>)]) -> Vec<Change> {
    let mut judged: Vec<_> =
        runs.iter().map(|(line, _)| *line).filter(|line| line.verdict.is_some()).collect();
    judged.reverse();
    let pairs = judged.iter().zip(judged.iter().skip(1));
    let change = |(before, after): (&&RunSummary, &&RunSummary)| {
        let what = nights::setup_changes(before, after).join("; ");
        let at = moment(after.requested_at);
        (!what.is_empty()).then(|| Change { at, run: after.run.clone(), what, time: after.requested_at })
    };
    pairs.filter_map(change).collect()
}

fn charts(runs: &[(&RunSummary, Arc<MeasuredRun>)], changes: &[Change]) -> Vec<Chart> {
    // Oldest first.
    let mut series: BTreeMap<&str, Vec<(&RunSummary, &SeriesValue)>> = BTreeMap::new();
    for (line, measured) in runs.iter().rev() {
        for value in &measured.values {
            series.entry(&value.series).or_default().push((line, value));
        }
    }
    series.into_iter().take(CHARTS).map(|(name, points)| chart(name, &points, changes)).collect()
}

fn chart(name: &str, values: &[(&RunSummary, &SeriesValue)], changes: &[Change]) -> Chart {
    let time = |line: &RunSummary| line.requested_at.as_millis() as f64;
    let bounds = |all: &mut dyn Iterator<Item = f64>| {
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), it| (least.min(it), most.max(it)))
    };
    let (begin, end) = bounds(&mut values.iter().map(|(line, _)| time(line)));
    let (lowest, highest) = bounds(&mut values.iter().map(|(_, it)| it.value));
    // Noise must not fill the chart.
    let middle = f64::midpoint(lowest, highest);
    let half = (0.6 * (highest - lowest)).max(0.02 * middle.abs()).max(f64::MIN_POSITIVE);
    let x = |at: f64| 8.0 + (WIDTH - 16.0) * if end > begin { (at - begin) / (end - begin) } else { 0.5 };
    let y = |value: f64| HEIGHT * (0.5 - (value - middle) / (2.0 * half));
    let (unit, better) = values.last().map_or(("", Better::None), |(_, it)| (&it.unit, it.better));
    let placed: Vec<_> = values
        .iter()
        .map(|(line, it)| (format!("{:.1}", x(time(line))), format!("{:.1}", y(it.value))))
        .collect();
    let point = |((line, it), (x, y)): (&(&RunSummary, &SeriesValue), &(String, String))| {
        let shown = NightRun::of(line);
        let text = format!("{} UTC: {} {unit}, {}", moment(line.requested_at), number(it.value), shown.word);
        Point { x: x.clone(), y: y.clone(), tone: shown.tone, run: line.run.clone(), text }
    };
    let inside = changes.iter().filter(|change| (begin..=end).contains(&(change.time.as_millis() as f64)));
    Chart {
        name: name.to_owned(),
        unit: unit.to_owned(),
        better: match better {
            Better::Higher => "more is better",
            Better::Lower => "less is better",
            Better::Exact | Better::None => "",
        },
        latest: values.last().map_or_else(String::new, |(_, it)| number(it.value)),
        line: placed.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" "),
        points: values.iter().zip(&placed).map(point).collect(),
        changes: inside
            .map(|it| {
                (format!("{:.1}", x(it.time.as_millis() as f64)), format!("{} UTC: {}", it.at, it.what))
            })
            .collect(),
        most: number(middle + half),
        least: number(middle - half),
        from: values.first().map_or_else(String::new, |(line, _)| nights::date(line.requested_at)),
        to: values.last().map_or_else(String::new, |(line, _)| nights::date(line.requested_at)),
    }
}

/// Suspected nodes, those of most runs first.
fn nodes(runs: &[(&RunSummary, Arc<MeasuredRun>)]) -> Vec<SuspectedNode> {
    let mut nodes: BTreeMap<&str, SuspectedNode> = BTreeMap::new();
    for (line, measured) in runs {
        for (node, evidence) in &measured.suspects {
            // The newest run is first.
            let known = nodes.entry(node).or_insert_with(|| SuspectedNode {
                node: node.clone(),
                runs: 0,
                last: line.run.clone(),
                at: moment(line.requested_at),
                evidence: evidence.join(", "),
            });
            known.runs += 1;
        }
    }
    let mut nodes: Vec<_> = nodes.into_values().collect();
    nodes.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.node.cmp(&b.node)));
    nodes
}

fn system_run(line: &RunSummary, measured: &MeasuredRun) -> SystemRun {
    SystemRun {
        shown: NightRun::of(line),
        at: moment(line.requested_at),
        by: line.trigger.to_string(),
        values: measured
            .values
            .iter()
            .map(|it| format!("{} {}", number(it.value), it.unit))
            .take(4)
            .collect(),
    }
}

/// Four significant digits.
fn number(value: f64) -> String {
    let digits = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    format!("{value:.*}", usize::try_from(4 - digits).unwrap_or(0).min(6))
}
