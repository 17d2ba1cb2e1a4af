//! Runs many seeds and summarizes the results.

use std::{collections::BTreeMap, process::ExitCode, thread, time::Instant};

use crate::{Fault, Scenario, SimOutcome, run};

#[derive(Default)]
pub struct SeedSummary {
    pub seeds: u64,
    /// Seeds with violations.
    pub failed: BTreeMap<u64, Vec<String>>,
    /// Number of runs by conclusion and verdict.
    pub endings: BTreeMap<String, u64>,
    /// Occurrences of each fault, and number of seeds with it.
    pub occurrences: BTreeMap<Fault, (u64, u64)>,
    /// Simulated time, milliseconds.
    pub lasted: i64,
    pub calls: u64,
    pub events: u64,
    pub records: u64,
    /// Wall time, seconds.
    pub took: f64,
}

impl SeedSummary {
    fn add(&mut self, seed: u64, outcome: &SimOutcome) {
        self.seeds += 1;
        if !outcome.violations.is_empty() {
            let violations = outcome.violations.iter().map(ToString::to_string).collect();
            self.failed.insert(seed, violations);
        }
        for ending in &outcome.endings {
            let verdict = ending.verdict.as_deref().unwrap_or("-");
            *self.endings.entry(format!("{:<10} {verdict}", ending.conclusion)).or_default() += 1;
            self.records += ending.records as u64;
        }
        for (fault, times) in &outcome.occurrences {
            let (all, seeds) = self.occurrences.entry(*fault).or_default();
            *all += times;
            *seeds += u64::from(*times > 0);
        }
        self.lasted += outcome.lasted;
        self.calls += outcome.calls;
        self.events += outcome.events as u64;
    }

    fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.failed.extend(other.failed);
        for (ending, times) in other.endings {
            *self.endings.entry(ending).or_default() += times;
        }
        for (fault, (all, seeds)) in other.occurrences {
            let known = self.occurrences.entry(fault).or_default();
            *known = (known.0 + all, known.1 + seeds);
        }
        self.lasted += other.lasted;
        self.calls += other.calls;
        self.events += other.events;
        self.records += other.records;
    }

    /// Number of runs with a verdict.
    pub fn judged(&self) -> u64 {
        self.endings.iter().filter(|(ending, _)| !ending.ends_with('-')).map(|(_, times)| times).sum()
    }

    pub fn runs(&self) -> u64 {
        self.endings.values().sum()
    }
}

/// Runs seeds on this number of threads. Each seed has its own world and thread.
pub fn many(from: u64, count: u64, jobs: u64) -> SeedSummary {
    let started = Instant::now();
    let jobs = jobs.max(1);
    let share = |job: u64| {
        let mut summary = SeedSummary::default();
        for seed in (from..from + count).filter(|seed| seed % jobs == job) {
            summary.add(seed, &run(Scenario::of(seed)));
        }
        summary
    };
    let mut whole = SeedSummary::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || share(job))).collect();
        for thread in threads {
            match thread.join() {
                Ok(summary) => whole.join(summary),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    whole.took = started.elapsed().as_secs_f64();
    whole
}

/// Prints a summary. Fails if a seed has violations, or if fewer than 25 % of the runs reached a verdict.
pub fn report(summary: &SeedSummary) -> ExitCode {
    let runs = summary.runs();
    println!("{} seeds, {runs} runs in {:.1} s", summary.seeds, summary.took);
    println!(
        "{} events, {} records, {} calls; {:.0} hours simulated, {:.0} times real time",
        summary.events,
        summary.records,
        summary.calls,
        summary.lasted as f64 / 3.6e6,
        summary.lasted as f64 / 1e3 / summary.took.max(1e-3)
    );
    println!("\nconclusion verdict            runs");
    for (ending, times) in &summary.endings {
        println!("{ending:<24} {times:>8}  {:5.1} %", *times as f64 * 100.0 / runs.max(1) as f64);
    }
    println!("\nfault                                    times    seeds");
    for (fault, (times, seeds)) in &summary.occurrences {
        println!("{:<36} {times:>9} {seeds:>8}", fault.as_str());
    }
    for (seed, violations) in summary.failed.iter().take(20) {
        println!("\nseed {seed}: cargo run -p sim -- replay {seed}");
        for violation in violations.iter().take(4) {
            println!("  {violation}");
        }
    }
    println!("\n{} of {} seeds have violations", summary.failed.len(), summary.seeds);
    // A working simulator exceeds 25 %; a broken simulator does not.
    let too_little = summary.judged() * 4 < runs;
    if too_little {
        println!("{} of {runs} runs reached a verdict, expected at least 25 %", summary.judged());
    }
    if summary.failed.is_empty() && !too_little { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
