//! HTTP server of a service.
//!
//! | route | effect |
//! |---|---|
//! | `POST /` | receives one event, see [`crate::push`]; a service may have further paths, each for its own publishers |
//! | `POST /chores/{name}` | runs a periodic task; called by a scheduler |
//! | `GET /healthz` | 200 while the process serves, without authentication |
//! | `GET /about` | name, version and revision of the service, and the event types it handles |

use std::{io, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::StatusCode,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use crate::connections::ConnectionLimits;
use crate::{
    DeadLetters, Handler,
    auth::{Authenticator, Denied},
    connections,
    push::{EventReceiver, receive},
    telemetry::Telemetry,
};

/// Grace period for requests in progress after a stop signal. Cloud Run kills the process after ten seconds.
pub const DRAIN: Duration = Duration::from_secs(5);

/// Maximum wait of a response for the export of spans and metrics.
const FLUSH: Duration = Duration::from_secs(2);

/// A periodic task without an event: waking runs, sweeping.
#[async_trait::async_trait]
pub trait PeriodicTask: Send + Sync + 'static {
    /// Name of the task, and last part of its path `/chores/{name}`.
    fn name(&self) -> &'static str;

    /// Runs the task once.
    ///
    /// # Errors
    /// Returns an error if the task is incomplete. The scheduler calls it again.
    async fn run(&self) -> Result<(), String>;
}

pub struct Service {
    pub name: &'static str,
    pub version: &'static str,
    /// Deployed revision, if the platform provides it.
    pub revision: Option<String>,
    /// Event types that the service handles.
    pub handled_events: Vec<&'static str>,
    pub handler: Arc<dyn Handler>,
    /// Stores unreadable events.
    pub dead_letters: Arc<dyn DeadLetters>,
    /// Tasks that a scheduler starts at `/chores/{name}`.
    pub periodic_tasks: Vec<Arc<dyn PeriodicTask>>,
    /// Authenticates callers; `None`: every caller is admitted without a name.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Telemetry to flush before each response: afterwards the platform may suspend the CPU.
    pub telemetry: Option<Arc<Telemetry>>,
}

/// `GET /about`.
#[derive(Clone, Serialize)]
struct ServiceInfo {
    schema: &'static str,
    service: &'static str,
    version: &'static str,
    revision: Option<String>,
    #[serde(rename = "takes")]
    handled_events: Vec<&'static str>,
    #[serde(rename = "chores")]
    periodic_tasks: Vec<&'static str>,
    /// Additional fields of this service, from [`Routes::about`].
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

/// Computes the fields that a service adds to `GET /about`, at each request.
pub type AboutFields = Arc<dyn Fn() -> serde_json::Map<String, serde_json::Value> + Send + Sync>;

/// Routes of one service in addition to those that all services have.
#[derive(Default)]
pub struct Routes {
    /// Routes for authenticated callers.
    pub guarded: Router,
    /// Further paths that receive events, with their handlers.
    pub events: Vec<(&'static str, Arc<dyn Handler>)>,
    /// Routes for any caller: they have their own authentication, or are public.
    pub open: Router,
    /// Serve only `open` and `/healthz`, so that a public address exposes no other route.
    pub alone: bool,
    /// Sets the additional fields of `GET /about`.
    pub about: Option<AboutFields>,
}

pub fn router(service: Service) -> Router {
    with_routes(service, Routes::default())
}

/// The routes of every service, and further `routes` of this one.
///
/// # Panics
/// Panics if a route is defined twice.
pub fn with_routes(service: Service, routes: Routes) -> Router {
    let Service {
        name,
        version,
        revision,
        handled_events,
        handler,
        dead_letters,
        periodic_tasks,
        authenticator,
        telemetry,
    } = service;
    if routes.alone {
        let open = routes.open.layer(from_fn_with_state(telemetry, flushed));
        return open.route("/healthz", get(|| async { "ok" }));
    }
    let task_names = periodic_tasks.iter().map(|task| task.name()).collect();
    let more = Default::default();
    let about = ServiceInfo {
        schema: "burnin/about/v1",
        service: name,
        version,
        revision,
        handled_events,
        periodic_tasks: task_names,
        more,
    };
    let more = routes.about;
    let about = async move || {
        let more = more.as_ref().map(|more| more()).unwrap_or_default();
        Json(ServiceInfo { more, ..about.clone() })
    };
    let mut receivers = Router::new();
    for (path, handler) in [("/", handler)].into_iter().chain(routes.events) {
        let receiver = EventReceiver { handler, dead_letters: Arc::clone(&dead_letters) };
        receivers = receivers.merge(Router::new().route(path, post(receive)).with_state(receiver));
    }
    receivers
        .merge(
            Router::new().route("/chores/{name}", post(run_periodic_task)).with_state(periodic_tasks.into()),
        )
        .route("/about", get(about))
        .merge(routes.guarded)
        .layer(from_fn_with_state(authenticator, admit))
        .merge(routes.open)
        .layer(from_fn_with_state(telemetry, flushed))
        .route("/healthz", get(|| async { "ok" }))
}

/// Responds after spans and metrics are exported, at most after [`FLUSH`].
async fn flushed(State(telemetry): State<Option<Arc<Telemetry>>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if let Some(telemetry) = telemetry {
        let flushing = tokio::task::spawn_blocking(move || telemetry.flush());
        if tokio::time::timeout(FLUSH, flushing).await.is_err() {
            warn!(
                "spans and metrics were not exported within {FLUSH:?}; the response is sent before the export ends"
            );
        }
    }
    response
}

/// Authenticates a caller before its request body is read, and records its identity.
async fn admit(
    State(authenticator): State<Option<Arc<dyn Authenticator>>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(authenticator) = authenticator {
        match authenticator.authenticate(request.method(), request.headers()).await {
            Ok(caller) => drop(request.extensions_mut().insert(caller)),
            Err(denied) => {
                warn!(path = request.uri().path(), "caller rejected: {denied}");
                return match denied {
                    Denied::Unproven(_) => StatusCode::UNAUTHORIZED.into_response(),
                    Denied::Forbidden(_) => StatusCode::FORBIDDEN.into_response(),
                    Denied::CrossSite(why) => (StatusCode::FORBIDDEN, why).into_response(),
                    Denied::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
                };
            }
        }
    }
    next.run(request).await
}

async fn run_periodic_task(
    Path(name): Path<String>,
    State(periodic_tasks): State<Arc<[Arc<dyn PeriodicTask>]>>,
) -> Response {
    let Some(task) = periodic_tasks.iter().find(|task| task.name() == name).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // A separate task: the caller may disconnect, and a panic results in a response.
    let result = match tokio::spawn(async move { task.run().await }).await {
        Ok(result) => result,
        Err(stopped) => Err(format!("the task panicked: {stopped}")),
    };
    match result {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(why) => {
            warn!(chore = name, "failed: {why}");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

/// Serves until `stop`, then accepts no connections and waits up to [`DRAIN`] for requests in progress.
/// Connections have the limits of [`ConnectionLimits::of_process`].
///
/// # Errors
/// Returns an error if the listener fails. Currently it always succeeds: a failed `accept` is retried.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    serve_with(listener, router, ConnectionLimits::of_process(), stop).await
}

/// Serves with these limits.
///
/// # Errors
/// Returns an error if the listener fails. Currently it always succeeds: a failed `accept` is retried.
pub async fn serve_with(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) -> io::Result<()> {
    let late = async {
        stop.cancelled().await;
        info!("stopping: no new requests");
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        () = connections::serve(listener, router, limits, stop.clone()) => {}
        () = late => warn!("stopping with requests in progress; they will be delivered again"),
    }
    Ok(())
}
