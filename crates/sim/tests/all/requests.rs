//! Requests to the object store, and their price.

use std::sync::Arc;

use ledger::{MemoryStore, ObservedStore, Store};
use sim::{requests::Requests, store::at_once};

#[test]
fn requests_are_counted_by_kind_and_priced_by_class() {
    let requests = Arc::<Requests>::default();
    let store = ObservedStore::new(Arc::new(MemoryStore::default()), requests.counter());
    at_once(store.create("a/b", Default::default())).unwrap();
    for _ in 0..3 {
        at_once(store.list("a/")).unwrap();
    }
    for _ in 0..10 {
        at_once(store.read("a/b")).unwrap();
    }
    at_once(store.remove("a/b")).unwrap();
    let per_run = requests.per_run(2);
    assert!((per_run.price_of_a_thousand() - (2.0 * 0.005 + 5.0 * 0.0004)).abs() < 1e-12);
    assert_eq!(
        per_run.to_string(),
        "object store requests per run: 0.5 creates, 1.5 lists (Class A), 5.0 reads (Class B), 0.5 removes (free); 1,000 runs \
         cost 0.01 USD at list price"
    );
}
