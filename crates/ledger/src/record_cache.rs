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

#[cfg(test)]
mod tests {
    use model::{Conclusion, RECORD_FORMAT, RecordEntry, Timestamp};

    use super::*;

    fn run(number: usize) -> RunId {
        format!("run-{number}").parse().unwrap()
    }

    fn record(run: &RunId, seq: u64) -> Record {
        Record {
            format: RECORD_FORMAT,
            run: run.clone(),
            seq,
            nonce: String::new(),
            recorded_at: Timestamp::from_millis(0),
            entry: RecordEntry::Closed { conclusion: Conclusion::Completed },
        }
    }

    #[test]
    fn the_least_recently_used_run_is_evicted_at_the_maximum_size() {
        let mut cache = RecordCache::default();
        for number in 0..4 {
            cache.push(&run(number), Arc::default(), record(&run(number), 1), MAX_BYTES / 4);
        }
        assert_eq!(cache.get(&run(0)).len(), 1, "run 0 is used again, so run 1 is now the oldest");
        let first = cache.get(&run(2));
        let grown = cache.push(&run(2), first, record(&run(2), 2), MAX_BYTES / 4);
        assert_eq!(grown.len(), 2);
        let cached: Vec<_> = (0..4).map(|number| cache.get(&run(number)).len()).collect();
        assert_eq!((cached, cache.size), (vec![1, 0, 2, 1], MAX_BYTES));
        cache.push(&run(9), Arc::default(), record(&run(9), 1), MAX_BYTES + 1);
        assert_eq!((cache.runs.len(), cache.size), (0, 0), "a run above the maximum is not kept");
    }

    #[test]
    fn a_slower_reader_does_not_replace_a_longer_ledger() {
        let (mut cache, run) = (RecordCache::default(), run(0));
        let short = cache.push(&run, Arc::default(), record(&run, 1), 10);
        cache.push(&run, Arc::clone(&short), record(&run, 2), 10);
        assert_eq!(cache.push(&run, short, record(&run, 2), 10).len(), 2);
        assert_eq!((cache.get(&run).len(), cache.size), (2, 20));
        cache.forget(&run);
        assert_eq!((cache.get(&run).len(), cache.size), (0, 0));
    }
}
