//! The page of a run, live while the run is open.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Path, Query, State},
    http::HeaderMap,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt, stream};
use model::{CheckIndex, RunId, Verdict};
use pins::Pins;
use report::sizes::Earlier;
use run_index::{ExternalAddresses, RunFilter, RunSummary};
use serde::{Deserialize, Serialize};

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    nights,
    numbers::{CheckMetric, described, main_of},
    overview::TIMEOUT,
    times::{DisplayTime, clock, date},
};

/// Maximum number of logs listed.
const LOGS: usize = 200;

#[derive(Serialize)]
struct RunPageData {
    run: String,
    workflow: String,
    /// Cluster, named as on the overview page.
    place: String,
    open: bool,
    cancellable: bool,
    /// Whether the workflow can be started again.
    retriable: bool,
    /// Whether the run can be pinned as the reference of the workflow's later runs.
    pinnable: bool,
    /// Whether the run is the pinned reference.
    pinned: bool,
    beside_gateway: bool,
    seq: u64,
    /// The current step, while the run is open.
    step: Option<String>,
    requested: DisplayTime,
    /// Time since the request, until the result is final.
    elapsed: String,
    /// Time at which the result became final.
    settled: Option<DisplayTime>,
    /// Whether the output of a running job is shown.
    tail: bool,
    /// Values of all checks, as text.
    values: String,
    /// Names of the checks, in order of execution; empty for a single benchmark.
    checks: Vec<String>,
    /// The selected check; `None`: the most severe one.
    check: Option<String>,
    /// Title of the report as HTML, escaped by the crate `report`.
    head: String,
    /// The rest of the report as HTML, escaped by the crate `report`.
    report: String,
    logs: Vec<(String, String)>,
    more_logs: usize,
    /// Earlier runs of the same workflow, newest first, each with its date and value.
    earlier: Vec<(String, String)>,
}

/// Query: name of the check to show; default: the most severe check.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ShownCheck {
    check: Option<String>,
}

/// Handler of `GET /runs/{run}`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Path(run): Path<String>,
    Query(ShownCheck { check: selected_check }): Query<ShownCheck>,
) -> Result<Response, ErrorPage> {
    let run = parse_run(&run)?;
    let check = match &selected_check {
        Some(name) => Some(position(&dashboard, &run, name).await?),
        None => None,
    };
    let addresses = ExternalAddresses { warehouse: dashboard.warehouse.clone(), report: None };
    let report = dashboard.run_index.report_of(&run, check, addresses).await?;
    let report = report.ok_or_else(|| ErrorPage::no_run(&run))?;
    let state = &report.state;
    // A damaged manifest must not hide the rest of the page.
    let files = dashboard.run_index.logs(&run).await.ok().flatten().unwrap_or_default().files;
    let mut logs: Vec<_> =
        files.into_iter().map(|log| (log.file.name, report::size(log.file.size_bytes))).collect();
    let mut curves = dashboard.run_index.curves(&run).await?;
    if check.is_some_and(|check| check != state.shown_check()) {
        // The curves belong to the most severe check.
        curves.clear();
    }
    let more_logs = logs.len().saturating_sub(LOGS);
    logs.truncate(LOGS);
    let same =
        RunFilter { workflow: Some(state.workflow.name.clone()), limit: Some(200), ..RunFilter::default() };
    let earlier = dashboard.run_index.page(&same).await?.runs;
    let before = earlier.iter().filter(|summary| summary.requested_at < state.requested_at);
    let before: Vec<_> = before.filter(|summary| summary.verdict.is_some()).take(20).collect();
    let own =
        earlier.iter().find(|summary| summary.run == run).cloned().unwrap_or_else(|| RunSummary::of(state));
    let values = dashboard.run_index.values(before.iter().copied().chain([&own]), TIMEOUT).await;
    let own_values = values.of(&run);
    // Compare with earlier values of the check that is shown.
    let key = own_values.and_then(|own| {
        let shown = state.workflow.check(check.unwrap_or_else(|| state.shown_check()));
        let shown = own.checks.iter().find(|it| it.check.as_deref() == shown.map(|it| it.name.as_str()));
        let shown = shown.or(own.checks.first())?;
        Some(CheckMetric::of((shown, main_of(shown)?)))
    });
    let earlier = before.iter().map(|summary| {
        let number = values.of(&summary.run).zip(key.as_ref()).and_then(|(values, key)| key.number(values));
        let value = number
            .zip(key.as_ref())
            .map_or_else(String::new, |(number, key)| format!(", {number} {}", key.unit));
        (summary.run.to_string(), format!("{}{value}", date(summary.requested_at)))
    });
    let now = dashboard.clock.now();
    let plans = dashboard.plans.plans().await.unwrap_or_default();
    let name = &state.workflow.name;
    let retriable =
        dashboard.beside_gateway && plans.iter().any(|plan| plan.workflow == *name && !plan.broken);
    let pinned = dashboard.beside_gateway && is_pinned(&dashboard, name, &run).await;
    // Only a run of a single benchmark can be pinned: the reference is one curve.
    let is_reference = state.workflow.checks.is_empty() && own.verdict == Some(Verdict::Pass);
    let at: Vec<_> = curves.iter().map(|curve| date(curve.requested_at)).collect();
    let runs = curves.iter().zip(&at);
    let runs: Vec<_> =
        runs.map(|(curve, at)| Earlier { run: curve.run.as_str(), at, table: &curve.table }).collect();
    let page = report::part(&report.input(), &runs);
    // The controls are between the title and the rest.
    let (head, body) = match page.split_once("</header>") {
        Some((head, body)) => (format!("{head}</header>"), body.to_owned()),
        None => (String::new(), page),
    };
    let until = state.settled.as_ref().map_or(now, |(_, at)| *at);
    let step = state.current_step().map(|step| match state.workflow.check(step.check) {
        Some(check) if step.stage.is_of_check() => format!("{} of {}", step.stage, check.name),
        _ => step.stage.to_string(),
    });
    let data = RunPageData {
        run: run.to_string(),
        workflow: name.clone(),
        place: nights::shown_cluster(&own).to_owned(),
        retriable,
        pinnable: dashboard.beside_gateway && state.closed.is_some() && is_reference && !pinned,
        pinned,
        step,
        requested: DisplayTime::of(state.requested_at, now),
        elapsed: clock(until.since(state.requested_at)),
        settled: state.settled.as_ref().map(|(_, at)| DisplayTime::of(*at, now)),
        tail: state.settled.is_none() && dashboard.output.is_some(),
        values: own_values.filter(|_| selected_check.is_none()).map(described).unwrap_or_default(),
        open: state.closed.is_none(),
        cancellable: state.settled.is_none() && dashboard.beside_gateway,
        beside_gateway: dashboard.beside_gateway,
        seq: state.seq,
        checks: state.workflow.checks.iter().map(|check| check.name.clone()).collect(),
        check: selected_check,
        head,
        report: body,
        logs,
        more_logs,
        earlier: earlier.collect(),
    };
    Ok(frame::page(dashboard.beside_gateway, run.as_str(), "run.html", data))
}

/// Whether the run is the pinned reference of the workflow. An unreadable pin hides only the form.
async fn is_pinned(dashboard: &Dashboard, workflow: &str, run: &RunId) -> bool {
    let pins = Pins::new(Arc::clone(&dashboard.store));
    match pins.active_pin(workflow).await {
        Ok(pin) => pin.is_some_and(|pin| pin.pin.run == *run),
        Err(error) => {
            tracing::warn!(workflow, "the pin cannot be read: {error}");
            false
        }
    }
}

async fn position(dashboard: &Dashboard, run: &RunId, name: &str) -> Result<CheckIndex, ErrorPage> {
    let state = dashboard.run_index.folded(run).await?.ok_or_else(|| ErrorPage::no_run(run))?.state;
    state.check_named(name).ok_or_else(|| {
        ErrorPage::not_found(format!("Run {run} has no check {name}. The page of the run lists its checks."))
    })
}

/// Maximum duration of an event stream, shorter than the timeouts of usual proxies; the browser reconnects.
const LONGEST: Duration = Duration::from_secs(40);

/// Query parameter: number of the client's last known record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChangesFrom {
    after: u64,
}

/// `GET /runs/{run}/changes`: an event `record` for each record, and an event `end` after the last one.
pub async fn changes(
    State(dashboard): State<Arc<Dashboard>>,
    Path(run): Path<String>,
    Query(ChangesFrom { after }): Query<ChangesFrom>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ErrorPage> {
    let run = parse_run(&run)?;
    dashboard.run_index.folded(&run).await?.ok_or_else(|| ErrorPage::no_run(&run))?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let steps = dashboard.run_index.follow(run, last.unwrap_or(after));
    let steps = steps.filter_map(async |step| {
        let step = step.inspect_err(|error| tracing::warn!("{}", service::worker::chain(&error))).ok()?;
        Some(Event::default().id(step.seq.to_string()).event("record").data("{}"))
    });
    let end = stream::once(async { Event::default().event("end").data("{}") });
    let events = steps.chain(end).map(Ok::<_, Infallible>).take_until(tokio::time::sleep(LONGEST));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))))
}

/// Parses a run id in a path.
pub fn parse_run(run: &str) -> Result<RunId, ErrorPage> {
    run.parse().map_err(|_| ErrorPage::not_found(format!("`{run}` is not a run id; / lists the runs.")))
}
