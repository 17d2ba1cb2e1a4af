//! HTTP connections with limits: maximum number, timeouts for each part of a request, and maximum memory of an idle
//! connection.
//!
//! If a client connects at the maximum, the server closes the connection that has waited longest without a request, so that idle clients
//! do not block others.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, header::CONNECTION},
    response::IntoResponse,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;
use tracing::{debug, warn};

mod body;
mod stream;

use body::{DeadlineBody, RequestInProgress};
use stream::Stream;

/// Maximum size of a request head, and of a connection's buffer, bytes.
const BUFFER: usize = 32 << 10;
/// Maximum number of connections, even if the process may open more. Cloud Run sends an instance at most 1,000 concurrent requests.
const MAX_CONNECTIONS: usize = 1024;
/// Pause after a failed `accept`: usually the process has no free file descriptor.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Timeout for a whole request head, and maximum pause between two requests.
    pub head: Duration,
    /// Timeout for a whole request body.
    pub body: Duration,
    /// Timeout for a client that stops reading a response.
    pub stalled: Duration,
}

impl ConnectionLimits {
    /// The usual limits. Connections use at most three eighths of this process's file descriptors: stores, locks and child processes need
    /// the others.
    #[must_use]
    pub fn of_process() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        Self {
            connections: (files / 8).saturating_mul(3).clamp(4, MAX_CONNECTIONS),
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            stalled: Duration::from_secs(60),
        }
    }
}

/// State of a connection, to select the connection that has waited longest.
struct Connection {
    /// Time from which the connection waits for a request; `None` while it handles a request.
    idle_since: Mutex<Option<Instant>>,
    close: CancellationToken,
}

impl Connection {
    fn set_idle(&self, idle: bool) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = idle.then(Instant::now);
    }

    fn idle_since(&self) -> Option<Instant> {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every open connection of a server.
#[derive(Default)]
struct Connections {
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    changed: Notify,
}

impl Connections {
    fn add(&self, number: u64) -> Arc<Connection> {
        let idle_since = Mutex::new(Some(Instant::now()));
        let connection = Arc::new(Connection { idle_since, close: CancellationToken::new() });
        self.lock().insert(number, Arc::clone(&connection));
        connection
    }

    fn remove(&self, number: u64) {
        self.lock().remove(&number);
        self.changed.notify_one();
    }

    fn count(&self) -> usize {
        self.lock().len()
    }

    /// Closes the connection that has waited longest for a request; returns `false` if every connection handles a
    /// request.
    fn close_idle(&self) -> bool {
        let open = self.lock();
        let waiting = open.values().filter(|connection| !connection.close.is_cancelled());
        let longest = waiting.filter_map(|it| Some((it.idle_since()?, it))).min_by_key(|(since, _)| *since);
        longest.inspect(|(_, connection)| connection.close.cancel()).is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until `stop`. Then it accepts no connection, and returns after the response to every request in progress.
pub async fn serve(listener: TcpListener, router: Router, limits: ConnectionLimits, stop: CancellationToken) {
    // One router for all connections: a copy per connection would duplicate all routes and layers.
    let router = router.with_state(());
    let (connections, tasks) = (Arc::new(Connections::default()), TaskTracker::new());
    let mut number = 0;
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    warn!("no connection can be accepted: {error}; idle ones are closed");
                }
                connections.close_idle();
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        failing = false;
        number += 1;
        let connection = connections.add(number);
        let serving = serve_connection(stream, router.clone(), limits, connection, stop.clone());
        let ending = Arc::clone(&connections);
        tasks.spawn(async move {
            serving.await;
            ending.remove(number);
        });
        while connections.count() > limits.connections {
            connections.close_idle();
            tokio::select! {
                () = connections.changed.notified() => {}
                // A connection may become idle before any connection ends.
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => break,
            }
        }
    }
    drop(listener);
    tasks.close();
    tasks.wait().await;
}

/// Answers the requests of one connection until the client closes it, a new connection replaces it, or the server stops.
async fn serve_connection(
    stream: TcpStream,
    router: Router,
    limits: ConnectionLimits,
    connection: Arc<Connection>,
    stop: CancellationToken,
) {
    // Responses are written completely, so waiting for more output would only delay the last part.
    drop(stream.set_nodelay(true));
    let closed = connection.close.clone();
    let stream = Stream::new(stream, limits.stalled, Arc::clone(&connection));
    let answer = service_fn(move |request: Request<Incoming>| {
        let (router, connection) = (router.clone(), Arc::clone(&connection));
        async move { Ok::<_, Infallible>(handle_request(router, request, limits.body, connection).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(served);
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    debug!("a connection ended: {}", crate::worker::chain(&error));
                }
                return;
            }
            () = closed.cancelled() => return,
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

async fn handle_request(
    router: Router,
    request: Request<Incoming>,
    limit: Duration,
    connection: Arc<Connection>,
) -> Response<Body> {
    connection.set_idle(false);
    let finishing = RequestInProgress::new(connection);
    let (parts, body) = request.into_parts();
    let (body, late) = DeadlineBody::new(body, limit);
    let answered = router.oneshot(Request::from_parts(parts, Body::new(body))).await;
    let response = if late.is_late() {
        let mut response = StatusCode::REQUEST_TIMEOUT.into_response();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    } else {
        answered.unwrap_or_else(|never| match never {})
    };
    response.map(|body| Body::new(finishing.of(body)))
}
