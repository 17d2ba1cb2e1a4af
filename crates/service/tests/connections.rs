//! Limits of connections: slow and idle clients are disconnected, do not block other clients, and use at most 64 KiB each while idle.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Mutex,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    middleware::{Next, from_fn},
    routing::{get, post},
};
use service::serve::{ConnectionLimits, serve_with};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static HEAP: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// The heap belongs to the whole process, so tests run one at a time under any test runner.
static ALONE: Mutex<()> = Mutex::new(());

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);

const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 4096, head: LONG, body: LONG, stalled: LONG };

struct TestServer {
    address: SocketAddr,
    stop: CancellationToken,
    runtime: tokio::runtime::Runtime,
}

impl TestServer {
    fn start(limits: ConnectionLimits) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut router = Router::new()
            .route("/healthz", get(async || "ok"))
            .route("/echo", post(async |body: Bytes| body))
            .route("/large", get(async || vec![b'x'; 64 << 20]));
        // The router has the routes and layers of a service.
        for number in 0..60 {
            router = router.route(&format!("/route/{number}"), get(async || "ok").post(async || "ok"));
        }
        for _ in 0..4 {
            router = router.layer(from_fn(async |request, next: Next| next.run(request).await));
        }
        let stop = CancellationToken::new();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve_with(listener, router, limits, stop.clone()));
        Self { address, stop, runtime }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    fn send(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn end(self) {
        self.stop.cancel();
        self.runtime.shutdown_timeout(Duration::from_secs(10));
    }
}

/// Bytes received until the server closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        // A connection reset also means closed: the server closed the connection with unread bytes.
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => {
            panic!("the connection was not closed: {error}")
        }
        _ => String::from_utf8(rest).unwrap(),
    }
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(std::time::Instant::now() < until, "timeout while waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_connection_with_a_late_head_and_an_idle_connection_are_closed() {
    let _alone = ALONE.lock();
    let server = TestServer::start(ConnectionLimits { head: SHORT, ..LIMITS });
    assert_eq!(rest(server.connect()), "", "no byte was sent");
    let mut partial = server.connect();
    write!(partial, "GET /healthz HTTP/1.1\r\nHost: x\r\n").unwrap();
    assert_eq!(rest(partial), "", "a partial head was sent");
    let mut idle = server.connect();
    write!(idle, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let answer = rest(idle);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    server.end();
}

#[test]
fn a_body_after_its_deadline_is_answered_with_408() {
    let _alone = ALONE.lock();
    let server = TestServer::start(ConnectionLimits { body: SHORT, ..LIMITS });
    let mut slow = server.connect();
    write!(slow, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab").unwrap();
    let answer = rest(slow);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    let mut good = server.connect();
    write!(good, "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde")
        .unwrap();
    assert!(rest(good).ends_with("\r\n\r\nabcde"));
    server.end();
}

#[test]
fn the_connection_of_a_client_that_stops_reading_is_closed() {
    let _alone = ALONE.lock();
    let before = HEAP.allocated();
    let server = TestServer::start(ConnectionLimits { stalled: SHORT, ..LIMITS });
    let mut stalled = server.connect();
    write!(stalled, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_for("the response to be created", || HEAP.allocated() > before + (60 << 20));
    wait_for("the response to be dropped", || HEAP.allocated() < before + (8 << 20));
    drop(stalled);
    server.end();
}

#[test]
fn idle_clients_do_not_block_others() {
    let _alone = ALONE.lock();
    let server = TestServer::start(ConnectionLimits { connections: 8, ..LIMITS });
    let mut held = Vec::new();
    for number in 0..50 {
        let mut stream = server.connect();
        if number % 2 == 0 {
            write!(stream, "GET /healthz HTTP/1.1\r\n").unwrap();
        }
        held.push(stream);
    }
    assert!(server.send("/healthz").starts_with("HTTP/1.1 200"));
    assert_eq!(rest(held.remove(0)), "", "the connection with the longest wait was closed");
    server.end();
}

#[test]
fn idle_connections_use_at_most_64_kib_each_and_release_their_memory_when_closed() {
    let _alone = ALONE.lock();
    const IDLE: usize = 300;
    let server = TestServer::start(LIMITS);
    assert!(server.send("/healthz").starts_with("HTTP/1.1 200"));
    let before = HEAP.allocated();
    let mut held: Vec<_> = (0..IDLE).map(|_| server.connect()).collect();
    for (number, stream) in held.iter_mut().enumerate() {
        match number % 3 {
            0 => {}
            // This client sends a head of the maximum size.
            1 => write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {}", "x".repeat(30 << 10))
                .unwrap(),
            _ => {
                write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"HTTP/1.1 200");
            }
        }
    }
    assert!(server.send("/healthz").starts_with("HTTP/1.1 200"));
    let each = (HEAP.allocated() - before) / IDLE;
    println!("{each} bytes per idle connection");
    assert!(each <= 64 << 10, "an idle connection uses {each} bytes");
    drop(held);
    wait_for("the memory to be released", || HEAP.allocated() < before + (64 << 10));
    server.end();
}
