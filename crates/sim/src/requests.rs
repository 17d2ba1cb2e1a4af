//! Requests to the object store by kind, and their list price.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ledger::{OnRequest, RequestKind};

/// List prices of Cloud Storage for the Standard class in one region, US dollars per request: Class A (creations and listings)
/// 0.005 and Class B (reads) 0.0004 per thousand; removals are free. Source: <https://cloud.google.com/storage/pricing-examples>,
/// November 2026. A create is counted as one request, as for objects up to 1 MiB, and a list as one page, up to 1,000 names.
const CLASS_A: f64 = 0.005 / 1000.0;
const CLASS_B: f64 = 0.0004 / 1000.0;

#[derive(Default)]
pub struct Requests {
    creates: AtomicU64,
    reads: AtomicU64,
    lists: AtomicU64,
    removes: AtomicU64,
}

impl Requests {
    /// Counts the requests of an observed store.
    pub fn counter(self: &Arc<Self>) -> OnRequest {
        let counts = Arc::clone(self);
        Arc::new(move |request| {
            let count = match request.kind {
                RequestKind::Create => &counts.creates,
                RequestKind::Read => &counts.reads,
                RequestKind::List => &counts.lists,
                RequestKind::Remove => &counts.removes,
            };
            count.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Average number of requests per run, over this number of runs.
    pub fn per_run(&self, runs: usize) -> RequestsPerRun {
        let average = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / runs as f64;
        RequestsPerRun {
            creates: average(&self.creates),
            reads: average(&self.reads),
            lists: average(&self.lists),
            removes: average(&self.removes),
        }
    }
}

pub struct RequestsPerRun {
    creates: f64,
    reads: f64,
    lists: f64,
    removes: f64,
}

impl RequestsPerRun {
    /// List price of the requests of 1,000 runs, US dollars.
    pub fn price_of_a_thousand(&self) -> f64 {
        1000.0 * ((self.creates + self.lists) * CLASS_A + self.reads * CLASS_B)
    }
}

impl fmt::Display for RequestsPerRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { creates, reads, lists, removes } = self;
        write!(
            f,
            "object store requests per run: {creates:.1} creates, {lists:.1} lists (Class A), {reads:.1} reads (Class B), \
             {removes:.1} removes (free); 1,000 runs cost {:.2} USD at list price",
            self.price_of_a_thousand()
        )
    }
}
