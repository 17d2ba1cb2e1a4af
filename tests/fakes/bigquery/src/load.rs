//! Load jobs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rusqlite::{Connection, types::Value as Cell};
use serde_json::{Map, Value, json};

use crate::{BigQueryState, Fault, FaultTarget, TableColumn, WarehouseState, refusal::Refusal};

/// Known fields of a load; a job with others is rejected, so that no field is ignored.
const SUPPORTED_FIELDS: [&str; 8] = [
    "sourceUris",
    "destinationTable",
    "sourceFormat",
    "createDisposition",
    "writeDisposition",
    "maxBadRecords",
    "ignoreUnknownValues",
    "autodetect",
];

type JobKey = (String, String, String);

pub(crate) fn make(rows: &Connection, name: &str, columns: &[TableColumn]) -> rusqlite::Result<()> {
    let columns: Vec<_> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
    rows.execute_batch(&format!("CREATE TABLE `{name}` ({})", columns.join(", ")))
}

fn now() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string()
}

/// Starts a job in the background.
pub(crate) fn begin(state: &BigQueryState, project: &str, mut job: Value) -> Result<Value, Refusal> {
    let invalid = |why: String| Refusal::new(400, "invalid", why);
    let reference = &job["jobReference"];
    let id = reference["jobId"].as_str().unwrap_or_default().to_owned();
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if id.is_empty() || id.len() > 1024 || !id.bytes().all(legal) {
        return Err(invalid(format!("Invalid job ID \"{id}\"")));
    }
    if reference["projectId"] != project {
        return Err(invalid(
            "Value for projectId in content does not agree with value in request".to_owned(),
        ));
    }
    let mut inner = state.lock();
    let location = reference["location"].as_str().unwrap_or("US").to_owned();
    let load = &job["configuration"]["load"];
    let strange = load
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .find(|key| !SUPPORTED_FIELDS.contains(&key.as_str()));
    if let Some(field) = strange {
        return Err(invalid(format!("this stand-in does not support configuration.load.{field}")));
    }
    for (field, only) in [
        ("sourceFormat", json!("NEWLINE_DELIMITED_JSON")),
        ("createDisposition", json!("CREATE_NEVER")),
        ("writeDisposition", json!("WRITE_APPEND")),
    ] {
        if load[field] != only {
            return Err(invalid(format!(
                "this stand-in supports only {only} for configuration.load.{field}"
            )));
        }
    }
    for field in ["maxBadRecords", "ignoreUnknownValues", "autodetect"] {
        if !matches!(&load[field], Value::Null | Value::Bool(false)) && load[field] != 0 {
            return Err(invalid(format!("this stand-in does not support configuration.load.{field}")));
        }
    }
    let uris = load["sourceUris"].as_array().map_or(0, Vec::len);
    if uris == 0 || uris > 10_000 {
        return Err(invalid(format!("expected 1 to 10000 source URIs, found {uris}")));
    }
    let key: JobKey = (project.to_owned(), location.clone(), id.clone());
    if inner.jobs.contains_key(&key) {
        return Err(Refusal::new(409, "duplicate", format!("Already Exists: Job {project}:{location}.{id}")));
    }
    job["kind"] = "bigquery#job".into();
    job["id"] = format!("{project}:{location}.{id}").into();
    job["configuration"]["jobType"] = "LOAD".into();
    job["status"] = json!({"state": "PENDING"});
    job["statistics"] = json!({"creationTime": now()});
    inner.jobs.insert(key.clone(), job.clone());
    let addresses = location != inner.location;
    let takes = inner.takes.mul_f64(fastrand::f64());
    drop(inner);
    tokio::spawn(run(state.clone(), key, takes, addresses));
    Ok(job)
}

/// Failure of a job that wrote no rows.
struct LoadFailure {
    reason: &'static str,
    message: String,
    location: Option<String>,
    more: Vec<String>,
}

impl LoadFailure {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), location: None, more: Vec::new() }
    }

    fn status(&self) -> Value {
        let proto = |message: &String| {
            let mut proto = json!({"reason": self.reason, "message": message});
            if let Some(location) = &self.location {
                proto["location"] = location.as_str().into();
            }
            proto
        };
        let errors: Vec<_> = [&self.message].into_iter().chain(&self.more).map(proto).collect();
        json!({"state": "DONE", "errorResult": errors[0], "errors": errors})
    }
}

async fn run(state: BigQueryState, key: JobKey, takes: Duration, addresses: bool) {
    tokio::time::sleep(takes / 2).await;
    let (load, fault) = {
        let mut inner = state.lock();
        let fault = inner.fault(FaultTarget::Job);
        let Some(job) = inner.jobs.get_mut(&key) else { return };
        job["status"]["state"] = "RUNNING".into();
        job["statistics"]["startTime"] = now().into();
        (job["configuration"]["load"].clone(), fault)
    };
    tokio::time::sleep(takes / 2).await;
    let bodies = match fault {
        Some(Fault::Fails(reason)) => Err(LoadFailure::new(reason, "injected fault")),
        _ if addresses => {
            Err(LoadFailure::new("notFound", format!("Not found: Dataset in location {}", key.1)))
        }
        _ => fetch(&state, &load["sourceUris"]).await,
    };
    let mut inner = state.lock();
    let ended = bodies.and_then(|bodies| append(&mut inner, &load["destinationTable"], &bodies));
    let Some(job) = inner.jobs.get_mut(&key) else { return };
    job["statistics"]["endTime"] = now().into();
    job["status"] = match ended {
        Err(failure) => failure.status(),
        Ok(rows) => {
            job["statistics"]["load"] = json!({"outputRows": rows.to_string()});
            json!({"state": "DONE"})
        }
    };
}

async fn fetch(state: &BigQueryState, uris: &Value) -> Result<Vec<(String, String)>, LoadFailure> {
    let mut bodies = Vec::new();
    for uri in uris.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let place = uri.strip_prefix("gs://").and_then(|place| place.split_once('/'));
        let Some((bucket, name)) = place.filter(|(_, name)| !name.contains('*')) else {
            return Err(LoadFailure::new("badRequest", format!("this stand-in does not support {uri}")));
        };
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        let url = format!("{}/storage/v1/b/{bucket}/o/{name}?alt=media", state.storage);
        // BigQuery repeats interrupted reads, so a test's storage faults affect only the client.
        let mut read = Err("not read".to_owned());
        for _ in 0..20 {
            read = match state.http.get(&url).send().await {
                Ok(answer) if answer.status() == 404 => {
                    return Err(LoadFailure::new("notFound", format!("Not found: URI {uri}")));
                }
                Ok(answer) if answer.status().is_success() => {
                    answer.text().await.map_err(|error| error.to_string())
                }
                Ok(answer) => Err(answer.status().to_string()),
                Err(error) => Err(error.to_string()),
            };
            if read.is_ok() {
                break;
            }
        }
        bodies.push((uri.to_owned(), read.map_err(|why| LoadFailure::new("backendError", why))?));
    }
    Ok(bodies)
}

/// Appends all rows or none.
fn append(
    inner: &mut WarehouseState,
    table: &Value,
    bodies: &[(String, String)],
) -> Result<u64, LoadFailure> {
    let part = |field: &str| table[field].as_str().unwrap_or_default();
    let name = format!("{}.{}.{}", part("projectId"), part("datasetId"), part("tableId"));
    let Some(columns) = inner.tables.get(&name).cloned() else {
        return Err(LoadFailure::new("notFound", format!("Not found: Table {name}")));
    };
    let mine = |job: &&Value| &job["configuration"]["load"]["destinationTable"] == table;
    let loads = inner.jobs.values().filter(mine).count();
    if inner.quota.is_some_and(|quota| loads > quota as usize) {
        let message = "Quota exceeded: Your table exceeded quota for imports or query appends per table.";
        return Err(LoadFailure::new("quotaExceeded", message));
    }
    let broken = |error: rusqlite::Error| LoadFailure::new("internalError", error.to_string());
    let dislikes = inner.dislikes.clone();
    let transaction = inner.rows.transaction().map_err(broken)?;
    let places: Vec<_> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
    let insert = format!("INSERT INTO `{name}` VALUES ({})", places.join(", "));
    let mut rows = 0;
    for (uri, body) in bodies {
        let mut start = 0;
        for line in body.split_inclusive('\n') {
            let disliked = dislikes.as_ref().is_some_and(|text| line.contains(text.as_str()));
            let cells = if disliked { Err("an unknown reason".to_owned()) } else { cells(line, &columns) };
            let cells = cells.map_err(|why| {
                let read = "Error while reading data, error message: JSON";
                let counts = "giving up. Rows: 1; errors: 1; max bad: 0; error percent: 0";
                LoadFailure {
                    reason: "invalid",
                    message: format!("{read} table encountered too many errors, {counts}"),
                    location: Some(uri.clone()),
                    more: vec![
                        format!("{read} processing encountered too many errors, {counts}"),
                        format!(
                            "{read} parsing error in row starting at position {start}: {why} File: {uri}"
                        ),
                    ],
                }
            })?;
            transaction.execute(&insert, rusqlite::params_from_iter(cells)).map_err(broken)?;
            start += line.len();
            rows += 1;
        }
    }
    transaction.commit().map_err(broken)?;
    Ok(rows)
}

fn cells(line: &str, columns: &[TableColumn]) -> Result<Vec<Cell>, String> {
    let row: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| format!("Parser terminated: {error}."))?;
    if let Some(field) = row.keys().find(|field| !columns.iter().any(|column| column.name == **field)) {
        return Err(format!("No such field: {field}."));
    }
    columns.iter().map(|column| cell(column, row.get(&column.name).unwrap_or(&Value::Null))).collect()
}

fn cell(column: &TableColumn, value: &Value) -> Result<Cell, String> {
    let wrong = || format!("Could not convert value {value} to {}. Field: {}.", column.kind, column.name);
    Ok(match (column.kind.as_str(), value) {
        (_, Value::Null) if column.mode == "REQUIRED" => {
            return Err(format!("Missing required field: {}.", column.name));
        }
        (_, Value::Null) => Cell::Null,
        ("STRING", Value::String(text)) => Cell::Text(text.clone()),
        ("INTEGER", Value::Number(number)) => Cell::Integer(number.as_i64().ok_or_else(wrong)?),
        ("FLOAT", Value::Number(number)) => Cell::Real(number.as_f64().ok_or_else(wrong)?),
        ("TIMESTAMP", Value::String(text)) => Cell::Integer(micros(text).ok_or_else(wrong)?),
        _ => return Err(wrong()),
    })
}

/// Microseconds since 1970, within BigQuery's range.
pub(crate) fn micros(text: &str) -> Option<i64> {
    let micros = chrono::DateTime::parse_from_rfc3339(text).ok()?.timestamp_micros();
    (-62_135_596_800_000_000..=253_402_300_799_999_999).contains(&micros).then_some(micros)
}
