//! Runs: request, list, show, follow, cancel.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, StreamExt, stream};
use model::{
    Attempt, CancelRequested, CheckIndex, EventKey, Fact, Record, RunId, Timestamp, Trigger, Verdict,
};
use run_index::{ListCursor, MAX_PAGE, RunDetail, RunFilter, RunPage, RunStatus as Active};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use service::ids;

use super::{
    extract::{CallerName, Filtered, JsonBody, PathParam, RequestedBy},
    operation::{ParameterLocation, parameter},
    problem::ApiProblem,
};
use crate::{Gateway, StartRequest, start::CALLERS};

/// Maximum duration of a stream, shorter than the timeouts of usual proxies.
const LONGEST_STREAM: Duration = Duration::from_secs(40);

/// Maximum wait of a response for the run to be recorded.
const RECORDED: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum length of a cancel reason, characters.
const LONGEST_REASON: usize = 500;

/// Body of `POST /api/v1/runs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Name of the workflow to run.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9-]{0,30}$"))]
    workflow: String,
    /// Fields to override, if the workflow allows it: `{"limits.job": "10m"}`.
    #[serde(default)]
    set: BTreeMap<String, String>,
}

/// Response to a request for a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StartedRun {
    /// Schema of the document: always `burnin/begun/v1`.
    schema: &'static str,
    /// Id of the new or existing run.
    run: RunId,
    /// False if an earlier request with this key started the run.
    new: bool,
    /// Links to the run's state, events, logs and report.
    links: Links,
}

/// Paths of a run's resources.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Links {
    /// Path of the run's state.
    run: String,
    /// Path of the run's server-sent events.
    events: String,
    /// Path of the run's logs.
    logs: String,
    /// Path of the report page.
    report: String,
}

impl Links {
    fn of(run: &RunId) -> Self {
        let at = format!("/api/v1/runs/{run}");
        Self {
            events: format!("{at}/events"),
            logs: format!("{at}/logs"),
            report: format!("{at}/report"),
            run: at,
        }
    }
}

/// A run with its stages and links.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunResource {
    #[serde(flatten)]
    detail: RunDetail,
    /// Links to the run's state, events, logs and report.
    links: Links,
}

/// The records in the ledger of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunRecords {
    /// Schema of the document: always `burnin/records/v1`.
    schema: &'static str,
    /// All records, oldest first.
    records: Vec<Record>,
}

/// Body of `POST /api/v1/runs/{run}/cancel`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// Reason, recorded in the ledger.
    #[schemars(length(max = LONGEST_REASON))]
    reason: String,
}

/// Query of `GET /api/v1/runs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunQuery {
    workflow: Option<String>,
    system: Option<String>,
    cluster: Option<String>,
    state: Option<Active>,
    conclusion: Option<String>,
    verdict: Option<Verdict>,
    since: Option<Timestamp>,
    after: Option<String>,
    limit: Option<usize>,
}

/// Description of the list's parameters.
pub fn filters() -> Vec<Value> {
    let text = || json!({"type": "string"});
    let one_of = |words: &[&str]| json!({"type": "string", "enum": words});
    let parameter =
        |name, schema, description| parameter(ParameterLocation::Query, name, schema, description);
    vec![
        parameter("workflow", text(), "Workflow name."),
        parameter("system", text(), "Kind of cluster: processes, slurm, deployed."),
        parameter("cluster", text(), "Cluster name."),
        parameter("state", one_of(&["open", "closed"]), "Whether the run is open or closed."),
        parameter("conclusion", text(), "Conclusion: completed, failed, timed_out, cancelled or yielded."),
        parameter("verdict", one_of(&["pass", "fail", "inconclusive"]), "Verdict of the run."),
        parameter("since", json!({"type": "string", "format": "date-time"}), "Earliest time of the request."),
        parameter(
            "after",
            json!({"type": "string", "pattern": ListCursor::PATTERN}),
            "`next` of the previous page.",
        ),
        parameter(
            "limit",
            json!({"type": "integer", "minimum": 1, "maximum": MAX_PAGE}),
            "Runs per page, default 50.",
        ),
    ]
}

pub async fn list(
    State(gateway): State<Arc<Gateway>>,
    Filtered(filters): Filtered<RunQuery>,
) -> Result<Json<RunPage>, ApiProblem> {
    let bad = |field: &str, why: String| ApiProblem::new(StatusCode::BAD_REQUEST, format!("{field}: {why}"));
    if let Some(limit) = filters.limit.filter(|limit| !(1..=MAX_PAGE).contains(limit)) {
        return Err(bad("limit", format!("expected 1 to {MAX_PAGE}, found {limit}")));
    }
    let after = filters.after.map(|after| after.parse::<ListCursor>()).transpose();
    let wanted = RunFilter {
        workflow: filters.workflow,
        system: filters.system,
        cluster: filters.cluster,
        state: filters.state,
        conclusion: filters.conclusion,
        verdict: filters.verdict,
        since: filters.since,
        after: after.map_err(|why| bad("after", why.to_owned()))?,
        limit: filters.limit,
    };
    Ok(Json(gateway.run_index.page(&wanted).await?))
}

pub async fn begin(
    State(gateway): State<Arc<Gateway>>,
    CallerName(by): CallerName,
    RequestedBy(owner): RequestedBy,
    headers: HeaderMap,
    JsonBody(begin): JsonBody<Begin>,
) -> Result<Response, ApiProblem> {
    let key =
        match headers.get("idempotency-key").map(|key| key.to_str().ok().filter(|key| is_valid_key(key))) {
            None => ids::unique(),
            Some(Some(key)) => format!("key/{key}"),
            Some(None) => {
                let why = "Idempotency-Key: expected 1 to 200 of the characters a-z A-Z 0-9 _ . : -";
                return Err(ApiProblem::new(StatusCode::BAD_REQUEST, why));
            }
        };
    let request = StartRequest {
        key: EventKey { source: format!("{CALLERS}{owner}"), id: key },
        workflow: begin.workflow,
        set: begin.set,
        image: None,
        cluster: None,
        trigger: Trigger { kind: "manual".to_owned(), by },
        origin: None,
    };
    let started = gateway.starter.start(&request).await?;
    // Wait until the run is recorded, because callers read it next. If the conductor is slow, callers must retry.
    let until = Instant::now() + RECORDED;
    while Instant::now() < until && gateway.run_index.folded(&started.run).await?.is_none() {
        tokio::time::sleep(PAUSE).await;
    }
    let links = Links::of(&started.run);
    let location = [(LOCATION, links.run.clone())];
    let begun = StartedRun { schema: "burnin/begun/v1", run: started.run, new: started.new, links };
    Ok((StatusCode::ACCEPTED, location, Json(begun)).into_response())
}

fn is_valid_key(key: &str) -> bool {
    (1..=200).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}

impl Gateway {
    /// Position of a check of a run.
    pub(super) async fn check_named(&self, run: &RunId, name: &str) -> Result<CheckIndex, ApiProblem> {
        let folded = self.run_index.folded(run).await?.ok_or_else(|| ApiProblem::no_run(run.as_str()))?;
        let no_check = || {
            ApiProblem::new(
                StatusCode::NOT_FOUND,
                format!("{run} has no check {name}; GET /api/v1/runs/{run} lists them"),
            )
        };
        folded.state.check_named(name).ok_or_else(no_check)
    }
}

async fn run_resource(gateway: &Gateway, run: &RunId) -> Result<RunResource, ApiProblem> {
    let detail = gateway.run_index.detail(run).await?.ok_or_else(|| ApiProblem::no_run(run.as_str()))?;
    Ok(RunResource { detail, links: Links::of(run) })
}

/// Query of `GET /api/v1/runs/{run}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShowQuery {
    check: Option<String>,
    metrics: bool,
}

pub async fn show(
    State(gateway): State<Arc<Gateway>>,
    PathParam(run): PathParam,
    Filtered(ShowQuery { check, metrics }): Filtered<ShowQuery>,
) -> Result<Json<RunResource>, ApiProblem> {
    if !metrics && check.is_none() {
        return run_resource(&gateway, &run).await.map(Json);
    }
    let check = match check {
        Some(name) => Some(gateway.check_named(&run, &name).await?),
        None => None,
    };
    let detail = gateway.run_index.detail_of(&run, check).await?;
    let detail = detail.ok_or_else(|| ApiProblem::no_run(run.as_str()))?;
    Ok(Json(RunResource { detail, links: Links::of(&run) }))
}

pub async fn records(
    State(gateway): State<Arc<Gateway>>,
    PathParam(run): PathParam,
) -> Result<Json<RunRecords>, ApiProblem> {
    let folded = gateway.run_index.folded(&run).await?.ok_or_else(|| ApiProblem::no_run(run.as_str()))?;
    Ok(Json(RunRecords { schema: "burnin/records/v1", records: folded.records }))
}

pub async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    CallerName(by): CallerName,
    PathParam(run): PathParam,
    JsonBody(Cancel { reason }): JsonBody<Cancel>,
) -> Result<(StatusCode, Json<RunResource>), ApiProblem> {
    if reason.chars().count() > LONGEST_REASON {
        let why =
            format!("reason: expected at most {LONGEST_REASON} characters, found {}", reason.chars().count());
        return Err(ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, why));
    }
    let shown = run_resource(&gateway, &run).await?;
    if shown.detail.summary.settled_at.is_none() {
        let fact = Fact::CancelRequested(CancelRequested { by, reason });
        let published = gateway.publisher.publish_run_fact(run, Attempt::FIRST, fact).await;
        published.map_err(|error| ApiProblem::unavailable(&error))?;
    }
    Ok((StatusCode::ACCEPTED, Json(shown)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FollowFrom {
    after: Option<u64>,
}

pub async fn follow(
    State(gateway): State<Arc<Gateway>>,
    PathParam(run): PathParam,
    Filtered(FollowFrom { after }): Filtered<FollowFrom>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiProblem> {
    run_resource(&gateway, &run).await?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let steps = gateway.run_index.follow(run, last.or(after).unwrap_or(0));
    let steps = steps.filter_map(async |step| {
        let step = step.inspect_err(|error| tracing::warn!("{}", service::worker::chain(error))).ok()?;
        Event::default().id(step.seq.to_string()).event("record").json_data(&step).ok()
    });
    let end = stream::once(async { Event::default().event("end").data("{}") });
    let events = steps.chain(end).map(Ok).take_until(tokio::time::sleep(LONGEST_STREAM));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))))
}
