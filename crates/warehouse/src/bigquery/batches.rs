//! Groups loads into batches.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::{
    BigQueryOptions,
    load_store::{LoadMark, LoadNote, LoadStore},
};
use crate::Error;

/// Version of the rules that turn a batch into jobs. Batches of a later version are not processed. Version 2 added the table
/// `metrics`, version 3 `findings`, version 4 `node_results`; batches of earlier versions have no rows for them, and result in the same jobs.
const RULES: u32 = 4;
/// Length of a time slot of hints. A hint is valid for one to two slots.
const SLOT: Duration = Duration::from_secs(600);
/// Maximum concurrent requests to the bucket.
const AT_ONCE: usize = 16;

/// Loads that share jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    rules: u32,
    /// Sequence number, starting at 1.
    pub number: u64,
    /// Time of creation, milliseconds since 1970, by its creator's clock.
    made_at: u64,
    /// Loads of the batch, sorted by id.
    pub loads: Vec<LoadNote>,
}

impl Batch {
    fn has(&self, load: &str) -> bool {
        self.loads.iter().any(|member| member.load == load)
    }
}

enum FoundBatch {
    InBatch(Batch),
    /// The load is neither marked nor in the last batch. It may be in an earlier batch whose members are not all marked
    /// yet.
    NotInLast {
        last: Option<Batch>,
    },
}

pub struct Batches {
    load_store: LoadStore,
    options: BigQueryOptions,
    /// Highest known batch number; 0 before the first batch.
    known: AtomicU64,
    /// Within one process, one call creates a batch, which contains the loads of the other calls.
    making: Mutex<()>,
}

impl Batches {
    pub fn new(load_store: LoadStore, options: BigQueryOptions) -> Self {
        Self { load_store, options, known: AtomicU64::new(0), making: Mutex::default() }
    }

    /// The batch of this load. Creates it if absent, but not before the interval has passed.
    pub async fn join(&self, note: &LoadNote) -> Result<Batch, Error> {
        if let FoundBatch::InBatch(batch) = self.find(&note.load).await? {
            return Ok(batch);
        }
        self.load_store.put_hint(slots(now())[0], &note.load).await?;
        let _one = self.making.lock().await;
        let mut waited_after = None;
        loop {
            let last = match self.find(&note.load).await? {
                FoundBatch::InBatch(batch) => return Ok(batch),
                FoundBatch::NotInLast { last } => last,
            };
            let number = last.as_ref().map_or(0, |last| last.number);
            if waited_after == Some(number) {
                // The next iteration determines whether this batch or a concurrent one was stored.
                self.create_after(last.as_ref(), note).await?;
            } else {
                // A new last batch restarts the wait, because another process may include this load during the wait.
                waited_after = Some(number);
                tokio::time::sleep(self.pause_after(last.as_ref())).await;
            }
        }
    }

    /// Time until the next batch may be created: the rest of the interval, at least the waiting time for further loads.
    fn pause_after(&self, last: Option<&Batch>) -> Duration {
        let due = last.map_or(0, |last| last.made_at + millis(self.options.every));
        // If another process's clock is ahead, the pause is at most one interval.
        let rest = Duration::from_millis(due.saturating_sub(now())).min(self.options.every);
        rest.max(self.options.wait_for_others)
    }

    /// Creates the batch after `last` with this load, unless the load is in an earlier batch.
    async fn create_after(&self, last: Option<&Batch>, note: &LoadNote) -> Result<(), Error> {
        if let Some(last) = last {
            self.seal(last).await?;
            // All members of the existing batches are marked: a load without `batch.json` is in no batch.
            if self.load_store.mark(&note.load).await?.is_some() {
                return Ok(());
            }
        }
        let batch = Batch {
            rules: RULES,
            number: last.map_or(0, |last| last.number) + 1,
            made_at: now(),
            loads: self.batch_members(note, last).await?,
        };
        self.load_store.put(&name(batch.number), &batch).await?;
        Ok(())
    }

    async fn find(&self, load: &str) -> Result<FoundBatch, Error> {
        if let Some(mark) = self.load_store.mark(load).await? {
            return Ok(FoundBatch::InBatch(self.read(mark.batch).await?));
        }
        Ok(match self.last_batch().await? {
            Some(last) if last.has(load) => FoundBatch::InBatch(last),
            last => FoundBatch::NotInLast { last },
        })
    }

    /// Ensures that each member of a batch is marked.
    async fn seal(&self, batch: &Batch) -> Result<(), Error> {
        let mark = LoadMark { batch: batch.number };
        let names: Vec<_> = batch.loads.iter().map(|load| load.load.clone()).collect();
        let marks =
            stream::iter(names).map(|load| async move { self.load_store.set_mark(&load, mark).await });
        marks.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// This load, and other waiting loads without a batch.
    async fn batch_members(&self, note: &LoadNote, last: Option<&Batch>) -> Result<Vec<LoadNote>, Error> {
        let mut names = Vec::new();
        for slot in slots(now()) {
            names.extend(self.load_store.hinted_loads(slot).await?);
        }
        names.sort_unstable();
        names.dedup();
        names.retain(|name| *name != note.load && !last.is_some_and(|last| last.has(name)));
        let free = stream::iter(names)
            .map(|name| async move {
                match self.load_store.mark(&name).await? {
                    Some(_) => Ok(None),
                    None => self.load_store.read_note(&name).await,
                }
            })
            .buffered(AT_ONCE)
            .try_filter_map(|note| async { Ok::<_, Error>(note.filter(|note| !note.objects.is_empty())) })
            .take(self.options.most.saturating_sub(1));
        let mut loads: BTreeMap<_, _> = free.map_ok(|note| (note.load.clone(), note)).try_collect().await?;
        loads.insert(note.load.clone(), note.clone());
        Ok(loads.into_values().collect())
    }

    /// The batch with the highest number. Numbers have no gaps, so a binary search finds it.
    async fn last_batch(&self) -> Result<Option<Batch>, Error> {
        let (mut there, mut step) = (self.known.load(Ordering::Relaxed), 1);
        let mut absent = loop {
            if !self.batch_exists(there + step).await? {
                break there + step;
            }
            there += step;
            step *= 2;
        };
        while absent - there > 1 {
            let middle = there + (absent - there) / 2;
            match self.batch_exists(middle).await? {
                true => there = middle,
                false => absent = middle,
            }
        }
        self.known.fetch_max(there, Ordering::Relaxed);
        if there == 0 {
            return Ok(None);
        }
        self.read(there).await.map(Some)
    }

    async fn batch_exists(&self, number: u64) -> Result<bool, Error> {
        Ok(self.load_store.get::<serde::de::IgnoredAny>(&name(number)).await?.is_some())
    }

    async fn read(&self, number: u64) -> Result<Batch, Error> {
        let found: Option<Batch> = self.load_store.get(&name(number)).await?;
        let wrong = |why: String| Error::Transient(format!("BigQuery: batch {number} {why}"));
        let batch = found.ok_or_else(|| wrong("was deleted".to_owned()))?;
        if batch.number != number {
            return Err(wrong(format!("contains the number {}", batch.number)));
        }
        if !(1..=RULES).contains(&batch.rules) {
            return Err(wrong(format!(
                "follows rules {}, but this loader supports at most {RULES}: a newer loader created it",
                batch.rules
            )));
        }
        Ok(batch)
    }
}

fn name(number: u64) -> String {
    format!("batches/{number:010}.json")
}

/// Time slots of current and previous hints.
fn slots(now: u64) -> [u64; 2] {
    let slot = now / millis(SLOT);
    [slot, slot.saturating_sub(1)]
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Current time, milliseconds since 1970.
pub fn now() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
