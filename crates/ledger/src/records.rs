//! Append and read records.

use std::sync::Arc;

use model::{RECORD_FORMAT, Record, RecordEntry, RunId, Timestamp, planted};

use crate::{Creation, Store, StoreError};

/// Generates unique nonces. Injected, so that a simulation is reproducible.
pub type Nonces = Arc<dyn Fn() -> String + Send + Sync>;

/// The ledgers of all runs in one bucket.
#[derive(Clone)]
pub struct Ledger {
    store: Arc<dyn Store>,
    nonces: Nonces,
}

/// The records of a run at the time of reading. Appending requires it, so every writer has read the existing
/// records.
#[derive(Clone, Debug)]
pub struct Loaded {
    run: RunId,
    records: Vec<Record>,
}

/// A ledger that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store request failed.
    #[error("the ledger of {run} cannot be read")]
    Store {
        /// The run.
        run: RunId,
        /// Why.
        source: StoreError,
    },
    /// A record is missing or invalid: it was changed manually.
    #[error("record {seq} of {run}: {why}")]
    Damaged {
        /// The run.
        run: RunId,
        /// The record's number.
        seq: u64,
        /// The problem.
        why: String,
    },
}

/// A failed append.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another writer appended first: reload and decide again.
    #[error("another writer appended record {seq} of {run} first")]
    Conflict {
        /// The run.
        run: RunId,
        /// Contested sequence number.
        seq: u64,
    },
    /// The store request failed and its outcome could not be read back: repeat the whole step.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl Loaded {
    /// The records, starting at number 1, without gaps.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Number of the next record.
    pub fn next_seq(&self) -> u64 {
        self.records.len() as u64 + 1
    }
}

impl Ledger {
    /// Uses the given store and nonce generator.
    pub fn new(store: Arc<dyn Store>, nonces: Nonces) -> Self {
        Self { store, nonces }
    }

    fn name(run: &RunId, seq: u64) -> String {
        format!("ledger/{run}/{seq:010}.json")
    }

    /// Reads the records of a run; empty for an unknown run.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the ledger is damaged.
    pub async fn load(&self, run: &RunId) -> Result<Loaded, LedgerError> {
        let names = self.store.list(&format!("ledger/{run}/")).await;
        let count = names.map_err(|source| LedgerError::Store { run: run.clone(), source })?.len() as u64;
        let mut records = Vec::new();
        // Continue past the count: another writer may have appended since the listing.
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

    /// The existing records after number `seq`, for followers of a run.
    ///
    /// # Errors
    /// Returns an error if the store request fails or a record is damaged.
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
            return Err(damaged(format!("claims to be record {} of {}", record.seq, record.run)));
        }
        Ok(Some(record))
    }

    /// Appends one entry after the loaded records. Time never decreases within a run.
    ///
    /// # Errors
    /// Returns [`AppendError::Conflict`] if another writer appended first, otherwise the store's error.
    pub async fn append(
        &self,
        mut loaded: Loaded,
        entry: RecordEntry,
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
            // The response may be lost after a successful write. The nonce decides.
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

    /// All runs with a ledger.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn runs(&self) -> Result<Vec<RunId>, StoreError> {
        let names = self.store.list("ledger/").await?;
        let mut runs: Vec<RunId> = names
            .iter()
            .filter_map(|name| name.strip_prefix("ledger/")?.strip_suffix("/0000000001.json")?.parse().ok())
            .collect();
        runs.sort();
        Ok(runs)
    }

    /// All runs with a ledger folder, without reading any record.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn names(&self) -> Result<Vec<RunId>, StoreError> {
        let children = self.store.children("ledger/").await?;
        Ok(children.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Writes a hint that the run has pending work.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn mark_open(&self, run: &RunId) -> Result<(), StoreError> {
        self.store.create(&format!("open/{run}"), Default::default()).await.map(drop)
    }

    /// Removes the hint.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn mark_closed(&self, run: &RunId) -> Result<(), StoreError> {
        self.store.remove(&format!("open/{run}")).await
    }

    /// Runs with a hint, sorted. A hint may be missing after a crash: see [`Ledger::runs`].
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn open_runs(&self) -> Result<Vec<RunId>, StoreError> {
        let names = self.store.list("open/").await?;
        let mut runs: Vec<RunId> =
            names.iter().filter_map(|name| name.strip_prefix("open/")?.parse().ok()).collect();
        runs.sort();
        Ok(runs)
    }
}
