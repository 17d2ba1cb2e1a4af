//! Loads a batch: runs load jobs until each of its loads has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures::stream::{self, StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use tracing::warn;

use super::{
    batches::{Batch, now},
    client::{BigQueryClient, FinishedJob, JobResult},
    load_store::{LoadEnd, LoadNote, LoadStore},
};
use crate::Error;

/// Maximum pause before a failed job is retried.
const LONGEST: Duration = Duration::from_secs(600);

/// Loads batches. Within one process one call loads each batch, and other calls wait for it.
#[derive(Default)]
pub struct BatchLoader(Mutex<BTreeMap<u64, Weak<tokio::sync::Mutex<()>>>>);

impl BatchLoader {
    /// Runs load jobs until every load of the batch has ended.
    pub async fn run_load_jobs(
        &self,
        client: &BigQueryClient,
        load_store: &LoadStore,
        batch: &Batch,
    ) -> Result<(), Error> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, turn| turn.strong_count() > 0);
            let lock = locks.get(&batch.number).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(batch.number, Arc::downgrade(&lock));
            lock
        };
        let _guard = lock.lock().await;
        let names: Vec<_> = batch.loads.iter().map(|load| load.load.clone()).collect();
        let ends = stream::iter(names).map(|load| async move { load_store.end(&load).await });
        let ended: Vec<_> = ends.buffered(16).try_collect().await?;
        if ended.iter().all(Option::is_some) {
            return Ok(());
        }
        let settled = batch.loads.iter().zip(ended).filter(|(_, end)| end.is_some());
        let settled: BTreeSet<_> = settled.map(|(load, _)| load.load.as_str()).collect();
        let mut ends = LoadJobs { client, load_store, batch: batch.number }.load(&batch.loads).await?;
        ends.retain(|load, _| !settled.contains(load.as_str()));
        let noted =
            stream::iter(ends).map(|(load, end)| async move { load_store.set_end(&load, &end).await });
        noted.buffer_unordered(16).try_collect().await
    }
}

/// The jobs of a batch. They have no stored state: their ids and objects follow from the batch alone, and the
/// next job from the results of earlier ones, which are final.
struct LoadJobs<'a> {
    client: &'a BigQueryClient,
    load_store: &'a LoadStore,
    batch: u64,
}

impl LoadJobs<'_> {
    async fn load(&self, loads: &[LoadNote]) -> Result<BTreeMap<String, LoadEnd>, Error> {
        let mut refused = BTreeMap::new();
        // A verdict's row means that the other rows of its check are loaded, so the verdict's row is loaded last.
        for table in ["measurements", "metrics", "findings", "node_results", "verdicts", "runs"] {
            let wanted =
                |load: &&LoadNote| load.objects.contains_key(table) && !refused.contains_key(&load.load);
            let mut sets = vec![loads.iter().filter(wanted).collect::<Vec<_>>()];
            while let Some(set) = sets.pop() {
                if set.is_empty() {
                    continue;
                }
                let Err(why) = self.table(table, &set).await? else { continue };
                match set.split_at(set.len() / 2) {
                    ([], [culprit, ..]) => {
                        warn!(load = culprit.load, table, why, "BigQuery rejected a load permanently");
                        refused.insert(culprit.load.clone(), why);
                    }
                    (some, others) => sets.extend([some.to_vec(), others.to_vec()]),
                }
            }
        }
        let end = |load: &LoadNote| match refused.get(&load.load) {
            Some(why) => LoadEnd::Refused(why.clone()),
            None => LoadEnd::Loaded,
        };
        Ok(loads.iter().map(|load| (load.load.clone(), end(load))).collect())
    }

    /// Loads one table's rows of several loads, atomically and once. Returns the reason if any of the rows are rejected permanently.
    async fn table(&self, table: &str, set: &[&LoadNote]) -> Result<Result<(), String>, Error> {
        let uris: BTreeSet<_> =
            set.iter().filter_map(|load| load.objects.get(table)).map(|o| self.load_store.uri(o)).collect();
        let uris: Vec<_> = uris.into_iter().collect();
        for attempt in 0_u32.. {
            let id = self.id(table, &uris, attempt);
            let FinishedJob { how, at } = self.client.load(&id, table, &uris).await?;
            let why = match how {
                JobResult::Loaded => return Ok(Ok(())),
                JobResult::InvalidRows(why) => return Ok(Err(why)),
                JobResult::Transient(why) => why,
            };
            warn!(job = id, why, "a load job failed, and wrote no row");
            self.client.set_last_error(&why);
            // The pause starts at the end of the failed job, so that later callers do not wait longer. Without a pause
            // the retries would exhaust the daily quota.
            let pause = self.client.again().saturating_mul(1 << attempt.min(20)).min(LONGEST);
            let due = at.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
            tokio::time::sleep(Duration::from_millis(due.saturating_sub(now())).min(LONGEST)).await;
        }
        Err(Error::Transient(format!(
            "BigQuery: batch {} exceeds the maximum number of attempts",
            self.batch
        )))
    }

    /// Job id, equal only for the same objects, table and attempt. Object names include their digest, so a job
    /// under this id loads exactly these rows, regardless of the caller that created the job.
    fn id(&self, table: &str, uris: &[String], attempt: u32) -> String {
        let mut digest = Sha256::new();
        for part in [&self.client.dataset(), table].into_iter().chain(uris.iter().map(String::as_str)) {
            digest.update(part);
            digest.update([0]);
        }
        let digest = hex::encode(&digest.finalize()[..16]);
        format!("burnin_{table}_{}_{digest}_{attempt}", self.batch)
    }
}
