//! Many runs at once through the real handlers: how fast, at what cost, in how much memory.

use std::{fs, time::Instant};

use ledger::Store;

use crate::{Scenario, Simulation, store::at_once};

/// Resident memory of this process, bytes; 0 where the system does not tell.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Runs so many at once to their end and prints what it took.
pub fn report(runs: usize) {
    let before = resident();
    let mut simulation = Simulation::new(Scenario::happy(1, runs));
    simulation.world.inner().busy = Some(Vec::new());
    let began = Instant::now();
    let mut most = 0;
    let mut steps = 0_u64;
    while !simulation.settle_for(20_000) {
        steps += 1;
        if steps.is_multiple_of(16) {
            most = most.max(resident());
        }
    }
    let took = began.elapsed().as_secs_f64();
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
        "{runs:>6} runs: {took:7.2} s, {:8.0} events/s, {:6.2} ms a run, {:5.1} records a run, \
         fact to command p50 {:.3} ms p99 {:.3} ms; memory grew by {:.1} KiB a run, of which {:.1} KiB lie in the bucket",
        events as f64 / took,
        took * 1e3 / runs as f64,
        records as f64 / runs as f64,
        at(50),
        at(99),
        grown as f64 / 1024.0 / runs as f64,
        stored as f64 / 1024.0 / runs as f64,
    );
}
