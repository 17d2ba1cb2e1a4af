//! Store requests of a conductor.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::support::*;
use conductor::Conductor;
use ledger::{ObservedStore, OnRequest, RequestKind, StoreRequest};
use model::*;
use service::{Disposition, Event, Handler};

/// A conductor, and its requests to the ledger.
struct ConductorProcess {
    conductor: Arc<Conductor>,
    requests: Arc<Mutex<Vec<(RequestKind, String, bool)>>>,
    read: BTreeMap<String, usize>,
}

impl ConductorProcess {
    fn new(bed: &Conductors, refresh: Span) -> Self {
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let seen = Arc::clone(&requests);
        let on: OnRequest = Arc::new(move |StoreRequest { kind, name, found }| {
            if name.starts_with("ledger/") {
                seen.lock().unwrap().push((kind, name.to_owned(), found));
            }
        });
        let store = Arc::new(ObservedStore::new(Arc::clone(&bed.store), on));
        Self { conductor: bed.conductor_over(store, refresh), requests, read: BTreeMap::new() }
    }

    /// Returns the number of list requests since the last call, and adds the reads of each record to `read`.
    fn lists(&mut self) -> usize {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        for (_, name, _) in requests.iter().filter(|(kind, _, found)| *kind == RequestKind::Read && *found) {
            *self.read.entry(name.clone()).or_default() += 1;
        }
        requests.iter().filter(|(kind, ..)| *kind == RequestKind::List).count()
    }

    async fn receive(&mut self, event: &Event) {
        assert_eq!(self.conductor.handle(event).await, Disposition::Done);
        assert!(self.lists() <= 1, "a fact costs at most one listing: {event:?}");
    }
}

fn facts() -> Vec<Event> {
    [requested()].into_iter().chain(answers()).collect()
}

#[tokio::test]
async fn a_fact_causes_at_most_one_listing_and_a_conductor_never_reads_its_own_records() {
    let bed = Conductors::new();
    let mut process = ConductorProcess::new(&bed, Span::default());
    for event in facts() {
        process.receive(&event).await;
        process.receive(&event).await; // a duplicate
    }
    assert_eq!(bed.records().await.len(), 12);
    assert_eq!(process.read, BTreeMap::new(), "a writer does not read its own records");
    process.conductor.tick().await.unwrap();
    assert_eq!(process.conductor.remembered(), 0, "the state of a closed run is dropped");
}

#[tokio::test]
async fn two_conductors_read_each_record_of_the_other_once() {
    let bed = Conductors::new();
    let mut processes =
        [ConductorProcess::new(&bed, Span::default()), ConductorProcess::new(&bed, Span::default())];
    for (number, event) in facts().into_iter().enumerate() {
        processes[number % 2].receive(&event).await;
        for process in &mut processes {
            process.conductor.tick().await.unwrap();
            assert!(process.lists() <= 1, "a tick causes at most one listing per run");
        }
    }
    let records = bed.records().await;
    assert_eq!(records.len(), 12);
    assert_sound(&records);
    for process in &processes {
        assert!(process.read.values().all(|times| *times == 1), "{:?}", process.read);
    }
    let read: usize = processes.iter().map(|process| process.read.len()).sum();
    assert!((6..=12).contains(&read), "each record is read by the process that did not write it: {read}");
}

#[tokio::test]
async fn a_tick_finds_the_records_of_another_process_after_the_refresh_time() {
    let bed = Conductors::new();
    let mut ours = ConductorProcess::new(&bed, Span::from_secs(1));
    ours.receive(&requested()).await;
    let cancel = Fact::CancelRequested(CancelRequested { by: "alice".into(), reason: String::new() });
    deliver_all(&bed.conductor(), [event("cli", cancel)]).await;
    bed.bus.forget();

    bed.clock.advance(Span::from_millis(999));
    ours.conductor.tick().await.unwrap();
    assert_eq!((ours.lists(), bed.bus.commands().len()), (0, 0), "records that were read earlier count too");
    bed.clock.advance(Span::from_millis(1));
    ours.conductor.tick().await.unwrap();
    assert_eq!(ours.lists(), 1);
    assert_eq!(bed.bus.commands(), ["image.1.cancel"], "the cancel is now known");
}

#[tokio::test]
async fn a_tick_whose_append_conflicts_reads_the_record_of_the_other_process() {
    let bed = Conductors::new();
    let mut ours = ConductorProcess::new(&bed, Span::from_secs(1 << 30));
    ours.receive(&requested()).await;
    let cancel = Fact::CancelRequested(CancelRequested { by: "alice".into(), reason: String::new() });
    deliver_all(&bed.conductor(), [event("cli", cancel)]).await;

    // According to the records in memory the image is overdue; the ledger also contains the run's cancel.
    bed.clock.advance(Span::from_secs(24 * 3600));
    ours.conductor.tick().await.unwrap();
    let state = bed.state().await;
    assert_eq!(state.settled.map(|(conclusion, _)| conclusion.as_str()), Some("cancelled"));
    ours.lists();
    assert!(ours.read.values().all(|times| *times == 1), "{:?}", ours.read);
}
