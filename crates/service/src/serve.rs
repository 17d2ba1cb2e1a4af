//! A service as HTTP sees it, from its first request to its last.
//!
//! | route | what it does |
//! |---|---|
//! | `POST /` | takes one event, see [`crate::push`] |
//! | `POST /chores/{name}` | does something that nobody sends an event for; whoever keeps time asks for it |
//! | `GET /healthz` | 200 while the process serves, whoever asks |
//! | `GET /about` | which service this is, its version and revision, and what it takes |

use std::{io, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use crate::connections::Limits;
use crate::{
    Handler, Parking,
    auth::{Denied, Doorkeeper},
    connections,
    push::{Door, receive},
    telemetry::Telemetry,
};

/// How long requests under way may take once the process is told to end. Cloud Run kills after ten seconds.
pub const DRAIN: Duration = Duration::from_secs(5);

/// How long an answer waits for spans and measurements to be sent.
const FLUSH: Duration = Duration::from_secs(2);

/// Something to be done now and then that no event asks for: waking runs, sweeping.
#[async_trait::async_trait]
pub trait Chore: Send + Sync + 'static {
    /// Its name, the last part of its path.
    fn name(&self) -> &'static str;

    /// Does it once.
    ///
    /// # Errors
    /// Why it was not done, or not all of it. Whoever keeps time asks again.
    async fn run(&self) -> Result<(), String>;
}

/// What a service is.
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The revision that runs, where the platform tells.
    pub revision: Option<String>,
    /// Event types it takes.
    pub takes: Vec<&'static str>,
    /// Who deals with them.
    pub handler: Arc<dyn Handler>,
    /// Where events go that nobody here can read.
    pub parking: Arc<dyn Parking>,
    /// What it does besides.
    pub chores: Vec<Arc<dyn Chore>>,
    /// Who decides who may call; none where the platform has.
    pub doorkeeper: Option<Arc<dyn Doorkeeper>>,
    /// What is to be sent out before a request is answered: afterwards the platform may take the processor away.
    pub telemetry: Option<Arc<Telemetry>>,
}

/// `GET /about`.
#[derive(Clone, Serialize)]
struct About {
    schema: &'static str,
    service: &'static str,
    version: &'static str,
    revision: Option<String>,
    takes: Vec<&'static str>,
    chores: Vec<&'static str>,
    /// Fields of the service itself.
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

/// Computes the fields that a service adds to `GET /about`, at each request.
pub type More = Arc<dyn Fn() -> serde_json::Map<String, serde_json::Value> + Send + Sync>;

/// What a service serves beside events and chores.
#[derive(Default)]
pub struct Routes {
    /// For callers that were let in.
    pub guarded: Router,
    /// For anybody: what comes here proves itself by other means, or is no secret.
    pub open: Router,
    /// Nothing but `open` and `/healthz` is there: where anybody at all may come, nobody is to find more.
    pub alone: bool,
    /// Sets the additional fields of `GET /about`.
    pub about: Option<More>,
}

/// The routes of a service.
pub fn router(service: Service) -> Router {
    with_routes(service, Routes::default())
}

/// The routes of a service that has some of its own.
///
/// # Panics
/// When a route is there twice.
pub fn with_routes(service: Service, routes: Routes) -> Router {
    let Service { name, version, revision, takes, handler, parking, chores, doorkeeper, telemetry } = service;
    if routes.alone {
        let open = routes.open.layer(from_fn_with_state(telemetry, flushed));
        return open.route("/healthz", get(|| async { "ok" }));
    }
    let chore_names = chores.iter().map(|chore| chore.name()).collect();
    let more = Default::default();
    let about = About {
        schema: "burnin/about/v1",
        service: name,
        version,
        revision,
        takes,
        chores: chore_names,
        more,
    };
    let more = routes.about;
    let about = async move || {
        let more = more.as_ref().map(|more| more()).unwrap_or_default();
        Json(About { more, ..about.clone() })
    };
    Router::new()
        .route("/", post(receive))
        .with_state(Door { handler, parking })
        .merge(Router::new().route("/chores/{name}", post(chore)).with_state(chores.into()))
        .route("/about", get(about))
        .merge(routes.guarded)
        .layer(from_fn_with_state(doorkeeper, admit))
        .merge(routes.open)
        .layer(from_fn_with_state(telemetry, flushed))
        .route("/healthz", get(|| async { "ok" }))
}

/// Answers when spans and measurements are out, or in [`FLUSH`].
async fn flushed(State(telemetry): State<Option<Arc<Telemetry>>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if let Some(telemetry) = telemetry {
        let flushing = tokio::task::spawn_blocking(move || telemetry.flush());
        if tokio::time::timeout(FLUSH, flushing).await.is_err() {
            warn!("spans and measurements are late; the answer does not wait for them");
        }
    }
    response
}

/// Lets a caller in before anything of its request is read, and notes who it is.
async fn admit(
    State(doorkeeper): State<Option<Arc<dyn Doorkeeper>>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(doorkeeper) = doorkeeper {
        let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match doorkeeper.admit(authorization).await {
            Ok(caller) => drop(request.extensions_mut().insert(caller)),
            Err(denied) => {
                warn!(path = request.uri().path(), "not let in: {denied}");
                return match denied {
                    Denied::Unproven(_) => StatusCode::UNAUTHORIZED,
                    Denied::Forbidden(_) => StatusCode::FORBIDDEN,
                    Denied::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
                }
                .into_response();
            }
        }
    }
    next.run(request).await
}

async fn chore(Path(name): Path<String>, State(chores): State<Arc<[Arc<dyn Chore>]>>) -> Response {
    let Some(chore) = chores.iter().find(|chore| chore.name() == name).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // A task of its own: whoever asked may hang up, and a panic is an answer.
    let said = match tokio::spawn(async move { chore.run().await }).await {
        Ok(said) => said,
        Err(stopped) => Err(format!("it broke: {stopped}")),
    };
    match said {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(why) => {
            warn!(chore = name, "not done: {why}");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

/// Serves until `stop`, then accepts nothing more and gives requests in progress [`DRAIN`] to end. Connections have the
/// limits of [`Limits::of_process`].
///
/// # Errors
/// Never at present: a failed `accept` is retried.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    serve_with(listener, router, Limits::of_process(), stop).await
}

/// Serves with these limits.
///
/// # Errors
/// Never at present: a failed `accept` is retried.
pub async fn serve_with(
    listener: TcpListener,
    router: Router,
    limits: Limits,
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
