//! The overview page: systems by night, open runs and the newest runs.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Query, State},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, StreamExt, stream};
use model::{Span, Timestamp, Verdict};
use run_index::{KnownValues, ListCursor, RunFilter, RunSummary};
use serde::{Deserialize, Serialize};

use crate::{
    Dashboard, WorkflowPlan,
    frame::{self, ErrorPage},
    nights::{self, NightRun, SystemRow},
    numbers::ShownValue,
    times::DisplayTime,
};

/// Runs per page.
const RUNS: usize = 30;
/// Maximum number of open runs.
const OPEN: usize = 50;
/// Maximum wait for values that are not read yet; the page is updated once they are.
pub const TIMEOUT: Span = Span::from_millis(300);
/// Poll interval for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum duration of an event stream; the browser reconnects.
const LONGEST: Duration = Duration::from_secs(300);

/// Filters of the list, from the query.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct OverviewQuery {
    q: String,
    workflow: String,
    verdict: String,
    state: String,
    after: String,
}

impl OverviewQuery {
    fn wanted(&self) -> Result<RunFilter, ErrorPage> {
        let word = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let verdict = match self.verdict.as_str() {
            "" => None,
            "pass" => Some(Verdict::Pass),
            "fail" => Some(Verdict::Fail),
            "inconclusive" => Some(Verdict::Inconclusive),
            other => return Err(unexpected("verdict: expected pass, fail or inconclusive", other)),
        };
        let state = match self.state.as_str() {
            "" => None,
            "open" => Some(run_index::RunStatus::Open),
            "closed" => Some(run_index::RunStatus::Closed),
            other => return Err(unexpected("state: expected open or closed", other)),
        };
        let after = word(&self.after).map(|after| after.parse::<ListCursor>()).transpose();
        let after = after.map_err(|why| ErrorPage::bad_request(format!("after: {why}.")))?;
        Ok(RunFilter {
            workflow: word(&self.workflow),
            verdict,
            state,
            after,
            limit: Some(RUNS),
            ..RunFilter::default()
        })
    }

    fn is_none(&self) -> bool {
        [&self.q, &self.workflow, &self.verdict, &self.state, &self.after]
            .iter()
            .all(|field| field.is_empty())
    }
}

/// Error page for a query parameter with an unknown value.
fn unexpected(expected: &str, found: &str) -> ErrorPage {
    ErrorPage::bad_request(format!("{expected}, found `{}`.", report::shortened(found, 40)))
}

#[derive(Serialize)]
struct OverviewPage<'a> {
    dates: Vec<String>,
    rows: Vec<SystemRow>,
    open: Vec<ListedRun>,
    runs: Vec<ListedRun>,
    next: Option<String>,
    filters: &'a OverviewQuery,
    filtered: bool,
    workflows: BTreeSet<&'a str>,
    plans: Vec<(String, String)>,
    problem: Option<String>,
    warnings: Vec<String>,
    files: Vec<WorkflowProblems>,
    /// Runs whose values are still being read.
    pending: usize,
    /// Whether no run exists.
    empty: bool,
    beside_gateway: bool,
}

/// A workflow file with errors.
#[derive(Serialize)]
struct WorkflowProblems {
    workflow: String,
    broken: bool,
    problems: Vec<String>,
}

impl WorkflowProblems {
    fn of(plan: &WorkflowPlan) -> Self {
        Self { workflow: plan.workflow.clone(), broken: plan.broken, problems: plan.problems.clone() }
    }
}

#[derive(Serialize)]
pub struct ListedRun {
    pub shown: NightRun,
    workflow: String,
    place: String,
    /// Person or system that started the run.
    by: String,
    /// The run's trigger, as text.
    cause: String,
    requested: DisplayTime,
    took: Option<String>,
    stage: Option<String>,
    value: Option<ShownValue>,
    /// Whether the run has a verdict and can be compared.
    judged: bool,
}

impl ListedRun {
    pub fn of(summary: &RunSummary, values: &KnownValues, now: Timestamp) -> Self {
        let end = summary.closed_at.or(summary.settled_at);
        let by = match (summary.trigger.kind.as_str(), summary.trigger.by.as_str()) {
            ("manual", model::UNNAMED) => "manual".to_owned(),
            ("manual", by) => by.to_owned(),
            (kind, _) => kind.to_owned(),
        };
        Self {
            shown: NightRun::of(summary),
            workflow: summary.workflow.clone(),
            place: nights::shown_cluster(summary).to_owned(),
            by,
            cause: summary.trigger.to_string(),
            requested: DisplayTime::of(summary.requested_at, now),
            took: end.map(|end| report::duration(end.since(summary.requested_at))),
            stage: summary.stage.map(|stage| stage.to_string()),
            value: ShownValue::of(values.of(&summary.run)),
            judged: summary.verdict.is_some(),
        }
    }
}

/// Handler of `GET /`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Query(filters): Query<OverviewQuery>,
) -> Result<Response, ErrorPage> {
    let wanted = filters.wanted()?;
    let page = match filters.q.trim() {
        "" => dashboard.run_index.page(&wanted).await?,
        text => dashboard.run_index.search(&wanted, text).await?,
    };
    let all = dashboard.run_index.all().await?;
    let (plans, problem) = match dashboard.plans.plans().await {
        Ok(plans) => (plans, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let warnings = dashboard.plans.warnings().await;
    let now = dashboard.clock.now();
    let valued = nights::valued(&all, now).into_iter().chain(&page.runs);
    let values = dashboard.run_index.values(valued, TIMEOUT).await;
    // Look up each name before inserting it: `collect` would sort one name for each run.
    let mut workflows = BTreeSet::new();
    for summary in &all {
        if !workflows.contains(summary.workflow.as_str()) {
            workflows.insert(summary.workflow.as_str());
        }
    }
    let open = all.iter().filter(|summary| summary.state == run_index::RunStatus::Open).take(OPEN);
    let data = OverviewPage {
        dates: nights::dates(now),
        rows: nights::rows(&all, &values, &plans, now),
        open: open.map(|summary| ListedRun::of(summary, &values, now)).collect(),
        runs: page.runs.iter().map(|summary| ListedRun::of(summary, &values, now)).collect(),
        next: page.next.map(|next| next.to_string()),
        filtered: !filters.is_none(),
        filters: &filters,
        workflows,
        files: plans.iter().filter(|plan| !plan.problems.is_empty()).map(WorkflowProblems::of).collect(),
        plans: plans
            .into_iter()
            .filter(|plan| !plan.broken)
            .map(|WorkflowPlan { workflow, description, .. }| (workflow, description))
            .collect(),
        problem,
        warnings,
        pending: values.pending,
        empty: all.is_empty(),
        beside_gateway: dashboard.beside_gateway,
    };
    Ok(frame::page(dashboard.beside_gateway, "Burnin", "overview.html", data))
}

/// `GET /changes`: an event when a run started, advanced or ended, or the errors of workflow files changed.
pub async fn changes(State(dashboard): State<Arc<Dashboard>>) -> impl IntoResponse {
    Sse::new(stream(dashboard).take_until(tokio::time::sleep(LONGEST)))
        .keep_alive(KeepAlive::new().interval(Duration::from_secs(10)))
}

fn stream(dashboard: Arc<Dashboard>) -> impl Stream<Item = Result<Event, Infallible>> {
    let wanted = RunFilter { limit: Some(RUNS), ..RunFilter::default() };
    let polls = stream::unfold((dashboard, wanted, None), async |(dashboard, wanted, known)| {
        loop {
            // An unavailable store reports no change.
            if let Ok(page) = dashboard.run_index.page(&wanted).await {
                let shown = (page.runs, dashboard.plans.problems().await, dashboard.plans.warnings().await);
                if known.as_ref() != Some(&shown) {
                    let first = known.is_none();
                    return Some((first, (dashboard, wanted, Some(shown))));
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    });
    let news = polls.filter(|first| futures::future::ready(!first));
    news.map(|_| Ok(Event::default().event("changed").data("{}")))
}
