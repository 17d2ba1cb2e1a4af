//! Measures throughput, cost and memory of many concurrent runs with the real handlers.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use conductor::{Conductor, WakeSettings};
use events::Message;
use ledger::{Ledger, ObservedStore, Store};
use model::{Attempt, Span, Timestamp};
use service::{Bus, BusError, Event, Handler, ManualClock};

use crate::{
    ObjectFile, RequestedRun, Scenario, Simulation, requests::Requests, store::at_once, workload,
    world::START,
};

/// Function that returns the heap size, bytes.
pub type Heap<'a> = &'a dyn Fn() -> usize;

fn kib_a_run(bytes: usize, runs: usize) -> f64 {
    bytes as f64 / 1024.0 / runs as f64
}

/// CPU time of this thread, milliseconds; 0 if unknown. Other threads do not count.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e6
}

/// Resident memory of the process, bytes; 0 if unknown. Includes the allocator's overhead.
fn resident() -> usize {
    let stat = fs::read_to_string("/proc/self/statm").ok();
    let pages = stat.and_then(|text| text.split_whitespace().nth(1)?.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

/// Simulated milliseconds between requests: all arrive before the first run ends.
const APART: i64 = 2;

/// Executes this number of runs concurrently to their end and prints the cost. Their objects are in a file, so
/// that they do not count as memory of the handlers.
///
/// # Errors
/// Returns an error if that file cannot be created.
pub fn report(runs: usize, heap: Heap<'_>) -> io::Result<()> {
    let (before, before_resident) = (heap(), resident());
    let (bucket, requests): (Arc<dyn Store>, _) = (Arc::new(ObjectFile::new()?), Arc::<Requests>::default());
    let observed = ObservedStore::new(Arc::clone(&bucket), requests.counter());
    let mut simulation = Simulation::with(Scenario::without_faults(1, 0), Arc::new(observed));
    simulation.world.inner().busy = Some(Vec::new());
    let (began, before_cpu) = (Instant::now(), processor());
    let (mut most, mut most_resident, mut open) = (0, 0, 0);
    for number in 0..runs {
        let next = simulation.world.inner().now + APART;
        simulation.request(&RequestedRun::at_start(number));
        while simulation.world.inner().now < next && simulation.step() {}
    }
    loop {
        let quiet = simulation.run_steps(20_000);
        most = most.max(heap());
        most_resident = most_resident.max(resident());
        open = open.max(at_once(bucket.list("open/")).map_or(0, |names| names.len()));
        if quiet {
            break;
        }
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), processor() - before_cpu);
    let names = at_once(bucket.list("")).unwrap_or_default();
    let records = names.iter().filter(|name| name.starts_with("ledger/")).count();
    let stored: usize =
        names.iter().map(|name| at_once(bucket.read(name)).ok().flatten().map_or(0, |body| body.len())).sum();
    let mut busy = simulation.world.inner().busy.take().unwrap_or_default();
    busy.sort_unstable();
    let at = |share: usize| busy.get(busy.len() * share / 100).map_or(0.0, |&busy| f64::from(busy) / 1e6);
    let events = simulation.published();
    println!(
        "{runs:>6} runs, {open:>6} of them concurrent: {took:7.2} s, {:8.0} events/s, {:6.2} ms of CPU per run, {:5.1} records per run, \
         fact to command p50 {:.3} ms p99 {:.3} ms; the heap grew by {:.1} KiB per run, the process by {:.1}, \
         in addition to a bucket of {:.1} KiB per run",
        events as f64 / took,
        cpu / runs as f64,
        records as f64 / runs as f64,
        at(50),
        at(99),
        kib_a_run(most.saturating_sub(before), runs),
        kib_a_run(most_resident.saturating_sub(before_resident), runs),
        kib_a_run(stored, runs),
    );
    println!("{:>6}       {}", "", requests.per_run(runs));
    Ok(())
}

/// A bus that accepts all events and drops them.
struct DiscardingBus;

#[async_trait::async_trait]
impl Bus for DiscardingBus {
    async fn publish(&self, _: Event) -> Result<(), BusError> {
        Ok(())
    }
}

/// Keeps this number of runs open in one conductor, and prints the memory for each of them, without its records.
///
/// # Errors
/// Returns an error if the file for the records cannot be created.
pub fn measure_memory(runs: usize, heap: Heap<'_>) -> io::Result<()> {
    let bucket = Arc::new(ObjectFile::new()?);
    let written = AtomicU64::new(0);
    let nonces = move || written.fetch_add(1, Ordering::Relaxed).to_string();
    let ledger = Ledger::new(bucket, Arc::new(nonces));
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
    let settings = WakeSettings { resend: Span::from_secs(30), refresh: Span::default() };
    let conductor = Conductor::new(ledger, Arc::new(DiscardingBus), clock, settings, None);
    let before = heap();
    for number in 0..runs {
        let run = format!("sim-{number}").parse().unwrap_or_else(|error| unreachable!("{error}"));
        let event = Message::fact("cli", run, Attempt::FIRST, workload::requested(workload::full_workflow()))
            .to_event();
        at_once(conductor.handle(&event));
    }
    let grown = kib_a_run(heap().saturating_sub(before), runs);
    println!("{runs:>6} open runs in one conductor: {grown:.2} KiB per run, names of objects included");
    Ok(())
}
