//! Command line of the simulator: `cargo run -p sim -- replay SEED` and others.

use std::{
    collections::BTreeMap,
    io::{BufRead, stdin},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use sim::Scenario;

/// mimalloc, because whole worlds are created and dropped, and ten thousand runs share one heap. `Cap` measures the heap.
#[global_allocator]
static ALLOCATOR: cap::Cap<mimalloc::MiMalloc> = cap::Cap::new(mimalloc::MiMalloc, usize::MAX);

#[derive(Parser)]
#[command(about = "Simulates all services in one seeded, single-threaded world")]
struct Arguments {
    #[command(subcommand)]
    what: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Run many seeds; print the results, and every seed with a violation.
    Seeds {
        /// Number of seeds.
        #[arg(long, default_value_t = 1000)]
        count: u64,
        /// First seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Number of threads, each with its own worlds.
        #[arg(long, default_value_t = 2)]
        jobs: u64,
    },
    /// Kill a process at every point of a run without faults.
    Crashes {
        /// Also run all pairs of crashes.
        #[arg(long)]
        pairs: bool,
        /// Number of threads.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Run many runs concurrently: events per second, CPU per run, memory.
    Throughput {
        /// Numbers of concurrent runs; each number is measured separately.
        #[arg(default_values_t = [10, 100, 1000, 10_000])]
        runs: Vec<usize>,
    },
    /// Search for every planted bug; each must be caught.
    #[cfg(debug_assertions)]
    Planted {
        /// Maximum seeds per bug.
        #[arg(long, default_value_t = 8000)]
        seeds: u64,
        /// Run this bug only.
        #[arg(long)]
        only: Option<String>,
        /// Number of threads, each with its own bug.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Print the events of one seed.
    Replay {
        seed: u64,
        /// Wait for Enter after every line.
        #[arg(long)]
        step: bool,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().what {
        SimCommand::Seeds { count, from, jobs } => sim::seeds::report(&sim::seeds::many(from, count, jobs)),
        SimCommand::Crashes { pairs, jobs } => sim::crashes::report(pairs, jobs),
        SimCommand::Throughput { runs } => {
            let heap = || ALLOCATOR.allocated();
            let measured = runs.iter().try_for_each(|runs| sim::throughput::measure_memory(*runs, &heap));
            match measured
                .and_then(|()| runs.iter().try_for_each(|runs| sim::throughput::report(*runs, &heap)))
            {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("cannot create the bucket's file: {error}; free space in the temporary folder");
                    ExitCode::FAILURE
                }
            }
        }
        #[cfg(debug_assertions)]
        SimCommand::Planted { seeds, only, jobs } => run_failpoints(seeds, only.as_deref(), jobs),
        SimCommand::Replay { seed, step } => replay(seed, step),
    }
}

fn replay(seed: u64, step: bool) -> ExitCode {
    let outcome = sim::run(Scenario::of(seed).traced());
    for line in &outcome.trace {
        println!("{line}");
        if step {
            drop(stdin().lock().read_line(&mut String::new()));
        }
    }
    let mut ends = BTreeMap::new();
    for ending in &outcome.endings {
        ends.insert(ending.run.to_string(), format!("{} {:?}", ending.conclusion, ending.verdict));
    }
    println!("seed {seed}: {ends:?}, digest {:016x}", outcome.digest);
    for violation in &outcome.violations {
        println!("VIOLATION {violation}");
    }
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(debug_assertions)]
fn run_failpoints(seeds: u64, only: Option<&str>, jobs: usize) -> ExitCode {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };
    std::panic::set_hook(Box::new(|_| {})); // a panic counts as a violation and is not printed
    let bugs: Vec<_> =
        sim::failpoint::ALL.iter().filter(|bug| only.is_none_or(|only| only == bug.name)).collect();
    let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let search = || {
        while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match sim::failpoint::search(bug, seeds) {
                Some((seed, invariant)) => println!("{:<28} seed {seed:>5}  {invariant}", bug.name),
                None => {
                    missed.fetch_add(1, Ordering::Relaxed);
                    println!("{:<28} NOT CAUGHT in {seeds} seeds: {}", bug.name, bug.what);
                }
            }
        }
    };
    thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(search))));
    let missed = missed.into_inner();
    println!("{} planted bugs, {missed} not caught", bugs.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
