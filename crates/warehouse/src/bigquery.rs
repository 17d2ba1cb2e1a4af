//! A warehouse in BigQuery.
//!
//! Rows get there by load jobs from Cloud Storage, each under an id of ours, which BigQuery takes once. A table takes a
//! limited number of load jobs a day, so runs share them. What is decided stands in the bucket, in objects that are
//! created once and never changed:
//!
//! ```text
//! warehouse/{project}.{dataset}/loads/{load}/{sha256}.{table}.ndjson   rows, named after what is in them
//!                                            load.json                which of them are the load's: the first one's
//!                                            batch.json               in which batch it is
//!                                            end.json                 it is loaded, or refused for good
//!                               waiting/{ten minutes}/{load}          hint: this one wants company
//!                               batches/{number}.json                 whose rows are loaded together
//! ```
//!
//! - **A load is in one batch.** Batches are numbered without gaps. Whoever makes number n + 1 first sees to it that each
//!   member of n has its `batch.json`; so a load that has none and is not in n is in no batch up to n, and n + 1 can be
//!   created once only.
//! - **A batch is loaded once.** What is to be asked next follows from the batch and from how its earlier jobs ended, so
//!   everybody who settles a batch asks for the same jobs under the same ids. A job that is there already is adopted. One
//!   that ended without loading is followed by another try under another id, or, if it was for the rows themselves, by
//!   two for half of them each, down to the load that is to blame.
//! - **Verdicts come last:** a run's row in `verdicts` means that its measurements are there.
//!
//! Whoever calls does the work, any number at once; it can stop anywhere, and the next one goes on.

mod batches;
mod client;
mod fit;
mod read;
mod settle;
mod spool;

use std::{sync::Arc, time::Duration};

use ledger::Store;

use self::{batches::Batches, client::Client, settle::Settling, spool::Spool};
use crate::{Error, Load, Past, Row, VerdictRow, Wanted};

/// How long is waited, and for what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest a call may take.
    pub patience: Duration,
    /// The longest one request to BigQuery may take.
    pub attempt: Duration,
    /// How long a load waits for others to share its batch.
    pub company: Duration,
    /// The time between batches: a table takes 1,500 load jobs a day, failed ones included.
    pub every: Duration,
    /// The most loads in a batch; a job takes 10,000 objects.
    pub most: usize,
    /// How long a failed job is left alone before its next try; each one waits twice as long, up to ten minutes.
    pub again: Duration,
    /// How often a job is looked at; each look waits a little longer, up to eight times.
    pub look: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // Shorter than a push waits.
            patience: Duration::from_secs(40),
            attempt: Duration::from_secs(10),
            company: Duration::from_secs(2),
            every: Duration::from_secs(60),
            most: 500,
            again: Duration::from_secs(5),
            look: Duration::from_millis(500),
        }
    }
}

/// A dataset of BigQuery, and the bucket by way of which rows get there.
pub struct BigQuery {
    client: Client,
    spool: Spool,
    batches: Batches,
    settling: Settling,
    options: Options,
}

impl BigQuery {
    /// A dataset that has the tables; `store` is a bucket of Cloud Storage, from which BigQuery reads what is loaded. An
    /// `endpoint` stands in for Google's, and is spoken to without credentials. It connects with its first request.
    pub fn new(
        project: &str,
        dataset: &str,
        endpoint: Option<String>,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Self {
        let client = Client::new(project, dataset, endpoint, options.clone());
        let spool = Spool::new(store, format!("warehouse/{project}.{dataset}"));
        Self {
            client,
            spool: spool.clone(),
            batches: Batches::new(spool, options.clone()),
            settling: Settling::default(),
            options,
        }
    }

    /// Where a person looks.
    pub fn place(&self) -> String {
        format!("{} (tables measurements, verdicts and runs)", self.client.dataset())
    }

    /// Loads a run under an id, all or nothing, once; says how many measurements the first load under it brought.
    ///
    /// # Errors
    /// [`Error::Refused`] when it will never be loaded. [`Error::Unavailable`] when it is not known to be loaded yet:
    /// what was begun goes on when the same load is asked for again, and only then.
    pub async fn load(&self, id: &str, load: &Load) -> Result<u64, Error> {
        self.patiently(Box::pin(self.bring(id, load)), "load").await
    }

    async fn bring(&self, id: &str, load: &Load) -> Result<u64, Error> {
        spool::check(id)?;
        if let Some(end) = self.spool.end(id).await? {
            return end.of(self.spool.note(id).await?.map_or(0, |note| note.rows));
        }
        let note = match self.spool.note(id).await? {
            Some(note) => note,
            None => {
                fit::check(load)?;
                // Rows wait for a table that can hold them, not in a batch with others.
                self.client.ready().await?;
                self.spool.keep(id, load).await?
            }
        };
        if note.objects.is_empty() {
            return Ok(note.rows);
        }
        let batch = self.batches.join(&note).await?;
        self.settling.settle(&self.client, &self.spool, &batch).await?;
        match self.spool.end(id).await? {
            Some(end) => end.of(note.rows),
            None => {
                Err(Error::Unavailable(format!("BigQuery: batch {} says nothing of load {id}", batch.number)))
            }
        }
    }

    /// Measurements of a run, in the order of its logs.
    ///
    /// # Errors
    /// When BigQuery does not answer.
    pub async fn rows(&self, run: &str) -> Result<Vec<Row>, Error> {
        self.patiently(Box::pin(read::rows(&self.client, run)), "answer").await
    }

    /// What was said of a run.
    ///
    /// # Errors
    /// When BigQuery does not answer.
    pub async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, Error> {
        self.patiently(Box::pin(read::verdicts(&self.client, run)), "answer").await
    }

    /// Runs of a cluster's history, oldest first.
    ///
    /// # Errors
    /// When BigQuery does not answer.
    pub async fn past(&self, wanted: &Wanted) -> Result<Vec<Past>, Error> {
        self.patiently(Box::pin(read::past(&self.client, wanted)), "answer").await
    }

    async fn patiently<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
        what: &str,
    ) -> Result<T, Error> {
        let limit = self.options.patience;
        let late =
            || format!("BigQuery: no {what} within {:.1} s{}", limit.as_secs_f64(), self.client.trouble());
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(Error::Unavailable(late())))
    }
}

/// An error with everything behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        told = format!("{told}: {error}");
        source = error.source();
    }
    told
}
