//! A collector: spans and metrics of a service, decoded from OTLP's messages.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use gcp::{Platform, environment::Auth, otlp};
use model::{Attempt, Body, Command, CommandId, Stage};
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, KeyValue, any_value::Value},
};
use prost::Message;
use service::{
    Bus, BusError, CommandError, DeadLetters, Disposition, Event, Handler, Publisher, SystemClock, Worker,
    WorkerHandler,
    serve::{Service, router, serve},
    telemetry::LogFormat,
};
use tokio_util::sync::CancellationToken;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Received bodies by path, in order.
type ReceivedBodies = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Accepts every request.
fn collector() -> (String, ReceivedBodies) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = ReceivedBodies::default();
    let kept = Arc::clone(&arrived);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || take(connection.unwrap(), &kept));
        }
    });
    (format!("http://{address}"), arrived)
}

fn take(connection: TcpStream, kept: &ReceivedBodies) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut connection = connection;
    loop {
        let mut head = Vec::new();
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap_or(0) > 2 {
            head.push(std::mem::take(&mut line).trim().to_owned());
        }
        let Some(path) = head.first().and_then(|first| first.split(' ').nth(1)).map(str::to_owned) else {
            return;
        };
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        kept.lock().unwrap().push((path, body));
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

struct DiscardingBus;

#[async_trait::async_trait]
impl Bus for DiscardingBus {
    async fn publish(&self, _: Event) -> Result<(), BusError> {
        Ok(())
    }
}

#[async_trait::async_trait]
impl DeadLetters for DiscardingBus {
    async fn park(&self, _: &str, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

#[async_trait::async_trait]
impl Worker for DiscardingBus {
    fn name(&self) -> &'static str {
        "builder"
    }

    async fn perform(&self, _: &Command, _: &Publisher) -> Result<(), CommandError> {
        Ok(())
    }
}

fn texts(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(&attribute.value))).collect()
}

fn has_attribute(attributes: &[KeyValue], key: &str, value: &str) -> bool {
    texts(attributes).contains(&(key.to_owned(), value.to_owned()))
}

#[test]
fn spans_and_metrics_are_exported_before_an_event_is_acknowledged() {
    let (endpoint, arrived) = collector();
    // The exporter reads its variable when it is created, so this test has its own process.
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "telemetry::spans_and_metrics_are_exported_before_an_event_is_acknowledged";
        let mut again = std::process::Command::new(this);
        again.args([name, "--exact"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        check(&arrived);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(push_one());
    // No shutdown: data that was not sent before the response is never sent.
    std::process::exit(0);
}

async fn push_one() {
    let platform = Platform {
        port: 0,
        auth: Auth::Platform,
        on_cloud_run: false,
        are_tokens_verified: false,
        revision: Some("builder-00007".to_owned()),
        project: "p".to_owned(),
        topics: "burnin-".to_owned(),
        pubsub_emulator: None,
        pull: None,
        storage_emulator: None,
        bigquery_emulator: None,
        log: "off".to_owned(),
        log_format: LogFormat::Compact,
        otlp: std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok(),
    };
    let telemetry = Arc::new(otlp::start("builder", "1.2.3", &platform).unwrap());
    let handler = WorkerHandler::new(DiscardingBus, Arc::new(DiscardingBus), Arc::new(SystemClock));
    let id = CommandId {
        run: "r-1".parse().unwrap(),
        stage: Stage::Image,
        attempt: Attempt::new(2),
        verb: model::Verb::Observe,
    };
    let command = Command { id, body: Body::ImageObserve { handle: None } };
    let mut message = events::Message::command("conductor", command);
    message.traceparent = Some(format!("00-{TRACE}-00f067aa0ba902b7-01"));
    let event = message.to_event();
    assert_eq!(handler.handle(&event).await, Disposition::Done);
    let service = Service {
        name: "builder",
        version: "1.2.3",
        revision: None,
        handled_events: Vec::new(),
        handler: Arc::new(handler),
        dead_letters: Arc::new(DiscardingBus),
        periodic_tasks: Vec::new(),
        authenticator: None,
        telemetry: Some(telemetry),
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, router(service), CancellationToken::new()));
    let pushed = reqwest::Client::new()
        .post(format!("http://{address}/"))
        .header("content-type", "application/cloudevents+json")
        .body(serde_json::to_vec(&event).unwrap());
    assert_eq!(pushed.send().await.unwrap().status(), 204);
}

fn check(arrived: &ReceivedBodies) {
    let arrived = arrived.lock().unwrap();
    let bodies = |path: &str| -> Vec<Vec<u8>> {
        arrived.iter().filter(|(to, _)| to == path).map(|(_, body)| body.clone()).collect()
    };
    let traces: Vec<_> = bodies("/v1/traces")
        .iter()
        .map(|body| ExportTraceServiceRequest::decode(body.as_slice()).unwrap())
        .flat_map(|request| request.resource_spans)
        .collect();
    let about = &traces.first().expect("spans arrived").resource.as_ref().unwrap().attributes;
    for (key, value) in
        [("service.name", "builder"), ("service.version", "1.2.3"), ("faas.version", "builder-00007")]
    {
        assert!(has_attribute(about, key, value), "{key} in {:?}", texts(about));
    }
    let spans: Vec<_> =
        traces.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).collect();
    let span = spans.iter().find(|span| span.name == "command").expect("the command has a span");
    let hex: String = span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (hex.as_str(), span.kind),
        (TRACE, 5),
        "the span has the kind CONSUMER and belongs to the trace of the event"
    );
    for (key, value) in [
        ("run.id", "r-1"),
        ("stage", "image"),
        ("attempt", "2"),
        ("messaging.system", "gcp_pubsub"),
        ("cloudevents.event_type", "dev.burnin.image.observe.v1"),
    ] {
        assert!(has_attribute(&span.attributes, key, value), "{key} in {:?}", texts(&span.attributes));
    }
    let metrics: Vec<String> = bodies("/v1/metrics")
        .iter()
        .map(|body| ExportMetricsServiceRequest::decode(body.as_slice()).unwrap())
        .flat_map(|request| request.resource_metrics)
        .flat_map(|resource| resource.scope_metrics)
        .flat_map(|scope| scope.metrics)
        .map(|metric| metric.name)
        .collect();
    assert!(metrics.contains(&"messaging.process.duration".to_owned()), "{metrics:?}");
}
