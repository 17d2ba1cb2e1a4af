//! Appends and reads records.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use model::{RECORD_FORMAT, Record, RecordEntry, RunId, Timestamp, failpoint_is_active};

use crate::{Creation, Store, StoreError, record_cache::RecordCache};

/// Generates unique nonces. Injected, so that a simulation is reproducible.
pub type Nonces = Arc<dyn Fn() -> String + Send + Sync>;

/// The ledgers of all runs in one bucket. Clones share the records they have read: records never change, so
/// each is read once. Other writers' records are found by listing the names after the last known one.
#[derive(Clone)]
pub struct Ledger {
    store: Arc<dyn Store>,
    nonces: Nonces,
    cache: Arc<Mutex<RecordCache>>,
}

/// The records of a run at the time of reading. Appending requires it, so every writer has read the existing
/// records.
#[derive(Clone, Debug)]
pub struct LedgerSnapshot {
    run: RunId,
    records: Arc<Vec<Record>>,
}

/// A ledger that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store request failed.
    #[error("the ledger of {run} cannot be read")]
    Store {
        /// Run whose ledger cannot be read.
        run: RunId,
        /// Error of the request.
        source: StoreError,
    },
    /// A record is missing or invalid: it was changed manually.
    #[error("record {seq} of {run}: {why}")]
    Damaged {
        /// Run of the damaged ledger.
        run: RunId,
        /// Number of the damaged record.
        seq: u64,
        /// What is missing or invalid.
        why: String,
    },
}

/// Reason why a record was not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another writer appended first: reload and decide again.
    #[error("another writer appended record {seq} of {run} first")]
    Conflict {
        /// Run of the contested ledger.
        run: RunId,
        /// Contested sequence number.
        seq: u64,
    },
    /// The store request failed and its outcome could not be read back: repeat the whole step.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl LedgerSnapshot {
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
    /// Ledgers in `store`. `nonces` marks each record, so that a writer recognizes its own record after a lost
    /// response.
    pub fn new(store: Arc<dyn Store>, nonces: Nonces) -> Self {
        Self { store, nonces, cache: Arc::default() }
    }

    /// Bucket of the ledgers.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    fn name(run: &RunId, seq: u64) -> String {
        format!("ledger/{run}/{seq:010}.json")
    }

    fn cache(&self) -> MutexGuard<'_, RecordCache> {
        // The cache is consistent between calls, so a panic elsewhere cannot corrupt it.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the records of a run; empty for an unknown run. Costs one listing, and one read of each record
    /// that is new to this process.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the ledger is damaged.
    pub async fn load(&self, run: &RunId) -> Result<LedgerSnapshot, LedgerError> {
        let mut records = self.cache().get(run);
        let known = records.len() as u64;
        // The last known record is listed again. If it is absent, the ledger was removed, and is read from its start.
        let mut last = self.last_listed(run, known.max(1)).await?;
        if last < known {
            self.cache().forget(run);
            records = Arc::default();
            last = self.last_listed(run, 1).await?;
        }
        // Every number is read, listed or not: a listing may miss a record that is created meanwhile.
        for seq in records.len() as u64 + 1..=last {
            let Some((record, size)) = self.read(run, seq).await? else {
                let why = "is missing although later ones exist".to_owned();
                return Err(LedgerError::Damaged { run: run.clone(), seq, why });
            };
            records = self.cache().push(run, records, record, size);
        }
        Ok(LedgerSnapshot { run: run.clone(), records })
    }

    /// The records of a run, at least up to number `seq`. Costs no store request if this process has read them.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the ledger is damaged.
    pub async fn load_to(&self, run: &RunId, seq: u64) -> Result<LedgerSnapshot, LedgerError> {
        let records = self.cache().get(run);
        if records.len() as u64 >= seq {
            return Ok(LedgerSnapshot { run: run.clone(), records });
        }
        self.load(run).await
    }

    /// Whether a run has a record.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the record is damaged.
    pub async fn exists(&self, run: &RunId) -> Result<bool, LedgerError> {
        Ok(!self.cache().get(run).is_empty() || !self.read_range(run, 0..1).await?.is_empty())
    }

    /// The existing records after number `seq`, for followers of a run. Costs one read of each record that is
    /// new to this process, and one of the next, absent number.
    ///
    /// # Errors
    /// Returns an error if the store request fails or a record is damaged.
    pub async fn since(&self, run: &RunId, seq: u64) -> Result<Vec<Record>, LedgerError> {
        self.read_range(run, seq..u64::MAX).await
    }

    /// The existing records after number `range.start`, up to `range.end`.
    async fn read_range(&self, run: &RunId, range: Range<u64>) -> Result<Vec<Record>, LedgerError> {
        let mut records = self.cache().get(run);
        let begin = usize::try_from(range.start).unwrap_or(usize::MAX);
        if records.len() < begin {
            // The earlier records were evicted, or the caller read them elsewhere.
            let mut news = Vec::new();
            for seq in range.start + 1..=range.end {
                let Some((record, _)) = self.read(run, seq).await? else { break };
                news.push(record);
            }
            return Ok(news);
        }
        for seq in records.len() as u64 + 1..=range.end {
            let Some((record, size)) = self.read(run, seq).await? else { break };
            records = self.cache().push(run, records, record, size);
        }
        Ok(records[begin..].to_vec())
    }

    /// The greatest listed number that is not less than `from`; 0 if no record is listed.
    async fn last_listed(&self, run: &RunId, from: u64) -> Result<u64, LedgerError> {
        let names = self.store.list_from(&format!("ledger/{run}/"), &Self::name(run, from)).await;
        let names = names.map_err(|source| LedgerError::Store { run: run.clone(), source })?;
        let number = |name: &String| name.rsplit_once('/')?.1.strip_suffix(".json")?.parse().ok();
        Ok(names.iter().filter_map(number).max().unwrap_or(0))
    }

    /// A record and its size, bytes.
    async fn read(&self, run: &RunId, seq: u64) -> Result<Option<(Record, usize)>, LedgerError> {
        let body = self.store.read(&Self::name(run, seq)).await;
        let Some(body) = body.map_err(|source| LedgerError::Store { run: run.clone(), source })? else {
            return Ok(None);
        };
        let damaged = |why| LedgerError::Damaged { run: run.clone(), seq, why };
        let record: Record = serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?;
        if record.format > RECORD_FORMAT {
            return Err(damaged(format!(
                "has format {}, which this program is too old to read; update it",
                record.format
            )));
        }
        if record.seq != seq || record.run != *run {
            return Err(damaged(format!("the object contains record {} of {}", record.seq, record.run)));
        }
        Ok(Some((record, body.len())))
    }

    /// Appends one entry after the loaded records. Time never decreases within a run.
    ///
    /// # Errors
    /// Returns an error if another writer appended first ([`AppendError::Conflict`]) or the store request fails.
    pub async fn append(
        &self,
        mut loaded: LedgerSnapshot,
        entry: RecordEntry,
        now: Timestamp,
    ) -> Result<LedgerSnapshot, AppendError> {
        let last = loaded.records.last().map(|record| record.recorded_at);
        let seq = loaded.next_seq();
        let record = Record {
            format: entry.format(),
            run: loaded.run.clone(),
            seq,
            nonce: (self.nonces)(),
            recorded_at: last
                .filter(|_| !failpoint_is_active("time_goes_back"))
                .map_or(now, |last| last.max(now)),
            entry,
        };
        let body = serde_json::to_vec_pretty(&record).map_err(|error| LedgerError::Damaged {
            run: loaded.run.clone(),
            seq,
            why: error.to_string(),
        })?;
        let size = body.len();
        let created = self.store.create(&Self::name(&loaded.run, seq), body.into()).await;
        let ours = match &created {
            Ok(Creation::Created) => true,
            // The response may be lost after a successful write. The nonce decides.
            Ok(Creation::Exists) | Err(_) => match self.read(&loaded.run, seq).await? {
                Some((there, _)) if there.nonce == record.nonce => true,
                Some((there, size)) => {
                    self.cache().push(&loaded.run, Arc::clone(&loaded.records), there, size);
                    false
                }
                None => false,
            },
        };
        match created {
            _ if ours || failpoint_is_active("conflict_taken_for_success") => {
                loaded.records = self.cache().push(&loaded.run, loaded.records, record, size);
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
