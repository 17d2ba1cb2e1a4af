//! Runs requested by messages.

use crate::support::GatewayBed;
use base64::Engine;
use events::{RUN_ANSWERED, RUN_REQUEST};
use serde_json::{Value, json};
use service::{Disposition, Handler, push::BUILD_CHANGED};

const DIGEST: &str = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

/// An event as Pub/Sub pushes it.
fn pushed(event_type: &str, source: &str, id: &str, data: &Value) -> service::Event {
    let event = json!({"specversion": "1.0", "type": event_type, "source": source, "id": id,
                       "datacontenttype": "application/json", "data": data});
    let mut headers = service::push::Headers::new();
    headers.insert("content-type", "application/cloudevents+json".parse().unwrap());
    service::push::decode(&headers, event.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn a_repeated_request_returns_the_same_run_and_a_reply() {
    let mut bed = GatewayBed::new(&[("w", "parameters: [limits.job]\n")]);
    let ask = pushed(RUN_REQUEST, "//acme/ci", "42", &json!({"workflow": "w", "set": {"limits.job": "5m"}}));
    for _ in 0..3 {
        assert_eq!(bed.gateway.handle(&ask).await, Disposition::Done);
        bed.restart();
    }
    assert_eq!(bed.runs().await.len(), 1);
    let answers = bed.published(RUN_ANSWERED);
    assert_eq!(answers.len(), 3);
    let run = bed.runs().await.remove(0);
    assert_eq!(
        answers[0],
        json!({"request": {"source": "//acme/ci", "id": "42"}, "run": run, "problem": null})
    );
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let requested = &bed.published("dev.burnin.run.requested.v1")[0];
    assert_eq!(requested["origin"], json!({"message": {"source": "//acme/ci", "id": "42"}}));
    // The id 42 from another sender is another request. The id 42 from the same sender with other content is
    // rejected.
    let other = pushed(RUN_REQUEST, "//acme/other", "42", &json!({"workflow": "w"}));
    assert_eq!(bed.gateway.handle(&other).await, Disposition::Done);
    assert_eq!(bed.runs().await.len(), 2);
    let changed = pushed(RUN_REQUEST, "//acme/ci", "42", &json!({"workflow": "w"}));
    assert!(matches!(bed.gateway.handle(&changed).await, Disposition::Park(why) if why.contains(&run)));
    assert_eq!(bed.runs().await.len(), 2);
}

#[tokio::test]
async fn invalid_requests_are_parked_and_answered() {
    let bed = GatewayBed::new(&[("w", "parameters: [limits.job]\n")]);
    let cases = [
        (json!({"workflow": "x"}), "no workflow `x`; available: w"),
        (
            json!({"workflow": "w", "set": {"cluster.existing.name": "mine"}}),
            "does not allow overriding `cluster.existing.name`",
        ),
        (
            json!({"workflow": "w", "image": {"reference": "r@s", "digest": DIGEST}}),
            "does not allow overriding `image`",
        ),
        (
            json!({"workflow": "w", "image": {"reference": "r", "digest": "latest"}}),
            "image.digest: expected sha256:",
        ),
        (json!({"work": "w"}), "unknown field `work`"),
        (json!(null), "payload of"),
    ];
    for (number, (data, expected)) in cases.iter().enumerate() {
        let disposition = bed.gateway.handle(&pushed(RUN_REQUEST, "//acme", &number.to_string(), data)).await;
        assert!(
            matches!(&disposition, Disposition::Park(why) if why.contains(expected)),
            "{data}: {disposition:?}"
        );
        let answers = bed.published(RUN_ANSWERED);
        let answer = answers.last().unwrap();
        assert_eq!((answers.len(), &answer["run"]), (number + 1, &Value::Null));
        assert!(answer["problem"].as_str().unwrap().contains(expected), "{answer}");
    }
    assert_eq!(bed.runs().await, [""; 0]);
    // Over HTTP, as from Pub/Sub, an invalid event is acknowledged and parked.
    let body = json!({"specversion": "1.0", "type": RUN_REQUEST, "source": "//a", "id": "9", "data": {"workflow": "x"}});
    let structured = [("content-type", "application/cloudevents+json")];
    assert_eq!(bed.send("POST", "/", &structured, &body.to_string()).await.0, 204);
    assert_eq!(bed.store.list("parked/").await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_allowed_external_image_is_used() {
    let bed = GatewayBed::new(&[("w", "parameters: [image]\n")]);
    let image = json!({"reference": format!("registry/nccl@{DIGEST}"), "digest": DIGEST});
    let ask = pushed(RUN_REQUEST, "//acme", "1", &json!({"workflow": "w", "image": image}));
    assert_eq!(bed.gateway.handle(&ask).await, Disposition::Done);
    let requested = &bed.published("dev.burnin.run.requested.v1")[0];
    assert_eq!(requested["workflow"]["image"]["prebuilt"], image);
}

#[tokio::test]
async fn a_build_of_a_trigger_starts_its_workflow_with_the_built_image() {
    let on = "on: {build: [{trigger: nccl-image, image: registry.example:5000/nccl}]}\n";
    let bed = GatewayBed::new(&[("w", on), ("other", "")]);
    let build = |id: &str, status: &str, trigger: &str| {
        let build = json!({"id": id, "status": status, "buildTriggerId": "0f", "substitutions": {"TRIGGER_NAME": trigger},
            "results": {"images": [{"name": "registry.example:5000/nccl:v1", "digest": DIGEST}]}});
        pushed(BUILD_CHANGED, "//cloudbuild.googleapis.com", &format!("{id}-{status}"), &build)
    };
    for event in [
        build("b1", "WORKING", "nccl-image"),
        build("b1", "FAILURE", "nccl-image"),
        build("b1", "A_NEW_STATUS", "nccl-image"),
        build("b2", "SUCCESS", "docs"),
    ] {
        assert_eq!(bed.gateway.handle(&event).await, Disposition::Done);
    }
    assert_eq!(bed.runs().await, [""; 0]);
    for _ in 0..2 {
        assert_eq!(bed.gateway.handle(&build("b3", "SUCCESS", "nccl-image")).await, Disposition::Done);
    }
    assert_eq!(bed.runs().await.len(), 1);
    let requested = &bed.published("dev.burnin.run.requested.v1")[0];
    let reference = format!("registry.example:5000/nccl@{DIGEST}");
    assert_eq!(requested["workflow"]["image"]["prebuilt"]["reference"], reference);
}

#[tokio::test]
async fn a_refused_workflow_does_not_prevent_the_others_from_starting() {
    let bed = GatewayBed::new(&[
        ("a", "on: {build: [{trigger: nccl-image, image: registry.example/nccl}]}\n"),
        ("b", "on: {build: [{trigger: all-images}]}\n"),
    ]);
    let build = |trigger: &str, digest: &str| {
        let build = json!({"id": "b1", "status": "SUCCESS", "buildTriggerId": trigger,
            "substitutions": {"TRIGGER_NAME": "nccl-image"},
            "results": {"images": [{"name": "registry.example/nccl:v1", "digest": digest}]}});
        pushed(BUILD_CHANGED, "//cloudbuild.googleapis.com", trigger, &build)
    };
    assert_eq!(bed.gateway.handle(&build("0f", DIGEST)).await, Disposition::Done);
    assert_eq!(bed.runs().await.len(), 1);
    // The same build with another image is refused for the first workflow, whose key was used.
    let other = DIGEST.replace('2', "3");
    let disposition = bed.gateway.handle(&build("all-images", &other)).await;
    assert!(
        matches!(&disposition, Disposition::Park(why) if why.starts_with("a: this key was used before")),
        "{disposition:?}"
    );
    assert_eq!(bed.runs().await.len(), 2);
}

/// Text of the first fenced block of docs/TRIGGERS.md in this language.
fn example(language: &str) -> String {
    let text = include_str!("../../../../docs/TRIGGERS.md");
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// An event as the subscription pushes it: the message's data, and its attributes as headers.
async fn push_message(bed: &GatewayBed, attributes: &[(String, String)], data: &str) -> Vec<String> {
    let headers: Vec<_> = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(bed.send("POST", "/", &headers, data).await.0, 204);
    bed.runs().await
}

/// The documented examples start a run: the arguments of `gcloud`, and the request that the Python program sends when
/// it is executed.
#[tokio::test]
async fn the_documented_messages_start_a_run() {
    let bed = GatewayBed::new(&[("nightly", "")]);
    let gcloud = example("sh");
    let (_, rest) = gcloud.split_once("--message '").unwrap();
    let (data, rest) = rest.split_once('\'').unwrap();
    let (_, attributes) = rest.split_once("--attribute ").unwrap();
    let attributes: Vec<_> = attributes
        .split(',')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(push_message(&bed, &attributes, data).await.len(), 1);

    let folder = tempfile::tempdir().unwrap();
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let api = format!("http://{}", server.local_addr().unwrap());
    std::fs::write(folder.path().join("gcloud"), "#!/bin/sh\necho token-1\n").unwrap();
    std::process::Command::new("chmod").arg("+x").arg(folder.path().join("gcloud")).status().unwrap();
    let program = example("python").replace("https://pubsub.googleapis.com", &api);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let python =
        std::process::Command::new("python3").args(["-c", &program]).env("PATH", path).spawn().unwrap();
    let (request, body) = answered(&server, r#"{"messageIds": ["1"]}"#);
    assert!(python.wait_with_output().unwrap().status.success());
    assert!(request.starts_with("POST /v1/projects/PROJECT/topics/burnin-gateway:publish "), "{request}");
    assert!(request.to_ascii_lowercase().contains("authorization: bearer token-1"), "{request}");
    let sent: Value = serde_json::from_str(&body).unwrap();
    let message = &sent["messages"][0];
    let attributes = message["attributes"].as_object().unwrap().iter();
    let attributes: Vec<_> =
        attributes.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    let data = base64::engine::general_purpose::STANDARD.decode(message["data"].as_str().unwrap()).unwrap();
    let data = String::from_utf8(data).unwrap();
    assert_eq!(push_message(&bed, &attributes, &data).await.len(), 2);
    assert_eq!(
        push_message(&bed, &attributes, &data).await.len(),
        2,
        "a redelivered message requests no second run"
    );
}

/// Answers one HTTP request with this JSON; returns its head and its body.
fn answered(server: &std::net::TcpListener, json: &str) -> (String, String) {
    use std::io::{Read, Write};
    let (mut stream, _) = server.accept().unwrap();
    let mut read = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).unwrap();
        read.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase().lines().find_map(|line| {
            line.strip_prefix("content-length: ").map(|length| length.parse::<usize>().unwrap())
        });
        if body.len() >= length.unwrap() {
            let length = json.len();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{json}")
                .unwrap();
            return (head.to_owned(), body.to_owned());
        }
    }
}
