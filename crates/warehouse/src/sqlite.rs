//! A warehouse in a SQLite file.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{
    Connection, OptionalExtension, ToSql, Transaction, TransactionBehavior, params,
    types::{Value as Cell, ValueRef},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    Error, Warehouse,
    past::{MeasurementKind, PastQuery, PastRun},
    rows::{FindingRow, Load, MeasurementRow, MetricRow, NodeResultRow, RunRow, VerdictRow},
    schema::{ColumnType, TABLES, TableColumn, WarehouseTable},
    views::VIEWS,
};

/// A SQLite file. Several processes may use it concurrently.
#[derive(Clone)]
pub struct Sqlite {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
}

impl Sqlite {
    /// Opens the file, creating it if absent, and adding tables, columns and views missing from an older file.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened or has other tables.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A power failure must not lose an acknowledged load.
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        prepare(&transaction)?;
        transaction.commit()?;
        Ok(Self { path: path.to_owned(), connection: Arc::new(Mutex::new(connection)) })
    }

    /// Name of the tables of a file, shown to users. Does not open the file.
    pub fn display_name(path: &Path) -> String {
        format!(
            "{} (tables measurements, metrics, findings, node_results, verdicts and runs)",
            path.display()
        )
    }

    /// Rows of a run, one for each time it was closed: a cluster that appears after the close is released, which adds a row.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub async fn runs(&self, run: &str) -> Result<Vec<RunRow>, Error> {
        let run = run.to_owned();
        self.with(move |connection| select(connection, "runs", "WHERE run = ?1 ORDER BY node_hours", &[&run]))
            .await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let connection = Arc::clone(&self.connection);
        let done = tokio::task::spawn_blocking(move || {
            work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        match done.await {
            Err(stopped) => Err(Error::Transient(stopped.to_string())),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if refused(&error) => Err(Error::Permanent(error.to_string())),
            Ok(Err(error)) => Err(Error::Transient(error.to_string())),
        }
    }
}

#[async_trait::async_trait]
impl Warehouse for Sqlite {
    async fn load(&self, id: &str, load: &Load) -> Result<u64, Error> {
        let (id, load) = (id.to_owned(), load.clone());
        self.with(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let before = transaction
                .query_row("SELECT rows FROM loads WHERE load = ?1", [&id], |row| row.get::<_, i64>(0))
                .optional()?;
            if let Some(rows) = before {
                return Ok(rows.unsigned_abs());
            }
            let rows = load.count();
            transaction.execute("INSERT INTO loads VALUES (?1, ?2)", params![id, rows.cast_signed()])?;
            insert(&transaction, "runs", &load.runs)?;
            insert(&transaction, "verdicts", &load.verdicts)?;
            insert(&transaction, "measurements", &load.rows)?;
            insert(&transaction, "metrics", &load.metrics)?;
            insert(&transaction, "findings", &load.findings)?;
            insert(&transaction, "node_results", &load.node_results)?;
            transaction.commit()?;
            Ok(rows)
        })
        .await
    }

    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, Error> {
        let run = run.to_owned();
        self.with(move |connection| measurements(connection, &run)).await
    }

    async fn metrics(&self, run: &str) -> Result<Vec<MetricRow>, Error> {
        let run = run.to_owned();
        self.with(move |connection| metrics(connection, &run)).await
    }

    async fn findings(&self, run: &str) -> Result<Vec<FindingRow>, Error> {
        let run = run.to_owned();
        let of_run = "WHERE run = ?1 ORDER BY attempt, log, finding_number";
        self.with(move |connection| select(connection, "findings", of_run, &[&run])).await
    }

    async fn node_results(&self, run: &str) -> Result<Vec<NodeResultRow>, Error> {
        let run = run.to_owned();
        let of_run = "WHERE run = ?1 ORDER BY node, result";
        self.with(move |connection| select(connection, "node_results", of_run, &[&run])).await
    }

    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, Error> {
        let run = run.to_owned();
        self.with(move |connection| {
            select(connection, "verdicts", "WHERE run = ?1 ORDER BY attempt", &[&run])
        })
        .await
    }

    async fn past(&self, wanted: &PastQuery) -> Result<Vec<PastRun>, Error> {
        let wanted = wanted.clone();
        self.with(move |connection| {
            let these = "WHERE workflow = ?1 AND identity = ?2 AND requested_at < ?3";
            let before = wanted.before.to_string();
            let mut runs: Vec<VerdictRow> = Vec::new();
            for (order, most) in [("ASC", wanted.oldest), ("DESC", wanted.newest)] {
                let rest = format!("{these} ORDER BY requested_at {order}, run {order} LIMIT ?4");
                let values: [&dyn ToSql; 4] = [&wanted.workflow, &wanted.identity, &before, &most];
                runs.extend(select::<VerdictRow>(connection, "verdicts", &rest, &values)?);
            }
            runs.sort_by(|a, b| (a.requested_at, &a.run).cmp(&(b.requested_at, &b.run)));
            runs.dedup_by(|a, b| a.run == b.run);
            let past = |verdict: &VerdictRow| {
                Ok(match wanted.measured {
                    MeasurementKind::Table => {
                        PastRun::of(verdict, &measurements(connection, &verdict.run)?, &[])
                    }
                    MeasurementKind::Metrics => {
                        PastRun::of(verdict, &[], &metrics(connection, &verdict.run)?)
                    }
                    MeasurementKind::Nothing => PastRun::of(verdict, &[], &[]),
                })
            };
            runs.iter().map(past).collect()
        })
        .await
    }

    fn table(&self) -> String {
        Self::display_name(&self.path)
    }
}

/// Constraint violations and out-of-range numbers are permanent failures.
fn refused(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
        || error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

fn prepare(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS loads (load TEXT PRIMARY KEY, rows INTEGER NOT NULL) STRICT;",
    )?;
    for table in &TABLES {
        let (columns, name, key) = (table.columns(), table.name, table.key);
        let defined: Vec<_> = columns.iter().map(definition).collect();
        // A column of the key may be null, and an index treats nulls as different.
        let nullable = |name: &str| columns.iter().any(|column| column.name == name && !column.required);
        let indexed = |name: &&str| match nullable(name) {
            true => format!("ifnull({name}, '')"),
            false => (*name).to_owned(),
        };
        let key: Vec<_> = key.iter().map(indexed).collect();
        let create = format!("CREATE TABLE IF NOT EXISTS {name} ({}) STRICT;", defined.join(", "));
        let there = existing_columns(transaction, name)?;
        if there.iter().any(|(_, in_primary_key)| *in_primary_key) {
            // Views are removed first, because SQLite replaces the name of a renamed table in its views.
            drop_views(transaction)?;
            // Until checks existed, the key was a primary key, which SQLite cannot change.
            let kept: Vec<_> = there.iter().map(|(name, _)| name.as_str()).collect();
            let kept = kept.join(", ");
            transaction.execute_batch(&format!(
                "ALTER TABLE {name} RENAME TO {name}_before; {create}
                 INSERT INTO {name} ({kept}) SELECT {kept} FROM {name}_before; DROP TABLE {name}_before;",
            ))?;
        }
        transaction.execute_batch(&create)?;
        let there = existing_columns(transaction, name)?;
        let there: Vec<_> = there.into_iter().map(|(name, _)| name).collect();
        for column in columns.iter().filter(|column| !there.contains(&column.name)) {
            transaction.execute_batch(&format!("ALTER TABLE {name} ADD COLUMN {};", definition(column)))?;
        }
        transaction.execute_batch(&format!(
            "CREATE UNIQUE INDEX IF NOT EXISTS {name}_key ON {name} ({});",
            key.join(", ")
        ))?;
    }
    transaction.execute_batch(
        "CREATE INDEX IF NOT EXISTS history ON verdicts (workflow, identity, requested_at, run);",
    )?;
    create_views(transaction)
}

/// Creates missing views, and replaces views of an earlier version. An unchanged view is not written again.
fn create_views(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    for (name, query) in VIEWS {
        let create = format!("CREATE VIEW {name} AS\n{}", query.trim_end());
        let wanted = "SELECT sql FROM sqlite_master WHERE type = 'view' AND name = ?1";
        let there = transaction.query_row(wanted, [name], |row| row.get::<_, String>(0)).optional()?;
        if there.as_ref() != Some(&create) {
            transaction.execute_batch(&format!("DROP VIEW IF EXISTS {name}; {create};"))?;
        }
    }
    Ok(())
}

fn drop_views(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    VIEWS.iter().try_for_each(|(name, _)| transaction.execute_batch(&format!("DROP VIEW IF EXISTS {name};")))
}

/// Columns of a table and whether each is in its primary key; empty if the table is absent.
fn existing_columns(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<Vec<(String, bool)>> {
    let query = format!("SELECT name, pk > 0 FROM pragma_table_info('{table}')");
    transaction.prepare(&query)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn definition(column: &TableColumn) -> String {
    let required = if column.required { " NOT NULL" } else { "" };
    format!("{} {}{required}", column.name, column.kind.sqlite())
}

fn of(table: &str) -> Vec<TableColumn> {
    TABLES.iter().find(|known| known.name == table).map(WarehouseTable::columns).unwrap_or_default()
}

fn insert<T: Serialize>(transaction: &Transaction<'_>, table: &str, rows: &[T]) -> rusqlite::Result<()> {
    let columns = of(table);
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let places: Vec<_> = (1..=names.len()).map(|place| format!("?{place}")).collect();
    let mut insert = transaction.prepare(&format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        names.join(", "),
        places.join(", ")
    ))?;
    for row in rows {
        let row = serde_json::to_value(row).map_err(unfit)?;
        let cells = names.iter().map(|name| cell(&row[*name])).collect::<Result<Vec<_>, _>>()?;
        insert.execute(rusqlite::params_from_iter(cells))?;
    }
    Ok(())
}

fn unfit(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
}

fn cell(value: &Value) -> rusqlite::Result<Cell> {
    Ok(match value {
        Value::Null => Cell::Null,
        Value::String(text) => Cell::Text(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cell::Integer(whole),
            // SQLite's integers are signed.
            (None, Some(_)) if number.is_u64() => {
                return Err(unfit(format!("{number} is larger than the maximum of {}", i64::MAX)));
            }
            (None, Some(real)) => Cell::Real(real),
            (None, None) => Cell::Null,
        },
        other => return Err(unfit(format!("{other} is not a cell value"))),
    })
}

fn select<T: DeserializeOwned>(
    connection: &Connection,
    table: &str,
    rest: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<Vec<T>> {
    let columns = of(table);
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut select = connection.prepare(&format!("SELECT {} FROM {table} {rest}", names.join(", ")))?;
    let rows = select.query_map(values, |row| {
        let mut object = Map::new();
        for (index, column) in columns.iter().enumerate() {
            let value = match (row.get_ref(index)?, column.kind) {
                (ValueRef::Integer(whole), ColumnType::Integer) => whole.into(),
                (ValueRef::Integer(whole), _) => (whole as f64).into(),
                (ValueRef::Real(real), _) => real.into(),
                (ValueRef::Text(text), _) => String::from_utf8_lossy(text).into(),
                (ValueRef::Null | ValueRef::Blob(_), _) => Value::Null,
            };
            object.insert(column.name.clone(), value);
        }
        serde_json::from_value(Value::Object(object)).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
        })
    })?;
    rows.collect()
}

fn measurements(connection: &Connection, run: &str) -> rusqlite::Result<Vec<MeasurementRow>> {
    let order = "WHERE run = ?1 ORDER BY attempt, log, table_number, row_number, placement DESC";
    select(connection, "measurements", order, &[&run])
}

fn metrics(connection: &Connection, run: &str) -> rusqlite::Result<Vec<MetricRow>> {
    select(connection, "metrics", "WHERE run = ?1 ORDER BY attempt, log, metric_number", &[&run])
}
