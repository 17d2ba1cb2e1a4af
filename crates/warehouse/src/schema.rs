//! Columns, derived from the row types.

use schemars::{Schema, schema_for};
use serde_json::{Value, json};

use crate::rows::{FindingRow, MeasurementRow, MetricRow, NodeResultRow, RunRow, VerdictRow};

/// Name, columns and key of a table, equal in both databases.
#[derive(Clone, Copy, Debug)]
pub struct WarehouseTable {
    /// Name of the table in SQLite and BigQuery.
    pub name: &'static str,
    /// Generates the JSON schema of a row.
    pub schema: fn() -> Schema,
    /// Columns of the unique key.
    pub key: &'static [&'static str],
}

/// The tables of both databases, with their unique keys.
pub const TABLES: [WarehouseTable; 6] = [
    WarehouseTable {
        name: "verdicts",
        schema: || schema_for!(VerdictRow),
        key: &["run", "attempt", "check_name"],
    },
    WarehouseTable {
        name: "measurements",
        schema: || schema_for!(MeasurementRow),
        key: &["run", "attempt", "check_name", "log", "table_number", "row_number", "placement"],
    },
    WarehouseTable {
        name: "metrics",
        schema: || schema_for!(MetricRow),
        key: &["run", "attempt", "check_name", "log", "metric_number"],
    },
    WarehouseTable {
        name: "findings",
        schema: || schema_for!(FindingRow),
        key: &["run", "attempt", "check_name", "log", "finding_number"],
    },
    WarehouseTable {
        name: "node_results",
        schema: || schema_for!(NodeResultRow),
        key: &["run", "node", "result"],
    },
    // A cluster that appears after the end of a run adds node hours: the row with the most hours is authoritative.
    WarehouseTable { name: "runs", schema: || schema_for!(RunRow), key: &["run", "node_hours"] },
];

impl WarehouseTable {
    /// Columns, in the order of the row's fields.
    pub fn columns(&self) -> Vec<TableColumn> {
        columns(&(self.schema)())
    }

    /// Schema file, in the format of `bq load` and Terraform.
    pub fn bigquery(&self) -> Value {
        let column = |column: TableColumn| {
            json!({
                "name": column.name,
                "type": column.kind.bigquery(),
                "mode": if column.required { "REQUIRED" } else { "NULLABLE" },
                "description": column.description,
            })
        };
        self.columns().into_iter().map(column).collect()
    }
}

/// Name and type of a column, from a field of the row type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Name of the column in SQLite and BigQuery.
    pub name: String,
    /// Data type.
    pub kind: ColumnType,
    /// Whether the column is `NOT NULL`.
    pub required: bool,
    /// Description for display.
    pub description: String,
}

/// Data type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A whole number, up to 2^63 - 1.
    Integer,
    /// A floating-point number.
    Float,
    /// Unicode text of any length.
    Text,
    /// A point in time, as RFC 3339.
    Timestamp,
}

impl ColumnType {
    /// BigQuery's name.
    pub const fn bigquery(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Float => "FLOAT",
            Self::Text => "STRING",
            Self::Timestamp => "TIMESTAMP",
        }
    }

    /// SQLite's name.
    pub const fn sqlite(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Float => "REAL",
            Self::Text | Self::Timestamp => "TEXT",
        }
    }
}

fn columns(schema: &Schema) -> Vec<TableColumn> {
    let schema = schema.as_value();
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields
        .map(|(name, field)| TableColumn {
            name: name.clone(),
            kind: kind(field),
            required: required.iter().any(|required| *required == name) && !nullable(field),
            description: field["description"].as_str().unwrap_or_default().replace('\n', " "),
        })
        .collect()
}

fn nullable(field: &Value) -> bool {
    let types = field["type"].as_array().into_iter().flatten();
    let variants = field["anyOf"].as_array().into_iter().flatten().map(|variant| &variant["type"]);
    types.chain(variants).any(|kind| kind == "null")
}

fn kind(field: &Value) -> ColumnType {
    let of = |kind: &Value| match kind.as_str() {
        Some("integer") => Some(ColumnType::Integer),
        Some("number") => Some(ColumnType::Float),
        _ => None,
    };
    let alternatives = field["type"].as_array().into_iter().flatten();
    if let Some(kind) = of(&field["type"]).or_else(|| alternatives.into_iter().find_map(of)) {
        return kind;
    }
    let names_timestamp =
        |field: &Value| field["$ref"].as_str().is_some_and(|name| name.ends_with("/Timestamp"));
    let variants = field["anyOf"].as_array().into_iter().flatten();
    match variants.chain([field]).any(names_timestamp) {
        true => ColumnType::Timestamp,
        false => ColumnType::Text,
    }
}
