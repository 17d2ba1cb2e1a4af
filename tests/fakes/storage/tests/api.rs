//! Compares the stand-in with Cloud Storage's documentation, including requests that Burnin's store does not send.

use std::time::Duration;

use axum::{Json, Router, extract::State, routing::post};
use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use storage_standin::{Options, StandIn};
use tokio::sync::mpsc;

async fn standin() -> (StandIn, Client, String) {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let standin = StandIn::start(Options { pause: Duration::ZERO, ..Options::default() }).await.unwrap();
    let url = standin.url().to_owned();
    (standin, Client::new(), url)
}

async fn send(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
}

#[tokio::test]
async fn preconditions_compare_generations_and_metagenerations() {
    let (_standin, http, url) = standin().await;
    let put = |query: &str, body: &'static str| {
        let url = format!("{url}/upload/storage/v1/b/bucket/o?uploadType=media&name=a%2Fb&{query}");
        send(http.post(url).header("content-type", "text/plain").body(body))
    };
    let (status, first) = put("ifGenerationMatch=0", "123456789").await;
    assert_eq!((status, &first["size"], &first["metageneration"]), (200, &json!("9"), &json!("1")));
    // The check value of CRC-32C, 0xe3069283, and the MD5 that RFC 1321's tools print.
    let sums = (&json!("4waSgw=="), &json!("JfnnlDI7RTiF9RgfG2JNCw=="));
    assert_eq!((&first["crc32c"], &first["md5Hash"]), sums);
    let generation = first["generation"].as_str().unwrap();
    let (status, refused) = put("ifGenerationMatch=0", "two").await;
    assert_eq!((status, &refused["error"]["errors"][0]["reason"]), (412, &json!("conditionNotMet")));
    assert_eq!(put(&format!("ifGenerationNotMatch={generation}"), "two").await.0, 412);
    let (status, second) = put(&format!("ifGenerationMatch={generation}"), "two").await;
    assert_eq!(status, 200);
    assert!(second["generation"].as_str().unwrap() > generation);

    let object = format!("{url}/storage/v1/b/bucket/o/a%2Fb");
    let changed = send(http.patch(&object).json(&json!({"metadata": {"k": "v"}}))).await.1;
    assert_eq!((&changed["metageneration"], &changed["metadata"]["k"]), (&json!("2"), &json!("v")));
    let status = async |query: String| send(http.get(format!("{object}?{query}"))).await.0;
    assert_eq!(status("ifMetagenerationMatch=1".into()).await, 412);
    assert_eq!(status("ifMetagenerationNotMatch=2".into()).await, 304);
    assert_eq!(status(format!("generation={generation}")).await, 404, "only the live generation is kept");
    assert_eq!(send(http.delete(format!("{object}?ifGenerationMatch={generation}"))).await.0, 412);
    assert_eq!(send(http.delete(&object)).await.0, 204);
    assert_eq!(send(http.delete(&object)).await.0, 404);
}

#[tokio::test]
async fn a_resumable_upload_keeps_whole_units_until_it_is_cancelled_or_a_week_old() {
    const UNIT: usize = 256 << 10;
    let (standin, http, url) = standin().await;
    let start = async |name: &str| {
        let url = format!(
            "{url}/upload/storage/v1/b/bucket/o?uploadType=resumable&ifGenerationMatch=0&name={name}"
        );
        let answer = http.post(url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.headers()["location"].to_str().unwrap().to_owned()
    };
    // No request has credentials: any client with the URL of the session may write.
    let chunk = async |session: &str, range: &str, length: usize| {
        let request =
            http.put(session).header("content-range", format!("bytes {range}")).body(vec![b'a'; length]);
        let answer = request.send().await.unwrap();
        (
            answer.status().as_u16(),
            answer.headers().get("range").map(|range| range.to_str().unwrap().to_owned()),
        )
    };
    let kept = Some(format!("bytes=0-{}", UNIT - 1));
    let session = start("a").await;
    assert_eq!(chunk(&session, "*/*", 0).await, (308, None), "nothing is stored yet");
    assert_eq!(
        chunk(&session, "0-999/*", 1000).await,
        (400, None),
        "a chunk whose size is not a multiple of the unit"
    );
    assert_eq!(chunk(&session, &format!("0-{}/*", UNIT - 1), UNIT).await, (308, kept.clone()));
    assert_eq!(chunk(&session, "*/*", 0).await, (308, kept));
    assert_eq!(chunk(&session, &format!("{UNIT}-{}/{}", UNIT + 9, UNIT + 10), 10).await.0, 200);
    assert_eq!(standin.object("bucket", "a").unwrap().body.len(), UNIT + 10);

    // The precondition is checked at the start and at the end.
    let second = start("b").await;
    standin.put("bucket", "b", "another writer was faster");
    assert_eq!(chunk(&second, "0-9/10", 10).await.0, 412);
    assert_eq!(standin.object("bucket", "b").unwrap().body, "another writer was faster");

    let (cancelled, expired) = (start("c").await, start("d").await);
    assert_eq!(http.delete(&cancelled).send().await.unwrap().status(), 499);
    assert_eq!(chunk(&cancelled, "0-9/10", 10).await.0, 404);
    standin.age_uploads(Duration::from_hours(7 * 24));
    assert_eq!(chunk(&expired, "0-9/10", 10).await.0, 410);
    assert_eq!(standin.names("bucket"), ["a", "b"]);
}

#[tokio::test]
async fn bytes_that_differ_from_the_stated_checksum_are_rejected() {
    let (standin, http, url) = standin().await;
    let wrong = format!("crc32c={}", STANDARD.encode([1, 2, 3, 4]));
    let url = format!("{url}/upload/storage/v1/b/bucket/o?uploadType=media&name=a");
    let (status, body) = send(http.post(url).header("x-goog-hash", wrong).body("one")).await;
    assert!(status == 400 && body["error"]["message"].as_str().unwrap().contains("crc32c"), "{body}");
    assert!(standin.names("bucket").is_empty());
}

#[tokio::test]
async fn a_range_request_returns_the_requested_bytes() {
    let (standin, http, url) = standin().await;
    standin.put("bucket", "a", "0123456789");
    let table = [
        ("bytes=2-4", 206, "234"),
        ("bytes=7-", 206, "789"),
        ("bytes=-2", 206, "89"),
        ("bytes=8-100", 206, "89"),
        ("bytes=10-", 416, ""),
    ];
    for (range, status, text) in table {
        let request = http.get(format!("{url}/storage/v1/b/bucket/o/a?alt=media")).header("range", range);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{range}");
        if status == 206 {
            assert_eq!(answer.headers()["x-goog-stored-content-length"], "10");
            assert_eq!(answer.text().await.unwrap(), text, "{range}");
        }
    }
}

#[tokio::test]
async fn a_list_is_folded_at_a_delimiter_and_split_into_pages() {
    let (standin, http, url) = standin().await;
    for name in ["a/1", "a/2", "b", "c/1", "d"] {
        standin.put("bucket", name, "");
    }
    let (mut seen, mut sizes, mut token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = format!("{url}/storage/v1/b/bucket/o?delimiter=/&maxResults=2&pageToken={token}");
        let page = send(http.get(page)).await.1;
        let before = seen.len();
        seen.extend(page["prefixes"].as_array().into_iter().flatten().cloned());
        seen.extend(page["items"].as_array().into_iter().flatten().map(|item| item["name"].clone()));
        sizes.push(seen.len() - before);
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.replace('/', "%2F"),
            None => break,
        }
    }
    assert_eq!(seen, ["a/", "b", "c/", "d"]);
    assert_eq!(sizes, [2, 0, 2], "an empty page may have a token");
}

#[tokio::test]
async fn an_object_with_an_invalid_name_is_refused() {
    let (standin, http, url) = standin().await;
    let long = "a".repeat(1025);
    for name in ["a%0Ab", "a%0Db", ".", "..", ".well-known/acme-challenge/a", &long] {
        let upload = format!("{url}/upload/storage/v1/b/bucket/o?uploadType=media&name={name}");
        assert_eq!(send(http.post(upload).body("x")).await.0, 400, "{name}");
    }
    assert!(standin.names("bucket").is_empty());
    let upload = format!("{url}/upload/storage/v1/b/bucket/o?uploadType=media&name={}", &long[1..]);
    assert_eq!(send(http.post(upload).body("x")).await.0, 200);
}

#[tokio::test]
async fn a_listing_begins_at_the_start_offset_and_includes_it() {
    let (standin, http, url) = standin().await;
    for name in ["a/1", "a/2", "a/3", "b"] {
        standin.put("bucket", name, "");
    }
    let listed = async |query: &str| {
        let page = send(http.get(format!("{url}/storage/v1/b/bucket/o?{query}"))).await.1;
        page["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed("prefix=a/&startOffset=a/2").await, ["a/2", "a/3"]);
    assert_eq!(listed("prefix=a/&startOffset=a/2.5").await, ["a/3"], "the offset need not exist");
    assert_eq!(listed("prefix=a/&startOffset=b").await, [""; 0]);
}

#[tokio::test]
async fn notifications_of_objects_are_pushed_until_acknowledged() {
    let (standin, http, url) = standin().await;
    let wanted = json!({
        "topic": "//pubsub.googleapis.com/projects/p/topics/t", "payload_format": "JSON_API_V1",
        "event_types": ["OBJECT_FINALIZE"], "object_name_prefix": "logs/",
    });
    let made =
        send(http.post(format!("{url}/storage/v1/b/bucket/notificationConfigs")).json(&wanted)).await.1;
    assert_eq!(made["id"], "1");

    let (pushed, mut pushes) = mpsc::unbounded_channel();
    let take = async |State(pushed): State<mpsc::UnboundedSender<Value>>, Json(push): Json<Value>| {
        pushed.send(push).unwrap();
    };
    let callback = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = callback.local_addr().unwrap();
    let routes = Router::new().route("/", post(take)).with_state(pushed);
    tokio::spawn(async move { axum::serve(callback, routes).await });

    standin.put("bucket", "other", "x");
    standin.put("bucket", "logs/1", "x");
    let push = json!({"url": format!("http://{address}/")});
    assert_eq!(send(http.post(format!("{url}/standin/push")).json(&push)).await.0, 204);
    standin.put("bucket", "logs/2", "xy");
    let mut names = Vec::new();
    while names.len() < 2 {
        let push = pushes.recv().await.unwrap();
        let message = &push["message"];
        assert_eq!(message["attributes"]["eventType"], "OBJECT_FINALIZE");
        let data = STANDARD.decode(message["data"].as_str().unwrap()).unwrap();
        let object: Value = serde_json::from_slice(&data).unwrap();
        assert_eq!(object["name"], message["attributes"]["objectId"]);
        names.push(object["name"].clone());
    }
    assert_eq!(names, ["logs/1", "logs/2"]);
}

#[tokio::test]
async fn faults_can_be_injected_over_http() {
    let (standin, http, url) = standin().await;
    standin.put("bucket", "a", "x");
    let fault = json!({"on": "get", "kind": {"refuse": 503}, "times": 1});
    assert_eq!(send(http.post(format!("{url}/standin/faults")).json(&fault)).await.0, 204);
    let object = format!("{url}/storage/v1/b/bucket/o/a");
    assert_eq!(send(http.get(&object)).await.0, 503);
    assert_eq!(send(http.get(&object)).await.0, 200);
}
