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
use model::{CheckIndex, RunId};
use report::sizes::Earlier;
use run_index::{Elsewhere, RunFilter};
use serde::{Deserialize, Serialize};

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    nights::date,
};

/// Maximum number of logs listed.
const LOGS: usize = 200;

#[derive(Serialize)]
struct RunPageData {
    run: String,
    open: bool,
    /// Time of the request, of an open run.
    since: Option<String>,
    workflow: String,
    cancellable: bool,
    beside_gateway: bool,
    seq: u64,
    /// Names of the checks, in order of execution; empty for a single benchmark.
    checks: Vec<String>,
    /// The check that the page is about; none for the gravest one.
    check: Option<String>,
    /// The report as HTML, escaped by its own crate.
    report: String,
    logs: Vec<(String, String)>,
    more_logs: usize,
    /// Earlier runs of the same workflow, newest first.
    earlier: Vec<String>,
}

/// Query: name of the check to show; without one, the gravest check is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ShownCheck {
    check: Option<String>,
}

/// `GET /runs/{run}`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Path(run): Path<String>,
    Query(ShownCheck { check: asked }): Query<ShownCheck>,
) -> Result<Response, ErrorPage> {
    let run = named(&run)?;
    let check = match &asked {
        Some(name) => Some(position(&dashboard, &run, name).await?),
        None => None,
    };
    let elsewhere = Elsewhere { warehouse: dashboard.warehouse.clone(), report: None };
    let told = dashboard.view.report_of(&run, check, elsewhere).await?;
    let told = told.ok_or_else(|| ErrorPage::no_run(&run))?;
    let state = &told.state;
    // A damaged manifest must not hide the rest of the page.
    let files = dashboard.view.logs(&run).await.ok().flatten().unwrap_or_default().files;
    let mut logs: Vec<_> =
        files.into_iter().map(|log| (log.file.name, report::size(log.file.size_bytes))).collect();
    let mut curves = dashboard.view.curves(&run).await?;
    if check.is_some_and(|check| check != state.shown_check()) {
        // The curves are those of the gravest check.
        curves.clear();
    }
    let more_logs = logs.len().saturating_sub(LOGS);
    logs.truncate(LOGS);
    let same =
        RunFilter { workflow: Some(state.workflow.name.clone()), limit: Some(200), ..RunFilter::default() };
    let earlier = dashboard.view.page(&same).await?.runs;
    let before = earlier.into_iter().filter(|line| line.requested_at < state.requested_at);
    let at: Vec<_> = curves.iter().map(|curve| date(curve.requested_at)).collect();
    let runs = curves.iter().zip(&at);
    let runs: Vec<_> =
        runs.map(|(curve, at)| Earlier { run: curve.run.as_str(), at, table: &curve.table }).collect();
    let view = RunPageData {
        run: run.to_string(),
        open: state.closed.is_none(),
        since: state.settled.is_none().then(|| state.requested_at.to_string()),
        workflow: state.workflow.name.clone(),
        cancellable: state.settled.is_none() && dashboard.beside_gateway,
        beside_gateway: dashboard.beside_gateway,
        seq: state.seq,
        checks: state.workflow.checks.iter().map(|check| check.name.clone()).collect(),
        check: asked,
        report: report::part(&told.story(), &runs),
        logs,
        more_logs,
        earlier: before
            .filter(|line| line.verdict.is_some())
            .take(20)
            .map(|line| line.run.to_string())
            .collect(),
    };
    Ok(frame::page(dashboard.beside_gateway, run.as_str(), "run.html", view))
}

/// Position of a check by its name.
async fn position(dashboard: &Dashboard, run: &RunId, name: &str) -> Result<CheckIndex, ErrorPage> {
    let state = dashboard.view.folded(run).await?.ok_or_else(|| ErrorPage::no_run(run))?.state;
    let is_named = |check: &CheckIndex| state.workflow.check(*check).is_some_and(|it| it.name == name);
    state.checks().find(is_named).ok_or_else(|| ErrorPage::none(format!("No check {name} in run {run}.")))
}

/// Maximum duration of an event stream, shorter than the timeouts of usual proxies; the browser reconnects.
const LONGEST: Duration = Duration::from_secs(40);

/// Query: the last known record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChangesFrom {
    after: u64,
}

/// `GET /runs/{run}/changes`: an event for each record, and one at the end.
pub async fn changes(
    State(dashboard): State<Arc<Dashboard>>,
    Path(run): Path<String>,
    Query(ChangesFrom { after }): Query<ChangesFrom>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ErrorPage> {
    let run = named(&run)?;
    dashboard.view.folded(&run).await?.ok_or_else(|| ErrorPage::no_run(&run))?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let steps = dashboard.view.follow(run, last.unwrap_or(after));
    let steps = steps.filter_map(async |step| {
        let step = step.inspect_err(|error| tracing::warn!("{}", service::worker::chain(&error))).ok()?;
        Some(Event::default().id(step.seq.to_string()).event("record").data("{}"))
    });
    let end = stream::once(async { Event::default().event("end").data("{}") });
    let events = steps.chain(end).map(Ok::<_, Infallible>).take_until(tokio::time::sleep(LONGEST));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))))
}

/// Parses a run id in a path.
pub fn named(run: &str) -> Result<RunId, ErrorPage> {
    run.parse().map_err(|_| ErrorPage::none("No such run."))
}
