//! A stand-in for BigQuery, as far as Burnin uses it: load jobs from Cloud Storage, queries and tables, over REST and in
//! BigQuery's own JSON. It shares no type with the client that is tested against it.
//!
//! What it keeps of BigQuery's rules: a job's id is good once in a project and location, for ever, however the job ended
//! (409); a job goes from `PENDING` by `RUNNING` to `DONE` by itself; a load job appends all its rows or none; a row must
//! have each column that is required, none that is unknown, and values of the columns' types; what is wrong stands in
//! `status.errorResult` and `status.errors`; a table takes so many load jobs a day, failed ones too; there are no keys: what
//! is loaded twice is there twice.
//!
//! What it does not do: GoogleSQL. A statement is executed by SQLite, with `@name` for parameters and `IN UNNEST(@name)`
//! as the only words of GoogleSQL that it translates, so it shows what a statement is asked with and not that BigQuery
//! would take it. No credentials, jobs of other kinds, schemas in a job, patterns in source URIs, partitions, nested
//! columns, or values that BigQuery would convert from another type.

pub mod engine;
mod fault;
mod load;
mod query;
mod rest;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

pub use fault::{Fault, On, Storm};

/// The server, until it is dropped.
pub struct BigQuery {
    /// Where it is, as an endpoint.
    pub endpoint: String,
    world: World,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct World {
    inner: Arc<Mutex<Inner>>,
    /// Cloud Storage's stand-in.
    storage: String,
    http: reqwest::Client,
}

struct Inner {
    /// By project, location and id.
    jobs: BTreeMap<(String, String, String), Value>,
    /// Schema of each table, by `project.dataset.table`.
    tables: BTreeMap<String, Vec<Column>>,
    rows: rusqlite::Connection,
    faults: Vec<(On, Fault)>,
    storm: Option<Storm>,
    takes: Duration,
    quota: Option<u32>,
    dislikes: Option<String>,
    page: usize,
    location: String,
    asked: BTreeMap<On, u32>,
}

/// A column, as a schema file has it.
#[derive(Clone)]
struct Column {
    name: String,
    kind: String,
    mode: String,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BigQuery {
    /// Serves on a port of this machine. Source URIs are read from `storage`, a stand-in for Cloud Storage.
    ///
    /// # Errors
    /// When there is no port, or no SQLite.
    pub async fn serve(storage: &str) -> std::io::Result<Self> {
        let rows = rusqlite::Connection::open_in_memory().map_err(std::io::Error::other)?;
        let inner = Inner {
            jobs: BTreeMap::new(),
            tables: BTreeMap::new(),
            rows,
            faults: Vec::new(),
            storm: None,
            takes: Duration::ZERO,
            quota: None,
            dislikes: None,
            page: 10_000,
            location: "europe-west4".to_owned(),
            asked: BTreeMap::new(),
        };
        let world = World {
            inner: Arc::new(Mutex::new(inner)),
            storage: storage.to_owned(),
            http: reqwest::Client::new(),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let router = rest::router(world.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { endpoint, world, serving })
    }

    /// Makes an empty table from a schema as `bq mk` takes it.
    ///
    /// # Errors
    /// When the schema is none.
    pub fn table(&self, project: &str, dataset: &str, table: &str, schema: &Value) -> Result<(), String> {
        let columns = schema.as_array().ok_or("a schema is a list of columns")?;
        let text = |column: &Value, field: &str| {
            column[field]
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| format!("a column without {field}: {column}"))
        };
        let columns = columns.iter().map(|column| {
            Ok(Column {
                name: text(column, "name")?,
                kind: text(column, "type")?,
                mode: text(column, "mode")?,
            })
        });
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        let name = format!("{project}.{dataset}.{table}");
        let mut inner = self.world.lock();
        load::make(&inner.rows, &name, &columns).map_err(|error| error.to_string())?;
        inner.tables.insert(name, columns);
        Ok(())
    }

    /// This goes wrong with the next request of a kind that nothing was said of yet.
    pub fn fault(&self, on: On, fault: Fault) {
        self.world.lock().faults.push((on, fault));
    }

    /// From now on requests and jobs go wrong by chance.
    pub fn storm(&self, storm: Storm) {
        self.world.lock().storm = Some(storm);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        let mut inner = self.world.lock();
        (inner.storm, inner.dislikes, inner.quota) = (None, None, None);
        inner.faults.clear();
    }

    /// Jobs take up to so long from now on.
    pub fn jobs_take(&self, takes: Duration) {
        self.world.lock().takes = takes;
    }

    /// A table takes so many load jobs, and no more.
    pub fn quota(&self, jobs: u32) {
        self.world.lock().quota = Some(jobs);
    }

    /// Rows with this text in them are refused, for a reason that nobody can know before.
    pub fn dislike(&self, text: &str) {
        self.world.lock().dislikes = Some(text.to_owned());
    }

    /// Answers of queries come in pages of so many rows.
    pub fn pages_of(&self, rows: usize) {
        self.world.lock().page = rows;
    }

    /// Every job so far, as the API returns it, by id.
    pub fn jobs(&self) -> BTreeMap<String, Value> {
        let inner = self.world.lock();
        inner.jobs.iter().map(|((_, _, id), job)| (id.clone(), job.clone())).collect()
    }

    /// How many rows a table has for each combination of values in some columns that are never null, without asking over
    /// the wire.
    ///
    /// # Errors
    /// When there is no such table or column.
    pub fn count(&self, table: &str, columns: &[&str]) -> Result<BTreeMap<Vec<String>, u64>, String> {
        query::count(&self.world.lock().rows, table, columns).map_err(|error| error.to_string())
    }

    /// How often something was asked for.
    pub fn asked(&self, on: On) -> u32 {
        self.world.lock().asked.get(&on).copied().unwrap_or(0)
    }
}

impl Drop for BigQuery {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
