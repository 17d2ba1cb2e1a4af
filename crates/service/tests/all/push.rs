//! Every encoding of a pushed event, and the response.

use std::sync::{Arc, Mutex};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, Request, StatusCode},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use cloudevents::AttributesReader;
use serde_json::{Value, json};
use service::{
    DeadLetters, Disposition, Event, Handler,
    auth::{Authenticator, Caller, Denied, Method},
    push,
    serve::{PeriodicTask, Service, router},
};
use tower::ServiceExt;

const TYPE: &str = "dev.burnin.job.accepted.v1";

fn structured() -> Value {
    json!({"specversion": "1.0", "id": "1", "source": "//test", "type": TYPE, "subject": "runs/a",
           "datacontenttype": "application/json", "data": {"handle": "h"}})
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn wrap(attributes: Value, data: &str) -> Value {
    json!({"message": {"attributes": attributes, "data": STANDARD.encode(data), "messageId": "7", "message_id": "7",
           "publishTime": "2026-11-19T21:10:03.601Z", "publish_time": "2026-11-19T21:10:03.601Z"},
           "subscription": "projects/p/subscriptions/s", "deliveryAttempt": 2})
}

fn handle(event: &Event) -> String {
    contract_handle(event).unwrap_or_else(|| format!("{:?}", event.data()))
}

fn contract_handle(event: &Event) -> Option<String> {
    let data: Value = match event.data()? {
        cloudevents::Data::Json(value) => value.clone(),
        cloudevents::Data::Binary(bytes) => serde_json::from_slice(bytes).ok()?,
        cloudevents::Data::String(text) => serde_json::from_str(text).ok()?,
    };
    Some(data["handle"].as_str()?.to_owned())
}

#[test]
fn every_encoding_of_an_event_has_the_same_content() {
    let plain = json!({"handle": "h"}).to_string();
    let binary = [
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "//test"),
        ("ce-type", TYPE),
        ("ce-subject", "runs%2Fa"),
        ("content-type", "application/json"),
    ];
    let attributes = json!({"ce-specversion": "1.0", "ce-id": "1", "ce-source": "//test", "ce-type": TYPE,
                            "ce-subject": "runs/a", "Content-Type": "application/json"});
    let cases = [
        (
            "structured",
            headers(&[("content-type", "Application/CloudEvents+JSON; charset=utf-8")]),
            structured().to_string(),
        ),
        ("binary", headers(&binary), plain.clone()),
        (
            "wrapped binary",
            headers(&[("content-type", "application/json")]),
            wrap(attributes, &plain).to_string(),
        ),
        (
            "wrapped structured",
            headers(&[("content-type", "application/json")]),
            wrap(json!({"content-type": "application/cloudevents+json"}), &structured().to_string())
                .to_string(),
        ),
        ("wrapped, unlabelled", headers(&[]), wrap(json!({}), &structured().to_string()).to_string()),
    ];
    for (name, headers, body) in cases {
        let event = push::decode(&headers, body.as_bytes()).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!((event.id(), event.ty(), event.subject()), ("1", TYPE, Some("runs/a")), "{name}");
        assert_eq!(handle(&event), "h", "{name}");
    }
}

#[test]
fn invalid_events_are_reported() {
    let structured_as = |key: &str, value: Value| {
        let mut event = structured();
        event[key] = value;
        (headers(&[("content-type", "application/cloudevents+json")]), event.to_string())
    };
    let cases = [
        (headers(&[]), "not json".to_owned(), "neither"),
        (headers(&[]), json!({"message": {"data": "%%%"}}).to_string(), "base64"),
        (headers(&[("content-type", "application/cloudevents-batch+json")]), "[]".to_owned(), "batches"),
        (headers(&[("ce-specversion", "0.1")]), String::new(), "specversion"),
        (headers(&[("ce-specversion", "1.0"), ("ce-id", "1")]), String::new(), "ce-source"),
    ];
    for (headers, body, expected) in cases {
        let why = push::decode(&headers, body.as_bytes()).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    for (key, value) in [("id", json!("")), ("type", json!("")), ("My_Ext", json!("x"))] {
        let (headers, body) = structured_as(key, value);
        assert!(push::decode(&headers, body.as_bytes()).is_err(), "{key}");
    }
}

struct Answers(Disposition);

#[async_trait::async_trait]
impl Handler for Answers {
    async fn handle(&self, event: &Event) -> Disposition {
        assert_ne!(event.subject(), Some("panic"), "the test requests a panic");
        self.0.clone()
    }
}

#[derive(Default)]
struct RecordedDeadLetters(Mutex<Vec<String>>);

#[async_trait::async_trait]
impl DeadLetters for RecordedDeadLetters {
    async fn park(&self, id: &str, why: &str, _: &[u8]) -> Result<(), String> {
        self.0.lock().unwrap().push(format!("{id}: {why}"));
        Ok(())
    }
}

fn service(
    handler: Arc<dyn Handler>,
    dead_letters: Arc<dyn DeadLetters>,
    periodic_tasks: Vec<Arc<dyn PeriodicTask>>,
) -> Service {
    Service {
        name: "test",
        version: "1.2.3",
        revision: None,
        handled_events: vec![TYPE],
        handler,
        dead_letters,
        periodic_tasks,
        authenticator: None,
        telemetry: None,
    }
}

async fn post(answer: Disposition, body: impl Into<Body>) -> (StatusCode, Vec<String>) {
    let parked = Arc::new(RecordedDeadLetters::default());
    let router = router(service(Arc::new(Answers(answer)), parked.clone(), Vec::new()));
    let request = Request::post("/").header("content-type", "application/cloudevents+json").body(body.into());
    let response = router.oneshot(request.unwrap()).await.unwrap();
    let parked = parked.0.lock().unwrap().clone();
    (response.status(), parked)
}

#[test]
fn a_cloud_build_notification_is_decoded_as_an_event_of_its_build() {
    let build = json!({"id": "b-1", "status": "WORKING", "tags": ["x"]});
    let attributes = json!({"buildId": "b-1", "status": "WORKING"});
    let read =
        push::decode(&headers(&[]), wrap(attributes.clone(), &build.to_string()).to_string().as_bytes())
            .unwrap();
    assert_eq!((read.ty(), read.id()), (push::BUILD_CHANGED, "b-1-WORKING"));
    let data: Value = read.data().cloned().unwrap().try_into().unwrap();
    assert_eq!(data, build);
    let mut ours = attributes;
    for (name, value) in [("specversion", "1.0"), ("id", "1"), ("source", "//test"), ("type", TYPE)] {
        ours[format!("ce-{name}")] = value.into();
    }
    let read = push::decode(&headers(&[]), wrap(ours, "{}").to_string().as_bytes()).unwrap();
    assert_eq!(read.ty(), TYPE, "the event's own attributes define it");
    for half in [json!({"buildId": "b-1"}), json!({"status": "WORKING"}), json!({})] {
        let read = push::decode(&headers(&[]), wrap(half, &build.to_string()).to_string().as_bytes());
        assert!(read.is_err(), "{read:?}");
    }
}

#[tokio::test]
async fn only_transient_failures_are_rejected() {
    let event = || structured().to_string();
    assert_eq!(post(Disposition::Done, event()).await, (StatusCode::NO_CONTENT, vec![]));
    let retry = post(Disposition::Retry("later".into()), event()).await;
    assert_eq!(retry, (StatusCode::SERVICE_UNAVAILABLE, vec![]));
    let parked = post(Disposition::Park("never".into()), event()).await;
    assert_eq!(parked, (StatusCode::NO_CONTENT, vec!["1: never".to_owned()]));
    let (status, parked) = post(Disposition::Done, "{").await;
    assert_eq!((status, parked.len()), (StatusCode::NO_CONTENT, 1), "every unreadable event is parked once");
}

#[tokio::test]
async fn a_panic_results_in_an_error_response() {
    let mut event = structured();
    event["subject"] = json!("panic");
    assert_eq!(post(Disposition::Done, event.to_string()).await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_message_of_the_maximum_size_is_accepted_and_a_larger_one_is_rejected() {
    let mut event = structured();
    event["data"] = json!({"handle": "x".repeat(13_400_000)});
    assert_eq!(post(Disposition::Done, event.to_string()).await.0, StatusCode::NO_CONTENT);
    assert_eq!(
        post(Disposition::Done, vec![b' '; push::BODY_LIMIT + 1]).await.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

struct Sweep(Result<(), String>);

#[async_trait::async_trait]
impl PeriodicTask for Sweep {
    fn name(&self) -> &'static str {
        "sweep"
    }

    async fn run(&self) -> Result<(), String> {
        assert_ne!(self.0, Err("panic".to_owned()), "the test requests a panic");
        self.0.clone()
    }
}

async fn send(method: &str, path: &str, periodic_task: Result<(), String>) -> (StatusCode, String) {
    let periodic_tasks: Vec<Arc<dyn PeriodicTask>> = vec![Arc::new(Sweep(periodic_task))];
    let router = router(service(
        Arc::new(Answers(Disposition::Done)),
        Arc::new(RecordedDeadLetters::default()),
        periodic_tasks,
    ));
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_failed_periodic_task_is_answered_with_503() {
    assert_eq!(send("POST", "/chores/sweep", Ok(())).await.0, StatusCode::NO_CONTENT);
    assert_eq!(send("POST", "/chores/sweep", Err("later".into())).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(send("POST", "/chores/sweep", Err("panic".into())).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(send("POST", "/chores/swoop", Ok(())).await.0, StatusCode::NOT_FOUND);
    assert_eq!(send("GET", "/chores/sweep", Ok(())).await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn about_returns_name_and_version() {
    assert_eq!(send("GET", "/healthz", Ok(())).await, (StatusCode::OK, "ok".to_owned()));
    let (status, about) = send("GET", "/about", Ok(())).await;
    let about: Value = serde_json::from_str(&about).unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        about,
        json!({"schema": "burnin/about/v1", "service": "test", "version": "1.2.3", "revision": null,
               "takes": [TYPE], "chores": ["sweep"]})
    );
}

struct TestAuthenticator;

#[async_trait::async_trait]
impl Authenticator for TestAuthenticator {
    async fn authenticate(&self, _: &Method, headers: &HeaderMap) -> Result<Caller, Denied> {
        let authorization = headers.get("authorization").map(|value| value.to_str().unwrap());
        let subscription = Some("projects/p/subscriptions/s".to_owned());
        match authorization {
            Some("push") => Ok(Caller { email: "push@x".to_owned(), subscription }),
            Some("tick") => Ok(Caller { email: "tick@x".to_owned(), subscription: None }),
            Some("stranger") => Err(Denied::Forbidden("not on the list".to_owned())),
            Some("night") => Err(Denied::Unknown("no keys".to_owned())),
            _ => Err(Denied::Unproven("no token".to_owned())),
        }
    }
}

async fn call(path: &str, authorization: Option<&str>, subscription: &str) -> StatusCode {
    let periodic_tasks: Vec<Arc<dyn PeriodicTask>> = vec![Arc::new(Sweep(Ok(())))];
    let mut service = service(
        Arc::new(Answers(Disposition::Done)),
        Arc::new(RecordedDeadLetters::default()),
        periodic_tasks,
    );
    service.authenticator = Some(Arc::new(TestAuthenticator));
    let mut body = json!({"message": {"data": STANDARD.encode(structured().to_string())}});
    body["subscription"] = json!(subscription);
    let method = if matches!(path, "/about" | "/healthz") { "GET" } else { "POST" };
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let request = request.body(Body::from(body.to_string())).unwrap();
    router(service).oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn unauthorized_callers_only_reach_the_health_check() {
    let ours = "projects/p/subscriptions/s";
    assert_eq!(call("/", Some("push"), ours).await, StatusCode::NO_CONTENT);
    assert_eq!(call("/", Some("push"), "projects/p/subscriptions/other").await, StatusCode::FORBIDDEN);
    assert_eq!(call("/chores/sweep", Some("tick"), ours).await, StatusCode::NO_CONTENT);
    for path in ["/", "/chores/sweep", "/about"] {
        assert_eq!(call(path, None, ours).await, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(call(path, Some("stranger"), ours).await, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(call(path, Some("night"), ours).await, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    assert_eq!(call("/healthz", None, ours).await, StatusCode::OK);
}
