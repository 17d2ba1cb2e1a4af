//! Derives the requested runs and the process failures from a seed.

use model::{RunId, Span, Workflow};

use crate::{
    Fault, Faults, SeededRandom,
    process::{CrashPhase, SimService},
    workload,
    world::START,
};

/// A run of the simulation, with the times of its request and its cancellation.
#[derive(Clone, Debug)]
pub struct RequestedRun {
    pub run: RunId,
    pub workflow: Workflow,
    /// Time of the request, milliseconds after the start.
    pub after: i64,
    /// Time of its cancellation, milliseconds after the request, if any.
    pub cancelled_after: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
pub enum ProcessFault {
    /// The process's calls block for this time, milliseconds.
    Silent(i64),
    /// The process's calls are slower by this factor.
    Slow(i64),
    /// Conductors and provisioner do not respond for this time, milliseconds.
    Outage(i64),
    /// The process is killed and restarted.
    Restart,
    /// The process's clock jumps by this time, milliseconds.
    Jump(i64),
    /// Another version replaces the process.
    Rollout,
    /// The process receives an invalid event.
    Poison,
}

/// All input of a simulation, derived from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of all later decisions.
    pub seed: u64,
    /// Requested runs with their times.
    pub requested_runs: Vec<RequestedRun>,
    /// Rates of random faults.
    pub faults: Faults,
    /// Process failures with their time, milliseconds after the start.
    pub process_faults: Vec<(i64, SimService, ProcessFault)>,
    /// Initial offset of each clock.
    pub skews: Vec<(SimService, i64)>,
    /// End of all faults, milliseconds after the start.
    pub heals_after: i64,
    /// Resend interval of commands.
    pub resend: Span,
    /// Calls that kill their process.
    pub crash_at: Vec<(u64, CrashPhase)>,
    /// Whether the trace is kept as text.
    pub traced: bool,
}

const HOUR: i64 = 3_600_000;
/// Number of runs per workflow, if many are requested at the same time.
const RUNS_OF_A_SYSTEM: usize = 20;

fn name(number: usize) -> RunId {
    format!("sim-{number}").parse().unwrap_or_else(|error| unreachable!("{error}"))
}

impl RequestedRun {
    /// The run with this number, requested at the start and not cancelled.
    pub fn at_start(number: usize) -> Self {
        // Divide the runs among systems: every verdict reads the history of its system, and no system has ten thousand concurrent runs.
        let workflow =
            Workflow { name: format!("sim-{}", number / RUNS_OF_A_SYSTEM), ..workload::full_workflow() };
        Self { run: name(number), workflow, after: 0, cancelled_after: None }
    }
}

impl Scenario {
    /// No faults: this number of runs, requested at the same time.
    pub fn without_faults(seed: u64, runs: usize) -> Self {
        Self {
            seed,
            requested_runs: (0..runs).map(RequestedRun::at_start).collect(),
            faults: Faults::none(),
            process_faults: Vec::new(),
            skews: Vec::new(),
            heals_after: 0,
            resend: Span::from_secs(30),
            crash_at: Vec::new(),
            traced: false,
        }
    }

    pub fn of(seed: u64) -> Self {
        let random = &mut SeededRandom::new(seed);
        let mut faults = Faults::choose(random);
        if faults.rate(Fault::Outage) > 0 {
            // Redelivering all events of several hours takes a million calls and finds no other violations.
            faults.set(Fault::Replay, 0);
        }
        // This fault breaks no service, so it is combined with all others.
        if random.once_in(2) {
            faults.set(Fault::SlowNode, 800);
        }
        let heals_after = random.between(600_000, HOUR);
        let runs = if random.once_in(4) { 2 } else { 1 };
        let requested = |number, random: &mut SeededRandom| {
            let latest = [1_500, 20_000, 300_000, 1_200_000][random.index(4)];
            let cancelled = random.between(0, latest);
            RequestedRun {
                run: name(number),
                workflow: workload::any(random),
                after: random.between(0, 60_000),
                cancelled_after: (faults.rate(Fault::Cancel) > 0).then_some(cancelled),
            }
        };
        let mut process_faults = Vec::new();
        for fault in [Fault::Silent, Fault::Slow, Fault::Restart, Fault::Jump, Fault::Rollout, Fault::Poison]
        {
            if faults.rate(fault) == 0 {
                continue;
            }
            for _ in 0..=random.below(4) {
                let service = SimService::ALL[random.index(SimService::ALL.len())];
                let process_fault = match fault {
                    Fault::Silent => ProcessFault::Silent(random.between(10_000, 900_000)),
                    Fault::Slow => ProcessFault::Slow(random.between(20, 400)),
                    Fault::Jump => ProcessFault::Jump(random.between(-HOUR, HOUR)),
                    Fault::Rollout => ProcessFault::Rollout,
                    Fault::Poison => ProcessFault::Poison,
                    _ => ProcessFault::Restart,
                };
                process_faults.push((random.between(0, 900_000), service, process_fault));
            }
        }
        if faults.rate(Fault::Outage) > 0 {
            let outage = ProcessFault::Outage(random.between(2 * HOUR, 4 * HOUR));
            process_faults.push((random.between(0, 1_800_000), SimService::Provisioner, outage));
        }
        let mut skews = Vec::new();
        if faults.rate(Fault::Skew) > 0 {
            for service in SimService::ALL {
                if random.once_in(2) {
                    skews.push((service, random.between(-HOUR, HOUR)));
                }
            }
        }
        Self {
            seed,
            requested_runs: (0..runs).map(|number| requested(number, random)).collect(),
            faults,
            process_faults,
            skews,
            heals_after,
            resend: Span::from_secs([5, 30, 120][random.index(3)]),
            crash_at: Vec::new(),
            traced: false,
        }
    }

    /// Keeps the trace as text.
    #[must_use]
    pub const fn traced(mut self) -> Self {
        self.traced = true;
        self
    }

    /// Deadline for becoming idle, milliseconds since 1970: every wait has a limit.
    pub fn horizon(&self) -> i64 {
        START + self.heals_after + 14 * HOUR
    }
}
