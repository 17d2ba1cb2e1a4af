//! Appending and reading records.

use std::sync::Arc;

use model::{Entry, RECORD_FORMAT, Record, RunId, Timestamp, planted};

use crate::{Creation, Store, StoreError};

/// Makes a nonce nobody else makes. Injected, so that a simulation repeats itself.
pub type Nonces = Arc<dyn Fn() -> String + Send + Sync>;

/// The ledgers of all runs in one bucket.
#[derive(Clone)]
pub struct Ledger {
    store: Arc<dyn Store>,
    nonces: Nonces,
}

/// A run's records as they were read. Appending needs one: nobody appends to what they have not read.
#[derive(Clone, Debug)]
pub struct Loaded {
    run: RunId,
    records: Vec<Record>,
}

/// A ledger that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store did not answer.
    #[error("the ledger of {run} cannot be read")]
    Store {
        /// The run.
        run: RunId,
        /// Why.
        source: StoreError,
    },
    /// A record is missing or is not a record: somebody wrote or removed by hand.
    #[error("record {seq} of {run}: {why}")]
    Damaged {
        /// The run.
        run: RunId,
        /// The record's number.
        seq: u64,
        /// What is wrong.
        why: String,
    },
}

/// An append that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Somebody else appended first: load again and decide again.
    #[error("another writer appended record {seq} of {run} first")]
    Conflict {
        /// The run.
        run: RunId,
        /// The number both wanted.
        seq: u64,
    },
    /// The store did not answer, and what it holds could not be read back: try the whole step again.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Loaded {
    /// The records, from number 1, without gaps.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The number the next record gets.
    pub fn next_seq(&self) -> u64 {
        self.records.len() as u64 + 1
    }
}

impl Ledger {
    /// On a store, with a source of nonces.
    pub fn new(store: Arc<dyn Store>, nonces: Nonces) -> Self {
        Self { store, nonces }
    }

    fn name(run: &RunId, seq: u64) -> String {
        format!("ledger/{run}/{seq:010}.json")
    }

    /// Reads a run's records. A run that nobody asked for has none.
    ///
    /// # Errors
    /// When the store does not answer or the ledger is damaged.
    pub async fn load(&self, run: &RunId) -> Result<Loaded, LedgerError> {
        let names = self.store.list(&format!("ledger/{run}/")).await;
        let count = names.map_err(|source| LedgerError::Store { run: run.clone(), source })?.len() as u64;
        let mut records = Vec::new();
        // Read on past the count: between the listing and now somebody may have appended.
        for seq in 1.. {
            match self.read(run, seq).await? {
                Some(record) => records.push(record),
                None if seq > count => break,
                None => {
                    let why = "is missing although later ones exist".to_owned();
                    return Err(LedgerError::Damaged { run: run.clone(), seq, why });
                }
            }
        }
        Ok(Loaded { run: run.clone(), records })
    }

    /// The records after number `seq`, as far as they are there: what somebody who follows a run has not seen.
    ///
    /// # Errors
    /// When the store does not answer or a record is damaged.
    pub async fn since(&self, run: &RunId, seq: u64) -> Result<Vec<Record>, LedgerError> {
        let mut records = Vec::new();
        for seq in seq + 1.. {
            match self.read(run, seq).await? {
                Some(record) => records.push(record),
                None => break,
            }
        }
        Ok(records)
    }

    async fn read(&self, run: &RunId, seq: u64) -> Result<Option<Record>, LedgerError> {
        let body = self.store.read(&Self::name(run, seq)).await;
        let Some(body) = body.map_err(|source| LedgerError::Store { run: run.clone(), source })? else {
            return Ok(None);
        };
        let damaged = |why| LedgerError::Damaged { run: run.clone(), seq, why };
        let record: Record = serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?;
        if record.format > RECORD_FORMAT {
            return Err(damaged(format!("has format {}, newer than this program reads", record.format)));
        }
        if record.seq != seq || record.run != *run {
            return Err(damaged(format!("says it is record {} of {}", record.seq, record.run)));
        }
        Ok(Some(record))
    }

    /// Appends one entry after what was read. Time never goes back within a run.
    ///
    /// # Errors
    /// [`AppendError::Conflict`] when somebody was faster; otherwise what the store said.
    pub async fn append(
        &self,
        mut loaded: Loaded,
        entry: Entry,
        now: Timestamp,
    ) -> Result<Loaded, AppendError> {
        let last = loaded.records.last().map(|record| record.recorded_at);
        let seq = loaded.next_seq();
        let record = Record {
            format: entry.format(),
            run: loaded.run.clone(),
            seq,
            nonce: (self.nonces)(),
            recorded_at: last.filter(|_| !planted("time_goes_back")).map_or(now, |last| last.max(now)),
            entry,
        };
        let body = serde_json::to_vec_pretty(&record).map_err(|error| LedgerError::Damaged {
            run: loaded.run.clone(),
            seq,
            why: error.to_string(),
        })?;
        let created = self.store.create(&Self::name(&loaded.run, seq), body.into()).await;
        let ours = match &created {
            Ok(Creation::Created) => true,
            // The answer may have been lost after the write landed. The nonce knows.
            Ok(Creation::Exists) | Err(_) => {
                self.read(&loaded.run, seq).await?.is_some_and(|there| there.nonce == record.nonce)
            }
        };
        match created {
            _ if ours || planted("conflict_taken_for_success") => {
                loaded.records.push(record);
                Ok(loaded)
            }
            Err(source) => Err(LedgerError::Store { run: loaded.run, source }.into()),
            Ok(_) => Err(AppendError::Conflict { run: loaded.run, seq }),
        }
    }

    /// Every run that has a ledger.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn runs(&self) -> Result<Vec<RunId>, StoreError> {
        let names = self.store.list("ledger/").await?;
        let mut runs: Vec<RunId> = names
            .iter()
            .filter_map(|name| name.strip_prefix("ledger/")?.strip_suffix("/0000000001.json")?.parse().ok())
            .collect();
        runs.sort();
        Ok(runs)
    }

    /// Every run that has a ledger, or is about to, without a look at any record.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn names(&self) -> Result<Vec<RunId>, StoreError> {
        let children = self.store.children("ledger/").await?;
        Ok(children.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Leaves a hint that the run owes something.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn mark_open(&self, run: &RunId) -> Result<(), StoreError> {
        self.store.create(&format!("open/{run}"), Default::default()).await.map(drop)
    }

    /// Takes the hint away.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn mark_closed(&self, run: &RunId) -> Result<(), StoreError> {
        self.store.remove(&format!("open/{run}")).await
    }

    /// Runs with a hint, sorted. A hint may be missing after a crash: see [`Ledger::runs`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn open_runs(&self) -> Result<Vec<RunId>, StoreError> {
        let names = self.store.list("open/").await?;
        let mut runs: Vec<RunId> =
            names.iter().filter_map(|name| name.strip_prefix("open/")?.parse().ok()).collect();
        runs.sort();
        Ok(runs)
    }
}
