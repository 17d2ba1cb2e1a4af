//! What a seed stands for: the runs asked for, and what befalls the world while they go on.

use model::{RunId, Span, Workflow};

use crate::{
    Dice, Fault, Faults, workload,
    world::{Moment, START, Service},
};

/// A run that somebody asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its name.
    pub run: RunId,
    /// What it runs.
    pub workflow: Workflow,
    /// When it is asked for, milliseconds after the start.
    pub after: i64,
    /// When somebody cancels it.
    pub cancelled_after: Option<i64>,
}

/// Something that befalls a process.
#[derive(Clone, Copy, Debug)]
pub enum Blow {
    /// Its calls do not return for so long.
    Silent(i64),
    /// Its calls take so many times longer.
    Slow(i64),
    /// Conductors and provisioner answer nothing for so long.
    Outage(i64),
    /// It dies, and another one starts.
    Restart,
    /// Its clock jumps by this much.
    Jump(i64),
    /// Another version takes over.
    Rollout,
    /// It is sent something that is not ours.
    Poison,
}

/// One simulation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed of everything that is decided on the way.
    pub seed: u64,
    /// Runs.
    pub asked: Vec<Asked>,
    /// Faults that strike by chance.
    pub faults: Faults,
    /// Blows at a time, milliseconds after the start.
    pub blows: Vec<(i64, Service, Blow)>,
    /// How wrong each clock is from the start.
    pub skews: Vec<(Service, i64)>,
    /// Until when things go wrong, milliseconds after the start.
    pub heals_after: i64,
    /// How long commands wait before they are sent again.
    pub resend: Span,
    /// Calls at which a process dies.
    pub crash_at: Vec<(u64, Moment)>,
    /// Keep the trace as text.
    pub traced: bool,
}

const HOUR: i64 = 3_600_000;
/// Runs of one workflow, where many are asked for at once.
const RUNS_OF_A_SYSTEM: usize = 20;

fn name(number: usize) -> RunId {
    format!("sim-{number}").parse().unwrap_or_else(|error| unreachable!("{error}"))
}

impl Asked {
    /// The run of this number, at once and to its end.
    pub fn plainly(number: usize) -> Self {
        // A system's own past is read for each of its verdicts, and no system has ten thousand runs at once.
        let workflow = Workflow { name: format!("sim-{}", number / RUNS_OF_A_SYSTEM), ..workload::whole() };
        Self { run: name(number), workflow, after: 0, cancelled_after: None }
    }
}

impl Scenario {
    /// Nothing goes wrong: so many runs, asked for at once.
    pub fn happy(seed: u64, runs: usize) -> Self {
        Self {
            seed,
            asked: (0..runs).map(Asked::plainly).collect(),
            faults: Faults::none(),
            blows: Vec::new(),
            skews: Vec::new(),
            heals_after: 0,
            resend: Span::from_secs(30),
            crash_at: Vec::new(),
            traced: false,
        }
    }

    /// Whatever the seed says.
    pub fn of(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let mut faults = Faults::choose(dice);
        if faults.rate(Fault::Outage) > 0 {
            // What piled up in hours, all of it delivered once more, takes a million calls and shows nothing new.
            faults.set(Fault::Replay, 0);
        }
        // It breaks nothing, and what follows from it has to go right beside everything else.
        if dice.once_in(2) {
            faults.set(Fault::SickNode, 800);
        }
        let heals_after = dice.between(600_000, HOUR);
        let runs = if dice.once_in(4) { 2 } else { 1 };
        let asked = |number, dice: &mut Dice| {
            let latest = [1_500, 20_000, 300_000, 1_200_000][dice.index(4)];
            let cancelled = dice.between(0, latest);
            Asked {
                run: name(number),
                workflow: workload::any(dice),
                after: dice.between(0, 60_000),
                cancelled_after: (faults.rate(Fault::Cancel) > 0).then_some(cancelled),
            }
        };
        let mut blows = Vec::new();
        for fault in [Fault::Silent, Fault::Slow, Fault::Restart, Fault::Jump, Fault::Rollout, Fault::Poison]
        {
            if faults.rate(fault) == 0 {
                continue;
            }
            for _ in 0..=dice.below(4) {
                let service = Service::ALL[dice.index(Service::ALL.len())];
                let blow = match fault {
                    Fault::Silent => Blow::Silent(dice.between(10_000, 900_000)),
                    Fault::Slow => Blow::Slow(dice.between(20, 400)),
                    Fault::Jump => Blow::Jump(dice.between(-HOUR, HOUR)),
                    Fault::Rollout => Blow::Rollout,
                    Fault::Poison => Blow::Poison,
                    _ => Blow::Restart,
                };
                blows.push((dice.between(0, 900_000), service, blow));
            }
        }
        if faults.rate(Fault::Outage) > 0 {
            let outage = Blow::Outage(dice.between(2 * HOUR, 4 * HOUR));
            blows.push((dice.between(0, 1_800_000), Service::Provisioner, outage));
        }
        let mut skews = Vec::new();
        if faults.rate(Fault::Skew) > 0 {
            for service in Service::ALL {
                if dice.once_in(2) {
                    skews.push((service, dice.between(-HOUR, HOUR)));
                }
            }
        }
        Self {
            seed,
            asked: (0..runs).map(|number| asked(number, dice)).collect(),
            faults,
            blows,
            skews,
            heals_after,
            resend: Span::from_secs([5, 30, 120][dice.index(3)]),
            crash_at: Vec::new(),
            traced: false,
        }
    }

    /// The same, keeping its trace as text.
    #[must_use]
    pub const fn traced(mut self) -> Self {
        self.traced = true;
        self
    }

    /// When it must have come to its end, milliseconds since 1970: whatever it waits for has a limit.
    pub fn horizon(&self) -> i64 {
        START + self.heals_after + 14 * HOUR
    }
}
