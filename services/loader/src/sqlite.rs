//! A warehouse in one SQLite file.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::{
    port::{Warehouse, WarehouseError},
    rows::Row,
};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS loads (
        load TEXT PRIMARY KEY,
        rows INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS measurements (
        run TEXT NOT NULL, workflow TEXT NOT NULL, attempt INTEGER NOT NULL, log TEXT NOT NULL,
        table_number INTEGER NOT NULL, row_number INTEGER NOT NULL, placement TEXT NOT NULL,
        collective TEXT, ranks INTEGER, size_bytes INTEGER NOT NULL, count INTEGER NOT NULL, dtype TEXT NOT NULL,
        redop TEXT, time_us REAL NOT NULL, algbw REAL NOT NULL, busbw REAL NOT NULL, wrong INTEGER,
        PRIMARY KEY (run, attempt, log, table_number, row_number, placement)
    ) STRICT;
";

/// A SQLite file. Several processes may have it open.
pub struct Sqlite {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
}

impl Sqlite {
    /// Opens the file, making it where it is missing.
    ///
    /// # Errors
    /// When it cannot be opened or is not ours.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A load that was acknowledged survives a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { path: path.to_owned(), connection: Arc::new(Mutex::new(connection)) })
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, WarehouseError> {
        let connection = Arc::clone(&self.connection);
        let done = tokio::task::spawn_blocking(move || {
            work(&mut connection.lock().unwrap_or_else(PoisonError::into_inner))
        });
        match done.await {
            Err(stopped) => Err(WarehouseError::Unavailable(stopped.to_string())),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if refused(&error) => Err(WarehouseError::Refused(error.to_string())),
            Ok(Err(error)) => Err(WarehouseError::Unavailable(error.to_string())),
        }
    }
}

/// Rows that break a rule of the table, or numbers SQLite cannot hold, will not fit another time either.
fn refused(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
        || error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

#[async_trait::async_trait]
impl Warehouse for Sqlite {
    async fn load(&self, load: &str, rows: &[Row]) -> Result<u64, WarehouseError> {
        let (load, rows) = (load.to_owned(), rows.to_vec());
        self.with(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let before = transaction
                .query_row("SELECT rows FROM loads WHERE load = ?1", [&load], |row| row.get::<_, i64>(0))
                .optional()?;
            if let Some(rows) = before {
                return Ok(rows.unsigned_abs());
            }
            transaction.execute("INSERT INTO loads VALUES (?1, ?2)", params![load, number(rows.len() as u64)?])?;
            let mut insert = transaction.prepare(
                "INSERT INTO measurements VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17)",
            )?;
            for row in &rows {
                insert.execute(params![
                    row.run,
                    row.workflow,
                    row.attempt,
                    row.log,
                    row.table_number,
                    row.row_number,
                    row.placement,
                    row.collective,
                    row.ranks,
                    number(row.size_bytes)?,
                    number(row.count)?,
                    row.dtype,
                    row.redop,
                    row.time_us,
                    row.algbw,
                    row.busbw,
                    row.wrong.map(number).transpose()?,
                ])?;
            }
            drop(insert);
            transaction.commit()?;
            Ok(rows.len() as u64)
        })
        .await
    }

    async fn rows(&self, run: &str) -> Result<Vec<Row>, WarehouseError> {
        let run = run.to_owned();
        self.with(move |connection| {
            let mut select = connection.prepare(
                "SELECT * FROM measurements WHERE run = ?1
                 ORDER BY attempt, log, table_number, row_number, placement DESC",
            )?;
            let rows = select.query_map([run], |row| {
                let unsigned = |index| row.get::<_, i64>(index).map(i64::unsigned_abs);
                Ok(Row {
                    run: row.get(0)?,
                    workflow: row.get(1)?,
                    attempt: row.get(2)?,
                    log: row.get(3)?,
                    table_number: row.get(4)?,
                    row_number: row.get(5)?,
                    placement: row.get(6)?,
                    collective: row.get(7)?,
                    ranks: row.get(8)?,
                    size_bytes: unsigned(9)?,
                    count: unsigned(10)?,
                    dtype: row.get(11)?,
                    redop: row.get(12)?,
                    time_us: row.get(13)?,
                    algbw: row.get(14)?,
                    busbw: row.get(15)?,
                    wrong: row.get::<_, Option<i64>>(16)?.map(i64::unsigned_abs),
                })
            })?;
            rows.collect()
        })
        .await
    }

    fn table(&self) -> String {
        format!("{} (table measurements)", self.path.display())
    }
}

/// SQLite's integers are signed.
fn number(value: u64) -> rusqlite::Result<i64> {
    i64::try_from(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
