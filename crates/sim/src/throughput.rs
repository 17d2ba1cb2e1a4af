//! Many runs at once through the real handlers: how fast, at what cost, in how much memory.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use conductor::{Conductor, Settings};
use contract::Message;
use kit::{Bus, BusError, Event, Handler, ManualClock};
use ledger::{Ledger, MemoryStore, Store};
use terms::{Attempt, Span, Timestamp};

use crate::{Scenario, Simulation, store::at_once, workload, world::START};

/// Resident memory of this process, bytes; 0 where the system does not tell.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// What this thread has had of a processor, milliseconds; 0 where the system does not tell. Others at work do not count.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e6
}

/// Runs so many at once to their end and prints what it took.
pub fn report(runs: usize) {
    let before = resident();
    let mut simulation = Simulation::new(Scenario::happy(1, runs));
    simulation.world.inner().busy = Some(Vec::new());
    let (began, before_cpu) = (Instant::now(), processor());
    let mut most = 0;
    let mut steps = 0_u64;
    while !simulation.settle_for(20_000) {
        steps += 1;
        if steps.is_multiple_of(16) {
            most = most.max(resident());
        }
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), processor() - before_cpu);
    let names = at_once(simulation.bucket.list("")).unwrap_or_default();
    let records = names.iter().filter(|name| name.starts_with("ledger/")).count();
    let stored: usize = names
        .iter()
        .map(|name| at_once(simulation.bucket.read(name)).ok().flatten().map_or(0, |body| body.len()))
        .sum();
    let mut busy = simulation.world.inner().busy.take().unwrap_or_default();
    busy.sort_unstable();
    let at = |share: usize| busy.get(busy.len() * share / 100).map_or(0.0, |busy| busy.as_secs_f64() * 1e3);
    let events = simulation.published();
    let grown = most.max(resident()).saturating_sub(before);
    println!(
        "{runs:>6} runs: {took:7.2} s, {:8.0} events/s, {:6.2} ms of CPU a run, {:5.1} records a run, \
         fact to command p50 {:.3} ms p99 {:.3} ms; memory grew by {:.1} KiB a run, of which {:.1} KiB lie in the bucket",
        events as f64 / took,
        cpu / runs as f64,
        records as f64 / runs as f64,
        at(50),
        at(99),
        grown as f64 / 1024.0 / runs as f64,
        stored as f64 / 1024.0 / runs as f64,
    );
}

/// Takes everything and keeps nothing.
struct Nobody;

#[async_trait::async_trait]
impl Bus for Nobody {
    async fn publish(&self, _: Event) -> Result<(), BusError> {
        Ok(())
    }
}

/// Has one conductor hold so many runs open at once, and prints what each costs it beside its records.
pub fn held(runs: usize) {
    let bucket = Arc::new(MemoryStore::default());
    let written = AtomicU64::new(0);
    let nonces = move || written.fetch_add(1, Ordering::Relaxed).to_string();
    let ledger = Ledger::new(Arc::clone(&bucket) as Arc<dyn Store>, Arc::new(nonces));
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
    let settings = Settings { resend: Span::from_secs(30) };
    let conductor = Conductor::new(ledger, Arc::new(Nobody), clock, settings, None);
    let before = resident();
    for number in 0..runs {
        let run = format!("sim-{number}").parse().unwrap_or_else(|error| unreachable!("{error}"));
        let event =
            Message::fact("cli", run, Attempt::FIRST, workload::requested(workload::whole())).to_event();
        at_once(conductor.handle(&event));
    }
    let names = at_once(bucket.list("")).unwrap_or_default();
    let body = |name: &String| at_once(bucket.read(name)).ok().flatten().map_or(0, |body| body.len());
    let stored: usize = names.iter().map(|name| name.len() + body(name)).sum();
    let grown = resident().saturating_sub(before) as f64 / 1024.0 / runs as f64;
    println!(
        "{runs:>6} runs held open by one conductor: {grown:.2} KiB a run, of which {:.2} KiB are its first record in the \
         bucket of paper",
        stored as f64 / 1024.0 / runs as f64
    );
}
