//! A stand-in for the parts of BigQuery that Burnin uses: load jobs from Cloud Storage, queries and tables, over REST and in
//! BigQuery's JSON. It shares no type with the tested client.
//!
//! Implemented rules: a job's id can be used once in a project and location, regardless of the job's outcome (409); a job advances from
//! `PENDING` through `RUNNING` to `DONE`; a load job appends all its rows or none; a row must have every required column, no unknown
//! column, and values of the columns' types; errors are in `status.errorResult` and `status.errors`; a table accepts a maximum number of
//! load jobs per day, failed ones included; tables have no keys: rows loaded twice exist twice.
//!
//! Not implemented: GoogleSQL. SQLite executes a statement, with `@name` for parameters and `IN UNNEST(@name)` as the only translated parts
//! of GoogleSQL, so it checks a statement's parameters and not whether BigQuery accepts it. Also not implemented: credentials, other kinds
//! of jobs, schemas in a job, patterns in source URIs, partitions, nested columns, and values that BigQuery would convert from another
//! type.

pub mod engine;
mod fault;
mod load;
mod query;
mod refusal;
mod rest;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

pub use fault::{Fault, FaultTarget, RandomFaults};

/// The server; stops on drop.
pub struct BigQueryStandIn {
    /// Address for the client, `http://host:port`.
    pub endpoint: String,
    state: BigQueryState,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct BigQueryState {
    inner: Arc<Mutex<WarehouseState>>,
    /// Cloud Storage's stand-in.
    storage: String,
    http: reqwest::Client,
}

struct WarehouseState {
    /// Jobs by project, location and id.
    jobs: BTreeMap<(String, String, String), Value>,
    /// Schema of each table, by `project.dataset.table`.
    tables: BTreeMap<String, Vec<TableColumn>>,
    rows: rusqlite::Connection,
    faults: Vec<(FaultTarget, Fault)>,
    random_faults: Option<RandomFaults>,
    takes: Duration,
    quota: Option<u32>,
    dislikes: Option<String>,
    page: usize,
    location: String,
    requests: BTreeMap<FaultTarget, u32>,
}

/// A column in a schema file's format.
#[derive(Clone)]
struct TableColumn {
    name: String,
    kind: String,
    mode: String,
}

impl BigQueryState {
    fn lock(&self) -> MutexGuard<'_, WarehouseState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BigQueryStandIn {
    /// Starts the server on a free local port. Source URIs are read from `storage`, a stand-in for Cloud Storage.
    ///
    /// # Errors
    /// Returns an error if no port is free or SQLite fails.
    pub async fn serve(storage: &str) -> std::io::Result<Self> {
        let rows = rusqlite::Connection::open_in_memory().map_err(std::io::Error::other)?;
        let inner = WarehouseState {
            jobs: BTreeMap::new(),
            tables: BTreeMap::new(),
            rows,
            faults: Vec::new(),
            random_faults: None,
            takes: Duration::ZERO,
            quota: None,
            dislikes: None,
            page: 10_000,
            location: "europe-west4".to_owned(),
            requests: BTreeMap::new(),
        };
        let state = BigQueryState {
            inner: Arc::new(Mutex::new(inner)),
            storage: storage.to_owned(),
            http: reqwest::Client::new(),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let router = rest::router(state.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { endpoint, state, serving })
    }

    /// Creates an empty table from a schema in `bq mk`'s format.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid.
    pub fn table(&self, project: &str, dataset: &str, table: &str, schema: &Value) -> Result<(), String> {
        let columns = schema.as_array().ok_or("the schema is not a list of columns")?;
        let text = |column: &Value, field: &str| {
            column[field]
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| format!("the column {column} has no {field}"))
        };
        let columns = columns.iter().map(|column| {
            Ok(TableColumn {
                name: text(column, "name")?,
                kind: text(column, "type")?,
                mode: text(column, "mode")?,
            })
        });
        let columns = columns.collect::<Result<Vec<_>, String>>()?;
        let name = format!("{project}.{dataset}.{table}");
        let mut inner = self.state.lock();
        load::make(&inner.rows, &name, &columns).map_err(|error| error.to_string())?;
        inner.tables.insert(name, columns);
        Ok(())
    }

    /// Applies a fault to the next request of this kind that has no fault yet.
    pub fn fault(&self, on: FaultTarget, fault: Fault) {
        self.state.lock().faults.push((on, fault));
    }

    /// Sets the rates of random faults of requests and jobs.
    pub fn random_faults(&self, random_faults: RandomFaults) {
        self.state.lock().random_faults = Some(random_faults);
    }

    pub fn clear_faults(&self) {
        let mut inner = self.state.lock();
        (inner.random_faults, inner.dislikes, inner.quota) = (None, None, None);
        inner.faults.clear();
    }

    /// Sets the maximum duration of jobs.
    pub fn jobs_take(&self, takes: Duration) {
        self.state.lock().takes = takes;
    }

    /// Sets the maximum number of load jobs of a table.
    pub fn quota(&self, jobs: u32) {
        self.state.lock().quota = Some(jobs);
    }

    /// Rejects rows that contain this text, which the client cannot predict.
    pub fn reject_rows_with(&self, text: &str) {
        self.state.lock().dislikes = Some(text.to_owned());
    }

    /// Sets the page size of query results, rows.
    pub fn pages_of(&self, rows: usize) {
        self.state.lock().page = rows;
    }

    /// All jobs by id, as the API returns them.
    pub fn jobs(&self) -> BTreeMap<String, Value> {
        let inner = self.state.lock();
        inner.jobs.iter().map(|((_, _, id), job)| (id.clone(), job.clone())).collect()
    }

    /// Number of rows by values of some non-null columns, without
    /// a request.
    ///
    /// # Errors
    /// Returns an error if the table or a column is absent.
    pub fn count(&self, table: &str, columns: &[&str]) -> Result<BTreeMap<Vec<String>, u64>, String> {
        query::count(&self.state.lock().rows, table, columns).map_err(|error| error.to_string())
    }

    /// Number of requests of this kind.
    pub fn request_count(&self, on: FaultTarget) -> u32 {
        self.state.lock().requests.get(&on).copied().unwrap_or(0)
    }
}

impl Drop for BigQueryStandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
