//! Statements, executed by SQLite.

use std::collections::BTreeMap;

use rusqlite::{
    Connection,
    types::{Value as Cell, ValueRef},
};
use serde_json::{Value, json};

use crate::{WarehouseState, load::micros, refusal::Refusal};

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(400, "invalidQuery", why)
}

/// Executes a statement; returns the first page of its result.
pub(crate) fn ask(inner: &mut WarehouseState, project: &str, request: &Value) -> Result<Value, Refusal> {
    if request["useLegacySql"] != false {
        return Err(invalid("legacy SQL is not supported: useLegacySql must be false"));
    }
    let location = request["location"].as_str().unwrap_or("US").to_owned();
    if location != inner.location {
        return Err(Refusal::new(404, "notFound", format!("Not found: Dataset in location {location}")));
    }
    let statement = request["query"].as_str().ok_or_else(|| invalid("no query"))?;
    let values = values(request)?;
    let plain = request["formatOptions"]["useInt64Timestamp"] == true;
    let rows = select(inner, statement, &values, plain)?;
    let id = format!("job_{}", inner.jobs.len());
    let key = (project.to_owned(), location.clone(), id.clone());
    let job = json!({
        "jobReference": {"projectId": project, "jobId": id, "location": location},
        "status": {"state": "DONE"}, "answer": rows,
    });
    inner.jobs.insert(key.clone(), job);
    page(inner, &key, "")
}

pub(crate) fn page(
    inner: &WarehouseState,
    key: &(String, String, String),
    token: &str,
) -> Result<Value, Refusal> {
    let unknown = || Refusal::new(404, "notFound", format!("Not found: Job {}:{}.{}", key.0, key.1, key.2));
    let job = inner.jobs.get(key).ok_or_else(unknown)?;
    let rows = job["answer"].as_array().ok_or_else(|| invalid("not a query"))?;
    let from = if token.is_empty() { 0 } else { token.parse().map_err(|_| invalid("Invalid page token"))? };
    let shown: Vec<_> = rows.iter().skip(from).take(inner.page).cloned().collect();
    let next = from + shown.len();
    let mut answer = json!({
        "kind": "bigquery#queryResponse", "jobReference": job["jobReference"], "jobComplete": true,
        "totalRows": rows.len().to_string(), "rows": shown,
    });
    if next < rows.len() {
        answer["pageToken"] = next.to_string().into();
    }
    Ok(answer)
}

/// Values of named parameters, by name.
fn values(request: &Value) -> Result<BTreeMap<String, Cell>, Refusal> {
    let parameters = request["queryParameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() && request["parameterMode"] != "NAMED" {
        return Err(invalid("parameterMode is not NAMED"));
    }
    let one = |parameter: &Value| {
        let name = parameter["name"].as_str()?.to_owned();
        let (kind, value) = (&parameter["parameterType"], &parameter["parameterValue"]);
        let text = value["value"].as_str();
        let cell = match kind["type"].as_str()? {
            "STRING" => Cell::Text(text?.to_owned()),
            "INT64" => Cell::Integer(text?.parse().ok()?),
            "TIMESTAMP" => Cell::Integer(micros(text?)?),
            "ARRAY" if kind["arrayType"]["type"] == "STRING" => {
                let members = value["arrayValues"].as_array().map(Vec::as_slice).unwrap_or_default();
                let texts: Option<Vec<_>> = members.iter().map(|member| member["value"].as_str()).collect();
                Cell::Text(json!(texts?).to_string())
            }
            _ => return None,
        };
        Some((name, cell))
    };
    parameters
        .iter()
        .map(|parameter| one(parameter).ok_or_else(|| invalid(format!("parameter {parameter}"))))
        .collect()
}

fn select(
    inner: &WarehouseState,
    statement: &str,
    values: &BTreeMap<String, Cell>,
    plain: bool,
) -> Result<Vec<Value>, Refusal> {
    let mut sqlite = statement.to_owned();
    for name in values.keys() {
        sqlite = sqlite
            .replace(&format!("IN UNNEST(@{name})"), &format!("IN (SELECT value FROM json_each(@{name}))"));
    }
    let wrong = |error: rusqlite::Error| invalid(format!("{error}: {statement}"));
    let mut select = inner.rows.prepare(&sqlite).map_err(wrong)?;
    if !select.readonly() {
        return Err(invalid("only SELECT is supported"));
    }
    for place in 1..=select.parameter_count() {
        let name = select.parameter_name(place).unwrap_or_default().trim_start_matches('@').to_owned();
        let value =
            values.get(&name).ok_or_else(|| invalid(format!("Query parameter '{name}' not found")))?;
        select.raw_bind_parameter(place, value).map_err(wrong)?;
    }
    let is_moment = |name: &str| {
        inner.tables.values().flatten().any(|column| column.name == name && column.kind == "TIMESTAMP")
    };
    let moments: Vec<_> = select.column_names().map(is_moment).collect();
    let mut rows = select.raw_query();
    let mut result = Vec::new();
    while let Some(row) = rows.next().map_err(wrong)? {
        let mut cells = Vec::new();
        for (at, moment) in moments.iter().enumerate() {
            let cell = match row.get_ref(at).map_err(wrong)? {
                // Every value is returned as text.
                ValueRef::Integer(micros) if *moment && !plain => format!("{:E}", micros as f64 / 1e6).into(),
                ValueRef::Integer(whole) => whole.to_string().into(),
                ValueRef::Real(real) => format!("{real:?}").into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
                ValueRef::Null | ValueRef::Blob(_) => Value::Null,
            };
            cells.push(json!({"v": cell}));
        }
        result.push(json!({"f": cells}));
    }
    Ok(result)
}

pub(crate) fn count(
    rows: &Connection,
    table: &str,
    columns: &[&str],
) -> rusqlite::Result<BTreeMap<Vec<String>, u64>> {
    let texts: Vec<_> = columns.iter().map(|column| format!("CAST(`{column}` AS TEXT)")).collect();
    let groups: Vec<_> = (1..=columns.len()).map(|place| place.to_string()).collect();
    let statement =
        format!("SELECT {}, COUNT(*) FROM `{table}` GROUP BY {}", texts.join(", "), groups.join(", "));
    let mut count = rows.prepare(&statement)?;
    let counted = count.query_map([], |row| {
        let key = (0..columns.len()).map(|at| row.get(at)).collect::<Result<_, _>>()?;
        Ok((key, row.get::<_, i64>(columns.len())?.unsigned_abs()))
    })?;
    counted.collect()
}
