//! Queries. Statements are constants; every value is a named parameter.

use std::collections::BTreeMap;

use google_cloud_bigquery_v2::model::{QueryParameter, QueryParameterType, QueryParameterValue};
use model::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::client::BigQueryClient;
use crate::{
    ColumnType, Error, FindingRow, MeasurementKind, MeasurementRow, MetricRow, NodeResultRow, PastQuery,
    PastRun, SharedText, TABLES, TableColumn, VerdictRow, WarehouseTable,
};

/// The common order of measurements.
const IN_ORDER: &str = "ORDER BY run, attempt, log, table_number, row_number, placement DESC";

/// Measurements of a run, in the order of its logs and tables.
pub async fn rows(client: &BigQueryClient, run: &str) -> Result<Vec<MeasurementRow>, Error> {
    let from = |table: &str| format!("FROM {table} WHERE run = @run {IN_ORDER}");
    select(client, "measurements", from, vec![text("run", run)]).await
}

pub async fn findings(client: &BigQueryClient, run: &str) -> Result<Vec<FindingRow>, Error> {
    let from = |table: &str| format!("FROM {table} WHERE run = @run ORDER BY attempt, log, finding_number");
    select(client, "findings", from, vec![text("run", run)]).await
}

pub async fn node_results(client: &BigQueryClient, run: &str) -> Result<Vec<NodeResultRow>, Error> {
    let from = |table: &str| format!("FROM {table} WHERE run = @run ORDER BY node, result");
    select(client, "node_results", from, vec![text("run", run)]).await
}

pub async fn metrics(client: &BigQueryClient, run: &str) -> Result<Vec<MetricRow>, Error> {
    let from = |table: &str| format!("FROM {table} WHERE run = @run ORDER BY attempt, log, metric_number");
    select(client, "metrics", from, vec![text("run", run)]).await
}

pub async fn verdicts(client: &BigQueryClient, run: &str) -> Result<Vec<VerdictRow>, Error> {
    let from = |table: &str| format!("FROM {table} WHERE run = @run ORDER BY attempt");
    select(client, "verdicts", from, vec![text("run", run)]).await
}

/// A cluster's history, oldest first.
pub async fn past(client: &BigQueryClient, wanted: &PastQuery) -> Result<Vec<PastRun>, Error> {
    let from = |table: &str| {
        format!(
            "FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY requested_at, run) AS from_the_first, \
             ROW_NUMBER() OVER (ORDER BY requested_at DESC, run DESC) AS from_the_last FROM {table} \
             WHERE workflow = @workflow AND identity = @identity AND requested_at < @before) \
             WHERE from_the_first <= @oldest OR from_the_last <= @newest ORDER BY requested_at, run"
        )
    };
    let values = vec![
        text("workflow", &wanted.workflow),
        text("identity", &wanted.identity),
        value("before", "TIMESTAMP", &wanted.before.to_string()),
        value("oldest", "INT64", &wanted.oldest.to_string()),
        value("newest", "INT64", &wanted.newest.to_string()),
    ];
    let mut runs: Vec<VerdictRow> = select(client, "verdicts", from, values).await?;
    runs.dedup_by(|a, b| a.run == b.run);
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(Vec::new()) };
    // Workflow and time range limit the part of the table that BigQuery reads.
    let of_runs = |order: &'static str| {
        move |table: &str| {
            format!(
                "FROM {table} WHERE workflow = @workflow AND run IN UNNEST(@runs) \
                 AND (requested_at IS NULL OR requested_at BETWEEN @first AND @last) ORDER BY run, attempt, log, {order}"
            )
        }
    };
    let time = |name, row: &VerdictRow| {
        value(name, "TIMESTAMP", &row.requested_at.unwrap_or(wanted.before).to_string())
    };
    let values = vec![
        text("workflow", &wanted.workflow),
        texts("runs", runs.iter().map(|run| &*run.run)),
        time("first", first),
        time("last", last),
    ];
    let mut measured: BTreeMap<SharedText, Vec<MeasurementRow>> = BTreeMap::new();
    let mut metrics: BTreeMap<SharedText, Vec<MetricRow>> = BTreeMap::new();
    match wanted.measured {
        MeasurementKind::Table => {
            let from = of_runs("table_number, row_number, placement DESC");
            for row in select::<MeasurementRow>(client, "measurements", from, values).await? {
                measured.entry(row.run.clone()).or_default().push(row);
            }
        }
        MeasurementKind::Metrics => {
            for row in select::<MetricRow>(client, "metrics", of_runs("metric_number"), values).await? {
                metrics.entry(row.run.clone()).or_default().push(row);
            }
        }
        MeasurementKind::Nothing => {}
    }
    let past = |run: &VerdictRow| {
        let (rows, metrics) = (measured.remove(&run.run), metrics.remove(&run.run));
        PastRun::of(run, &rows.unwrap_or_default(), &metrics.unwrap_or_default())
    };
    Ok(runs.iter().map(past).collect())
}

async fn select<T: DeserializeOwned>(
    client: &BigQueryClient,
    table: &str,
    from: impl FnOnce(&str) -> String,
    values: Vec<QueryParameter>,
) -> Result<Vec<T>, Error> {
    let columns =
        TABLES.iter().find(|known| known.name == table).map(WarehouseTable::columns).unwrap_or_default();
    let names: Vec<_> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
    let from = from(&format!("`{}.{table}`", client.dataset()));
    let statement = format!("SELECT {} {from}", names.join(", "));
    let rows = client.query(&statement, values).await?;
    rows.into_iter().map(|row| read(&columns, row)).collect()
}

/// A row from its cells, which are strings for every type.
fn read<T: DeserializeOwned>(columns: &[TableColumn], cells: Vec<Value>) -> Result<T, Error> {
    let strange = |why: String| Error::Transient(format!("BigQuery returned an unexpected row: {why}"));
    let mut row = Map::new();
    for (column, cell) in columns.iter().zip(cells) {
        let value = match (column.kind, &cell) {
            (_, Value::Null) | (ColumnType::Text, Value::String(_)) => Some(cell.clone()),
            (ColumnType::Integer, Value::String(text)) => text.parse::<i64>().ok().map(Value::from),
            (ColumnType::Float, Value::String(text)) => text.parse::<f64>().ok().map(Value::from),
            (ColumnType::Timestamp, Value::String(text)) => {
                let time = |micros: i64| Timestamp::from_millis(micros.div_euclid(1000)).to_string().into();
                text.parse().ok().map(time)
            }
            _ => None,
        };
        let value = value.ok_or_else(|| strange(format!("{} is {cell}", column.name)))?;
        row.insert(column.name.clone(), value);
    }
    serde_json::from_value(Value::Object(row)).map_err(|error| strange(error.to_string()))
}

fn kind(name: &str) -> QueryParameterType {
    QueryParameterType::new().set_type(name)
}

fn value(name: &str, of: &str, value: &str) -> QueryParameter {
    QueryParameter::new()
        .set_name(name)
        .set_parameter_type(kind(of))
        .set_parameter_value(QueryParameterValue::new().set_value(value))
}

fn text(name: &str, text: &str) -> QueryParameter {
    value(name, "STRING", text)
}

fn texts<'a>(name: &str, texts: impl Iterator<Item = &'a str>) -> QueryParameter {
    QueryParameter::new()
        .set_name(name)
        .set_parameter_type(kind("ARRAY").set_array_type(kind("STRING")))
        .set_parameter_value(
            QueryParameterValue::new()
                .set_array_values(texts.map(|text| QueryParameterValue::new().set_value(text))),
        )
}
