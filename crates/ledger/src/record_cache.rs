//! Records that this process has read or written, by run, up to a total size.

use std::sync::Arc;

use hashlink::LinkedHashMap;
use model::{Record, RunId};

/// Maximum size of all cached records, bytes as stored. A run has about a dozen records of 1 to 4 KiB: about
/// a thousand runs fit.
const MAX_BYTES: usize = 32 << 20;

/// The least recently used runs are evicted first; their records are read again when needed.
#[derive(Default)]
pub struct RecordCache {
    runs: LinkedHashMap<RunId, Cached>,
    size: usize,
}

struct Cached {
    /// Records of the run, starting at number 1, without gaps.
    records: Arc<Vec<Record>>,
    size: usize,
}

impl RecordCache {
    /// The cached records of a run; empty if it is not cached.
    pub fn get(&mut self, run: &RunId) -> Arc<Vec<Record>> {
        self.runs.to_back(run).map(|cached| Arc::clone(&cached.records)).unwrap_or_default()
    }

    /// Evicts the records of a run: the next read loads them from the store.
    pub fn forget(&mut self, run: &RunId) {
        if let Some(cached) = self.runs.remove(run) {
            self.size -= cached.size;
        }
    }

    /// Adds `record`, `size` bytes as stored, to the `records` before it, and returns them all.
    pub fn push(
        &mut self,
        run: &RunId,
        mut records: Arc<Vec<Record>>,
        record: Record,
        size: usize,
    ) -> Arc<Vec<Record>> {
        let cached = self.runs.remove(run);
        let before = cached.as_ref().map_or(0, |cached| cached.size);
        self.size -= before;
        match cached {
            // A concurrent reader has cached more, or the run was evicted meanwhile and its size is unknown.
            Some(cached) if cached.records.len() != records.len() => {
                self.insert(run, cached.records, before);
                Arc::make_mut(&mut records).push(record);
            }
            None if !records.is_empty() => Arc::make_mut(&mut records).push(record),
            cached => {
                drop(cached); // the caller's reference is then the only one, and no record is copied
                Arc::make_mut(&mut records).push(record);
                self.insert(run, Arc::clone(&records), before + size);
            }
        }
        records
    }

    fn insert(&mut self, run: &RunId, records: Arc<Vec<Record>>, size: usize) {
        self.runs.insert(run.clone(), Cached { records, size });
        self.size += size;
        while self.size > MAX_BYTES
            && let Some((_, evicted)) = self.runs.pop_front()
        {
            self.size -= evicted.size;
        }
    }
}
