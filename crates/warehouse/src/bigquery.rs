//! A warehouse in BigQuery.
//!
//! Rows are loaded by load jobs from Cloud Storage, each under a job id chosen here, which BigQuery accepts once. A
//! table accepts a limited number of load jobs per day, so runs share them. All decisions are stored in the
//! bucket, in immutable objects:
//!
//! ```text
//! warehouse/{project}.{dataset}/loads/{load}/{sha256}.{table}.ndjson   rows, named by their digest
//!                                            load.json                objects of the load, as its first caller wrote them
//!                                            batch.json               its batch
//!                                            end.json                 loaded, or rejected permanently
//!                               waiting-3/{ten minutes}/{load}        hint: waits for other loads
//!                               batches/{number}.json                 loads that are loaded together
//! ```
//!
//! - **A load is in one batch.** Batches are numbered without gaps. The creator of number n + 1 first ensures
//!   that each member of n has its `batch.json`; so a load without `batch.json` that is not in n is
//!   in no batch up to n, and n + 1 can be created only once.
//! - **A batch is loaded once.** The next job follows from the batch and from the results of its earlier
//!   jobs, so all callers that load a batch request the same jobs under the same ids. An existing job is
//!   adopted. A job that failed is followed by another attempt under another id, or, if its rows were
//!   rejected, by two jobs for half of them each, down to the invalid load.
//! - **Verdicts are loaded last:** a run's row in `verdicts` means that its measurements and metrics are loaded.
//!
//! The callers load the batches, and any number of callers may do so concurrently. If a caller stops at any point,
//! the next caller continues.

mod batch_loader;
mod batches;
mod client;
mod fit;
mod load_store;
mod read;

use std::{sync::Arc, time::Duration};

use ledger::Store;

use self::{batch_loader::BatchLoader, batches::Batches, client::BigQueryClient, load_store::LoadStore};
use crate::{
    Error, FindingRow, Load, MeasurementRow, MetricRow, NodeResultRow, PastQuery, PastRun, VerdictRow,
    Warehouse,
};

/// Timeouts and intervals.
#[derive(Clone, Debug)]
pub struct BigQueryOptions {
    /// Maximum duration of a call.
    pub timeout: Duration,
    /// Maximum duration of one request to BigQuery.
    pub attempt: Duration,
    /// Time a load waits for others to share its batch.
    pub wait_for_others: Duration,
    /// Minimum time between batches: a table accepts 1,500 load jobs per day, including failed ones.
    pub every: Duration,
    /// Maximum loads per batch; a job accepts 10,000 objects.
    pub most: usize,
    /// Pause before a failed job is retried; it doubles with each attempt, up to ten minutes.
    pub again: Duration,
    /// Poll interval of a job; it grows with each poll, up to eightfold.
    pub poll_interval: Duration,
}

impl Default for BigQueryOptions {
    fn default() -> Self {
        Self {
            // A call must end before the timeout of the push request that caused it.
            timeout: Duration::from_secs(40),
            attempt: Duration::from_secs(10),
            wait_for_others: Duration::from_secs(2),
            every: Duration::from_secs(60),
            most: 500,
            again: Duration::from_secs(5),
            poll_interval: Duration::from_millis(500),
        }
    }
}

/// A dataset of BigQuery, and the bucket through which rows are loaded.
pub struct BigQuery {
    client: BigQueryClient,
    load_store: LoadStore,
    batches: Batches,
    batch_loader: BatchLoader,
    options: BigQueryOptions,
}

impl BigQuery {
    /// A dataset with existing tables; `store` is the Cloud Storage bucket that BigQuery loads from. An
    /// `endpoint` replaces Google's and is used without credentials. Connects with its first request.
    pub fn new(
        project: &str,
        dataset: &str,
        endpoint: Option<String>,
        store: Arc<dyn Store>,
        options: BigQueryOptions,
    ) -> Self {
        let client = BigQueryClient::new(project, dataset, endpoint, options.clone());
        let load_store = LoadStore::new(store, format!("warehouse/{project}.{dataset}"));
        Self {
            client,
            load_store: load_store.clone(),
            batches: Batches::new(load_store, options.clone()),
            batch_loader: BatchLoader::default(),
            options,
        }
    }

    async fn load_until_final(&self, id: &str, load: &Load) -> Result<u64, Error> {
        load_store::check(id)?;
        if let Some(end) = self.load_store.end(id).await? {
            return end.of(self.load_store.read_note(id).await?.map_or(0, |note| note.rows));
        }
        let note = match self.load_store.read_note(id).await? {
            Some(note) => note,
            None => {
                fit::check(load)?;
                // Check the columns first: a load for a table without them must not share a batch with other loads.
                self.client.ready().await?;
                self.load_store.keep(id, load).await?
            }
        };
        if note.objects.is_empty() {
            return Ok(note.rows);
        }
        let batch = self.batches.join(&note).await?;
        self.batch_loader.run_load_jobs(&self.client, &self.load_store, &batch).await?;
        match self.load_store.end(id).await? {
            Some(end) => end.of(note.rows),
            None => {
                Err(Error::Transient(format!("BigQuery: batch {} does not contain load {id}", batch.number)))
            }
        }
    }

    async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
        what: &str,
    ) -> Result<T, Error> {
        let limit = self.options.timeout;
        let late = || {
            let seconds = limit.as_secs_f64();
            format!("BigQuery: the {what} did not end within {seconds:.1} s{}", self.client.last_error())
        };
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(Error::Transient(late())))
    }
}

#[async_trait::async_trait]
impl Warehouse for BigQuery {
    /// Fails with [`Error::Transient`] if the outcome is unknown: only a repeated call with the same load continues the work.
    async fn load(&self, id: &str, load: &Load) -> Result<u64, Error> {
        self.with_timeout(Box::pin(self.load_until_final(id, load)), "load").await
    }

    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, Error> {
        self.with_timeout(Box::pin(read::rows(&self.client, run)), "query").await
    }

    async fn metrics(&self, run: &str) -> Result<Vec<MetricRow>, Error> {
        self.with_timeout(Box::pin(read::metrics(&self.client, run)), "query").await
    }

    async fn findings(&self, run: &str) -> Result<Vec<FindingRow>, Error> {
        self.with_timeout(Box::pin(read::findings(&self.client, run)), "query").await
    }

    async fn node_results(&self, run: &str) -> Result<Vec<NodeResultRow>, Error> {
        self.with_timeout(Box::pin(read::node_results(&self.client, run)), "query").await
    }

    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, Error> {
        self.with_timeout(Box::pin(read::verdicts(&self.client, run)), "query").await
    }

    async fn past(&self, wanted: &PastQuery) -> Result<Vec<PastRun>, Error> {
        self.with_timeout(Box::pin(read::past(&self.client, wanted)), "query").await
    }

    fn table(&self) -> String {
        format!(
            "{} (tables measurements, metrics, findings, node_results, verdicts and runs)",
            self.client.dataset()
        )
    }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
