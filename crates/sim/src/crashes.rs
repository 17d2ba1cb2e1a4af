//! Kills a process at every point of a run without faults.
//!
//! A point is a call to the world, before or after its effect. A crash at a read has the same result as a crash between the effects before
//! and after the read. Therefore pairs are enumerated over calls with effects, and single crashes over all calls.

use std::{collections::BTreeMap, process::ExitCode, thread, time::Instant};

use crate::{Scenario, SimOutcome, process::CrashPhase, run};

/// Number of a call, and whether the process is killed before or after its effect.
pub type CrashPoint = (u64, CrashPhase);

#[derive(Default)]
pub struct CrashSummary {
    pub runs: usize,
    /// Crashes that led to a violation, with its description.
    pub failed: BTreeMap<Vec<CrashPoint>, String>,
    /// Number of completed and passed runs.
    pub passed: usize,
}

fn points(calls: impl IntoIterator<Item = u64>) -> Vec<CrashPoint> {
    calls.into_iter().flat_map(|call| [(call, CrashPhase::Before), (call, CrashPhase::After)]).collect()
}

fn dying(at: &[CrashPoint]) -> SimOutcome {
    let mut scenario = Scenario::without_faults(0, 1);
    scenario.crash_at = at.to_vec();
    run(scenario)
}

impl CrashSummary {
    fn add(&mut self, at: &[CrashPoint], outcome: &SimOutcome) {
        self.runs += 1;
        let passed = outcome.endings.iter().all(|ending| ending.verdict.as_deref() == Some("pass"));
        self.passed += usize::from(passed);
        let violation = outcome.violations.first().map(ToString::to_string);
        if let Some(what) = violation.or_else(|| (!passed).then(|| format!("{:?}", outcome.endings))) {
            self.failed.insert(at.to_vec(), what);
        }
    }
}

/// Every single crash, at every call.
pub fn singles() -> CrashSummary {
    let mut summary = CrashSummary::default();
    for point in points(1..=dying(&[]).calls) {
        summary.add(&[point], &dying(&[point]));
    }
    summary
}

/// Every pair of crashes at calls with effects, on this number of threads. The second crash is at a call after the
/// first crash.
pub fn pairs(jobs: usize) -> CrashSummary {
    let firsts = points(dying(&[]).effects);
    let jobs = jobs.max(1);
    let share = |job: usize| {
        let mut summary = CrashSummary::default();
        for first in firsts.iter().skip(job).step_by(jobs) {
            let after = dying(&[*first]).effects;
            for second in points(after.into_iter().filter(|call| *call > first.0)) {
                let both = [*first, second];
                summary.add(&both, &dying(&both));
            }
        }
        summary
    };
    let mut whole = CrashSummary::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|job| scope.spawn(move || share(job))).collect();
        for thread in threads {
            match thread.join() {
                Ok(summary) => {
                    whole.runs += summary.runs;
                    whole.passed += summary.passed;
                    whole.failed.extend(summary.failed);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    whole
}

/// Prints the results. Returns a failure if a crash led to a violation: every run must complete and pass.
pub fn report(with_pairs: bool, jobs: usize) -> ExitCode {
    let started = Instant::now();
    let mut all = vec![("single crashes", singles())];
    if with_pairs {
        all.push(("pairs of crashes", pairs(jobs)));
    }
    let mut harm = 0;
    for (what, summary) in all {
        println!("{}: {} {what}, {} passed", started.elapsed().as_secs(), summary.runs, summary.passed);
        harm += summary.failed.len();
        for (at, why) in summary.failed.iter().take(10) {
            println!("  {at:?}: {why}");
        }
    }
    if harm == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
