//! Tests the stand-in's rules over plain HTTP.

use std::time::Duration;

use bigquery_standin::{BigQueryStandIn, Fault, FaultTarget};
use serde_json::{Value, json};
use storage_standin::{Options, StandIn};

const TABLE: &str = "p.d.rows";

struct TableBed {
    bucket: StandIn,
    bigquery: BigQueryStandIn,
    http: reqwest::Client,
}

impl TableBed {
    async fn new() -> Self {
        let bucket = StandIn::start(Options::default()).await.unwrap();
        let bigquery = BigQueryStandIn::serve(bucket.url()).await.unwrap();
        let schema = json!([
            {"name": "run", "type": "STRING", "mode": "REQUIRED"},
            {"name": "count", "type": "INTEGER", "mode": "NULLABLE"},
            {"name": "time", "type": "FLOAT", "mode": "NULLABLE"},
            {"name": "at", "type": "TIMESTAMP", "mode": "NULLABLE"},
        ]);
        bigquery.table("p", "d", "rows", &schema).unwrap();
        Self { bucket, bigquery, http: reqwest::Client::new() }
    }

    /// Creates an object with these lines; returns its source URI.
    fn object(&self, name: &str, lines: &str) -> String {
        self.bucket.put("bucket", name, lines.to_owned());
        format!("gs://bucket/{name}")
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}/bigquery/v2/projects/p/{path}", self.bigquery.endpoint);
        let answer = self.http.post(url).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let url = format!("{}/bigquery/v2/projects/p/{path}", self.bigquery.endpoint);
        let answer = self.http.get(url).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn insert(&self, id: &str, uris: &[String]) -> (u16, Value) {
        self.post("jobs", &job(id, uris)).await
    }

    /// A job's final status, and its earlier states.
    async fn ended(&self, id: &str) -> (Value, Vec<String>) {
        let mut seen = Vec::new();
        loop {
            let (status, job) = self.get(&format!("jobs/{id}?location=europe-west4")).await;
            assert_eq!(status, 200, "{job}");
            match job["status"]["state"].as_str().unwrap() {
                "DONE" => return (job["status"].clone(), seen),
                state if seen.last().is_none_or(|last| last != state) => seen.push(state.to_owned()),
                _ => {}
            }
        }
    }

    fn rows(&self) -> u64 {
        self.bigquery.count(TABLE, &["run"]).unwrap().values().sum()
    }
}

fn job(id: &str, uris: &[String]) -> Value {
    json!({
        "jobReference": {"projectId": "p", "jobId": id, "location": "europe-west4"},
        "configuration": {"load": {
            "sourceUris": uris,
            "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "rows"},
            "sourceFormat": "NEWLINE_DELIMITED_JSON",
            "createDisposition": "CREATE_NEVER",
            "writeDisposition": "WRITE_APPEND",
        }},
    })
}

#[tokio::test]
async fn an_id_can_be_used_once_regardless_of_its_jobs_result() {
    let bed = TableBed::new().await;
    let uris = [bed.object("good", "{\"run\":\"a\"}\n")];
    bed.bigquery.fault(FaultTarget::Job, Fault::Fails("backendError"));
    for id in ["fails", "loads"] {
        assert_eq!(bed.insert(id, &uris).await.0, 200);
        bed.ended(id).await;
        let (status, error) = bed.insert(id, &uris).await;
        assert_eq!((status, &error["error"]["errors"][0]["reason"]), (409, &json!("duplicate")));
        assert_eq!(error["error"]["message"], format!("Already Exists: Job p:europe-west4.{id}"));
    }
    assert_eq!(bed.ended("fails").await.0["errorResult"]["reason"], "backendError");
    assert_eq!(bed.rows(), 1);
    // A load under another id appends the rows again: tables have no keys.
    bed.insert("again", &uris).await;
    assert_eq!((bed.ended("again").await.0, bed.rows()), (json!({"state": "DONE"}), 2));
    assert_eq!(bed.get("jobs/again?location=US").await.0, 404, "a job is found in its own location only");
}

#[tokio::test]
async fn a_job_advances_from_pending_through_running_to_done() {
    let bed = TableBed::new().await;
    bed.bigquery.jobs_take(Duration::from_millis(2_000));
    let uris = [bed.object("good", "{\"run\":\"a\"}\n")];
    let mut states = Vec::new();
    for id in ["a", "b", "c", "d"] {
        let (_, job) = bed.insert(id, &uris).await;
        assert_eq!(job["status"]["state"], "PENDING");
        let (_, seen) = bed.ended(id).await;
        states.extend(seen);
    }
    assert!(states.contains(&"PENDING".to_owned()) && states.contains(&"RUNNING".to_owned()), "{states:?}");
}

#[tokio::test]
async fn a_load_appends_all_rows_or_none_with_a_reason() {
    let bed = TableBed::new().await;
    let good =
        bed.object("good", "{\"run\":\"a\",\"count\":1,\"time\":0.5,\"at\":\"2026-11-20T02:00:00Z\"}\n");
    for (number, (line, why)) in [
        ("{\"run\":\"b\",\"colour\":1}", "No such field: colour."),
        ("{\"count\":1}", "Missing required field: run."),
        ("{\"run\":null}", "Missing required field: run."),
        ("{\"run\":1}", "Could not convert value 1 to STRING. Field: run."),
        ("{\"run\":\"b\",\"count\":1.5}", "Could not convert value 1.5 to INTEGER. Field: count."),
        ("{\"run\":\"b\",\"count\":9223372036854775808}", "to INTEGER. Field: count."),
        ("{\"run\":\"b\",\"at\":\"+12026-11-20T02:00:00Z\"}", "to TIMESTAMP. Field: at."),
        ("{\"run\":\"b\"", "Parser terminated:"),
    ]
    .into_iter()
    .enumerate()
    {
        let bad = bed.object(&format!("bad-{number}"), &format!("{{\"run\":\"b\"}}\n{line}\n"));
        let id = format!("job-{number}");
        assert_eq!(bed.insert(&id, &[good.clone(), bad.clone()]).await.0, 200);
        let (status, _) = bed.ended(&id).await;
        let (result, errors) = (&status["errorResult"], status["errors"].as_array().unwrap());
        assert_eq!((&result["reason"], &result["location"]), (&json!("invalid"), &json!(bad)));
        assert!(result["message"].as_str().unwrap().contains("too many errors, giving up"), "{result}");
        let last = errors.last().unwrap()["message"].as_str().unwrap();
        assert!(last.contains("row starting at position 12") && last.contains(why), "{why}: {last}");
        assert_eq!(bed.rows(), 0, "{why}");
    }
    assert_eq!(bed.insert("missing", &[good.clone(), "gs://bucket/nothing".to_owned()]).await.0, 200);
    assert_eq!(bed.ended("missing").await.0["errorResult"]["reason"], "notFound");
    bed.bigquery.quota(3);
    assert_eq!(bed.insert("too-many", std::slice::from_ref(&good)).await.0, 200);
    assert_eq!(bed.ended("too-many").await.0["errorResult"]["reason"], "quotaExceeded");
    assert_eq!(bed.rows(), 0);
    bed.bigquery.clear_faults();
    bed.insert("good", &[good]).await;
    assert_eq!((bed.ended("good").await.0, bed.rows()), (json!({"state": "DONE"}), 1));
}

#[tokio::test]
async fn unsupported_requests_are_rejected() {
    let bed = TableBed::new().await;
    let good = [bed.object("good", "{\"run\":\"a\"}\n")];
    let with = |field: &str, value: Value| {
        let mut job = job("id", &good);
        job["configuration"]["load"][field] = value;
        job
    };
    for job in [
        with("autodetect", json!(true)),
        with("maxBadRecords", json!(1)),
        with("writeDisposition", json!("WRITE_TRUNCATE")),
        with("schema", json!({"fields": []})),
        with("sourceUris", json!([])),
        job("", &good),
        job("a b", &good),
    ] {
        let (status, error) = bed.post("jobs", &job).await;
        assert_eq!((status, &error["error"]["status"]), (400, &json!("INVALID_ARGUMENT")), "{job}");
    }
    for (query, why) in [
        (json!({"query": "SELECT 1", "location": "europe-west4"}), "legacy SQL"),
        (json!({"query": "SELECT 1", "useLegacySql": false, "location": "US"}), "Not found: Dataset"),
        (json!({"query": "SELECT @a", "useLegacySql": false, "location": "europe-west4"}), "'a' not found"),
        (
            json!({"query": "DELETE FROM `p.d.rows`", "useLegacySql": false, "location": "europe-west4"}),
            "only SELECT is supported",
        ),
    ] {
        let (status, error) = bed.post("queries", &query).await;
        assert!(
            matches!(status, 400 | 404) && error["error"]["message"].as_str().unwrap().contains(why),
            "{query}: {error}"
        );
    }
    assert!(bed.bigquery.jobs().is_empty());
}
