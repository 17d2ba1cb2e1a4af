//! The page `/compare`: metrics and curves of two runs.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    response::Response,
};
use model::{CheckIndex, RunId, Timestamp, measurement::Table, metric::Better};
use report::{
    comparison::{self, RunPair},
    trend::number,
};
use run_index::{ExternalAddresses, RunFilter, RunSummary, RunValues};
use serde::Serialize;
use verdict::{compare::compare, fingerprint::Fingerprint};

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    numbers::CheckMetric,
    overview::TIMEOUT,
    run::parse_run,
    times::{DisplayTime, date},
};

/// Maximum number of runs to choose from.
const RUNS: usize = 50;
/// Minimum relative change that is reported as better or worse.
const NOISE: f64 = 0.02;

#[derive(Serialize)]
struct ComparePage {
    a: String,
    b: String,
    /// Runs to choose from, newest first: id and description.
    runs: Vec<(String, String)>,
    /// Times of both runs.
    at: Option<(DisplayTime, DisplayTime)>,
    /// The metrics that both runs have.
    metrics: Vec<MetricChange>,
    /// The comparison of the curves as HTML, escaped by the report crate.
    report: Option<String>,
    /// Check of the curves, if the runs have several checks.
    check: Option<String>,
    problem: Option<String>,
}

/// A metric of both runs.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct MetricChange {
    #[serde(skip)]
    key: CheckMetric,
    name: String,
    a: String,
    b: String,
    /// Relative change as text, such as `+4.2 %, better`.
    change: String,
    tone: &'static str,
}

/// The selected runs: `run` twice, or `a` and `b`.
fn selected(query: Vec<(String, String)>) -> Result<Vec<String>, ErrorPage> {
    let runs =
        query.into_iter().filter(|(name, run)| ["run", "a", "b"].contains(&name.as_str()) && !run.is_empty());
    let runs: Vec<_> = runs.map(|(_, run)| run).collect();
    if runs.len() > 2 {
        return Err(ErrorPage::bad_request(format!(
            "Select two runs to compare; {} are selected.",
            runs.len()
        )));
    }
    Ok(runs)
}

/// Handler of `GET /compare`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, ErrorPage> {
    let by_name = query.iter().any(|(name, _)| name == "a" || name == "b");
    let mut chosen = selected(query)?;
    let wanted = RunFilter { limit: Some(200), ..RunFilter::default() };
    let runs = dashboard.run_index.page(&wanted).await?.runs;
    let judged: Vec<_> = runs.iter().filter(|summary| summary.verdict.is_some()).take(RUNS).collect();
    let mut data = ComparePage {
        a: String::new(),
        b: String::new(),
        runs: judged.iter().map(|summary| (summary.run.to_string(), label(summary))).collect(),
        at: None,
        metrics: Vec::new(),
        report: None,
        check: None,
        problem: None,
    };
    if chosen.len() == 2 {
        let mut summaries = [summary(&dashboard, &chosen[0]).await?, summary(&dashboard, &chosen[1]).await?];
        // A is the earlier of the two selected runs.
        if !by_name && summaries[0].requested_at > summaries[1].requested_at {
            summaries.swap(0, 1);
            chosen.swap(0, 1);
        }
        let now = dashboard.clock.now();
        let time = |at: Timestamp| DisplayTime::of(at, now);
        data.at = Some((time(summaries[0].requested_at), time(summaries[1].requested_at)));
        let values = dashboard.run_index.values(&summaries, TIMEOUT).await;
        if let (Some(a), Some(b)) = (values.of(&summaries[0].run), values.of(&summaries[1].run)) {
            data.metrics = changes(a, b);
        }
        let [a, b] = [&summaries[0].run, &summaries[1].run];
        match curves(&dashboard, a, b).await? {
            Ok((check, first, second)) => {
                let found = compare((&first.0, &first.1), (&second.0, &second.1));
                let part = comparison::part(RunPair { a: a.as_str(), b: b.as_str(), found: &found });
                // Omit the title of the comparison, because this page already has one.
                let body = part.split_once("</header>").map(|(_, body)| body.to_owned());
                data.report = Some(body.unwrap_or(part));
                // Omit the plateau metrics: the comparison of the curves states the plateau over the sizes that both runs measured.
                let is_plateau = |key: &CheckMetric| key.check == check && key.name.ends_with(" plateau");
                data.metrics.retain(|metric| !is_plateau(&metric.key));
                data.check = check;
            }
            Err(_) if !data.metrics.is_empty() => {}
            Err(why) => data.problem = Some(why),
        }
    } else if let [only] = &chosen[..] {
        // With one selected run the page has a form to select the other run; check that the selected run exists.
        parse_run(only)?;
    }
    let mut chosen = chosen.into_iter();
    data.a = chosen.next().unwrap_or_default();
    data.b = chosen.next().unwrap_or_default();
    Ok(frame::page(dashboard.beside_gateway, "Two runs", "compare.html", data))
}

fn label(summary: &RunSummary) -> String {
    let verdict = summary.verdict.map_or_else(String::new, |verdict| format!(", {verdict}"));
    format!("{} {}{verdict}", date(summary.requested_at), summary.run)
}

async fn summary(dashboard: &Dashboard, run: &str) -> Result<RunSummary, ErrorPage> {
    let run: RunId = parse_run(run)?;
    let folded = dashboard.run_index.folded(&run).await?.ok_or_else(|| ErrorPage::no_run(&run))?;
    Ok(RunSummary::of(&folded.state))
}

/// The metrics that both runs have, in the order of the first run.
fn changes(a: &RunValues, b: &RunValues) -> Vec<MetricChange> {
    let all = a.checks.iter().flat_map(|check| check.values.metrics.iter().map(move |it| (check, it)));
    let change = |(check, before): (&run_index::CheckValues, &report::MetricValue)| {
        let key = CheckMetric::of((check, before));
        let (_, after) = key.find(b)?;
        let change = after.value / before.value - 1.0;
        let better = match before.better {
            Better::Higher => change > 0.0,
            Better::Lower => change < 0.0,
            Better::Exact | Better::None => false,
        };
        let judged = matches!(before.better, Better::Higher | Better::Lower);
        let (word, tone) = match (judged && change.abs() >= NOISE, better) {
            (false, _) => ("", ""),
            (true, true) => (if key.unit.ends_with("/s") { ", faster" } else { ", better" }, "good"),
            (true, false) => (if key.unit.ends_with("/s") { ", slower" } else { ", worse" }, "bad"),
        };
        let percent =
            if change.is_finite() { format!("{:+.1} %", 100.0 * change + 0.0) } else { String::new() };
        Some(MetricChange {
            name: key.title(),
            key,
            a: number(before.value),
            b: number(after.value),
            change: format!("{percent}{word}"),
            tone,
        })
    };
    all.filter_map(change).collect()
}

type Curve = (Table, Fingerprint);

/// The first check with exactly one table in both runs: its name, and both tables.
async fn curves(
    dashboard: &Dashboard,
    a: &RunId,
    b: &RunId,
) -> Result<Result<(Option<String>, Curve, Curve), String>, ErrorPage> {
    let (first, second) = (measured(dashboard, a).await?, measured(dashboard, b).await?);
    for (run, found) in [(a, &first), (b, &second)] {
        if found.is_empty() {
            let why = "expected the measurements of one benchmark, found none or those of several; select a run with one benchmark";
            return Ok(Err(format!("{run}: {why}")));
        }
    }
    for (check, curve) in first {
        if let Some((_, other)) = second.iter().find(|(other, _)| *other == check) {
            return Ok(Ok((check, curve, other.clone())));
        }
    }
    Ok(Err("the runs have no common check of nccl-tests; select two runs of one workflow".to_owned()))
}

/// The checks with exactly one table, by name.
async fn measured(dashboard: &Dashboard, run: &RunId) -> Result<Vec<(Option<String>, Curve)>, ErrorPage> {
    let state = dashboard.run_index.folded(run).await?.ok_or_else(|| ErrorPage::no_run(run))?.state;
    let mut checks: Vec<_> = state.summarized_checks().collect();
    if checks.is_empty() {
        checks.push(CheckIndex::FIRST);
    }
    let mut found = Vec::new();
    for check in checks {
        let report = dashboard.run_index.report_of(run, Some(check), ExternalAddresses::default()).await?;
        let Some(report) = report else { continue };
        let input = report.input();
        let tables = input.logs.first().map_or(&[][..], |log| &log.reading.tables[..]);
        let [table] = tables else { continue };
        let reached = state.verdict_of(check);
        let fingerprint = reached.map(|reached| reached.fingerprint.clone()).unwrap_or_default();
        let name = state.workflow.check(check).map(|check| check.name.clone());
        found.push((name, (table.clone(), Fingerprint(fingerprint))));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use report::{MetricValue, Values};
    use run_index::CheckValues;

    use super::*;

    fn values(bandwidth: f64, latency: f64) -> RunValues {
        let metric = |name: &str, unit: &str, better, value| MetricValue {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            value,
        };
        let metrics = vec![
            metric("all_reduce plateau", "GB/s", Better::Higher, bandwidth),
            metric("ping", "us", Better::Lower, latency),
        ];
        let check = CheckValues {
            check: None,
            verdict: model::Verdict::Pass,
            reasons: Vec::new(),
            setup: Default::default(),
            values: Values { metrics, ..Values::default() },
        };
        RunValues { checks: vec![check] }
    }

    #[test]
    fn a_change_has_its_size_and_is_marked_faster_or_worse() {
        let [bandwidth, latency] = &changes(&values(350.0, 10.0), &values(371.0, 11.0))[..] else { panic!() };
        assert_eq!((bandwidth.a.as_str(), bandwidth.b.as_str()), ("350", "371"));
        assert_eq!((bandwidth.change.as_str(), bandwidth.tone), ("+6.0 %, faster", "good"));
        assert_eq!((latency.change.as_str(), latency.tone), ("+10.0 %, worse", "bad"));
        let same = changes(&values(350.0, 10.0), &values(351.0, 10.0));
        assert_eq!((same[0].change.as_str(), same[0].tone), ("+0.3 %", ""));
    }
}
