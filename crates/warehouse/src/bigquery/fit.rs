//! Detects rows that BigQuery would reject or alter, before they share a job with others.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use crate::{ColumnType, Error, Load, TABLES, TableColumn, WarehouseTable};

/// Checks that the tables can store these rows.
///
/// # Errors
/// Returns an error if a cell is invalid: [`Error::Permanent`] with the first one.
pub fn check(load: &Load) -> Result<(), Error> {
    for table in &TABLES {
        match table.name {
            "runs" => rows(table, &load.runs)?,
            "verdicts" => rows(table, &load.verdicts)?,
            "metrics" => rows(table, &load.metrics)?,
            "findings" => rows(table, &load.findings)?,
            "node_results" => rows(table, &load.node_results)?,
            _ => rows(table, &load.rows)?,
        }
    }
    Ok(())
}

fn rows<T: Serialize>(table: &WarehouseTable, rows: &[T]) -> Result<(), Error> {
    let columns = table.columns();
    let mut keys = BTreeSet::new();
    for (number, row) in rows.iter().enumerate() {
        let refused = |why: String| Error::Permanent(format!("row {number} for {}: {why}", table.name));
        let row = serde_json::to_value(row).map_err(|error| refused(error.to_string()))?;
        for column in &columns {
            if let Some(why) = unfit(column, &row[&column.name]) {
                return Err(refused(format!("{}: {why}", column.name)));
            }
        }
        let key: Vec<_> = table.key.iter().map(|column| row[*column].to_string()).collect();
        // BigQuery enforces no unique keys, so it would store duplicates.
        if !keys.insert(key) {
            return Err(refused(format!("duplicate row: another row has the same {}", table.key.join(", "))));
        }
    }
    Ok(())
}

fn unfit(column: &TableColumn, value: &Value) -> Option<String> {
    match (column.kind, value) {
        // A float that is not finite is written as null.
        (_, Value::Null) => column.required.then(|| "a value is required".to_owned()),
        (ColumnType::Integer, Value::Number(number)) => {
            number.as_i64().is_none().then(|| format!("{number} is not a signed 64-bit integer"))
        }
        (ColumnType::Float, Value::Number(_)) | (ColumnType::Text, Value::String(_)) => None,
        // BigQuery's calendar ends with the year 9999; a later time is not written with four digits.
        (ColumnType::Timestamp, Value::String(text)) => {
            let year = text.get(..5).is_some_and(|year| {
                year.ends_with('-')
                    && year[..4].bytes().all(|byte| byte.is_ascii_digit())
                    && !year.starts_with("0000")
            });
            (!year).then(|| format!("{text} is not a time between the years 1 and 9999"))
        }
        (_, other) => Some(format!("{other} has the wrong type")),
    }
}
