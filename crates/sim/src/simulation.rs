//! One simulation, from its first event until it is idle, and its results.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use events::Message;
use ledger::{MemoryStore, Store};
use model::{Attempt, CancelRequested, Fact, Record};
use service::Bus;

use crate::{
    ExternalEvent, Fault, RequestedRun, Scenario, SeededRandom,
    bus::{SimBus, deliver_later},
    checks::{self, RunFiles, SimEnd, Violation},
    cloud::SimCluster,
    effect::Effects,
    executor::Executor,
    fleet::Fleet,
    incidents::fail_process,
    process::SimService,
    roster::Group,
    store::at_once,
    workload,
    world::{START, SimWorld},
};

/// Maximum number of calls per run.
const MOST_CALLS: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub struct SimOutcome {
    pub endings: Vec<SimEnd>,
    pub violations: Vec<Violation>,
    /// Digest of all events and decisions.
    pub digest: u64,
    /// Empty unless the scenario is traced.
    pub trace: Vec<String>,
    pub occurrences: Vec<(Fault, u64)>,
    pub calls: u64,
    /// Numbers of the calls with effects, in simulations without random faults.
    pub effects: Vec<u64>,
    /// Number of events accepted by the bus.
    pub events: usize,
    /// Simulated time, milliseconds.
    pub lasted: i64,
}

/// A world with its processes.
pub struct Simulation {
    scenario: Scenario,
    /// World that all processes share.
    pub world: Arc<SimWorld>,
    /// Bucket that the clients of all processes use.
    pub bucket: Arc<dyn Store>,
    fleet: Arc<Fleet>,
    executor: Executor,
}

/// Runs a scenario to its end and checks it. A panic counts as a violation.
pub fn run(scenario: Scenario) -> SimOutcome {
    let mut simulation = Simulation::new(scenario);
    let ended = catch_unwind(AssertUnwindSafe(|| simulation.finish()));
    let panicked = ended.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Violation::new("no panic", text.unwrap_or_default())
    });
    simulation.outcome(panicked)
}

impl Simulation {
    /// A new simulation with a bucket in memory.
    pub fn new(scenario: Scenario) -> Self {
        Self::with(scenario, Arc::new(MemoryStore::default()))
    }

    /// A new simulation with this bucket, which must respond immediately.
    pub fn with(scenario: Scenario, bucket: Arc<dyn Store>) -> Self {
        let random = SeededRandom::new(!scenario.seed);
        let heals_at = START + scenario.heals_after;
        let world = SimWorld::new(random, scenario.faults.clone(), heals_at, scenario.traced);
        let fleet = Fleet::new(Arc::clone(&world), Arc::clone(&bucket));
        {
            let inner = &mut *world.inner();
            inner.crash_at.clone_from(&scenario.crash_at);
            let slow = (scenario.faults.rate(Fault::SlowNode) > 0).then_some(1);
            inner.clouds.clusters.insert(workload::EXISTING.to_owned(), SimCluster::existing(slow));
            for (service, skew) in &scenario.skews {
                inner.conditions.entry(*service).or_default().skew = *skew;
                inner.faults.occurs(Fault::Skew, &mut inner.random);
            }
        }
        for service in SimService::ALL {
            // Omit the sweeper if every call is a crash point: most crash points would otherwise be calls of the
            // sweeper, which these runs do not need.
            if service != SimService::Sweeper || scenario.heals_after > 0 {
                fleet.start(service, scenario.resend);
            }
        }
        let executor = Executor::new(Arc::clone(&world));
        let simulation = Self { scenario, world, bucket, fleet, executor };
        simulation.scenario.requested_runs.iter().for_each(|requested| simulation.request(requested));
        for (after, service, process_fault) in simulation.scenario.process_faults.clone() {
            let (fleet, resend) = (Arc::clone(&simulation.fleet), simulation.scenario.resend);
            simulation
                .world
                .spawn(SimService::Outside, fail_process(fleet, resend, after, service, process_fault));
        }
        simulation
    }

    /// Requests a run, and possibly its cancellation. Retries until the bus accepts both.
    pub fn request(&self, requested: &RequestedRun) {
        let publish = |after: i64, fact: Fact| {
            let effects = Effects { world: Arc::clone(&self.world), service: SimService::Outside };
            let bus = SimBus::new(effects, self.fleet.roster());
            let message = Message::fact("cli", requested.run.clone(), Attempt::FIRST, fact);
            let world = Arc::clone(&self.world);
            self.world.inner().in_flight += 1;
            self.world.spawn(SimService::Outside, async move {
                world.sleep(after).await;
                while bus.publish(message.to_event()).await.is_err() {
                    world.sleep(1_000).await;
                }
                world.inner().in_flight -= 1;
            });
        };
        publish(requested.after, workload::requested(requested.workflow.clone()));
        if let Some(after) = requested.cancelled_after {
            let by = "alice".to_owned();
            let cancel = CancelRequested { by, reason: "no longer needed".to_owned() };
            publish(requested.after + after, Fact::CancelRequested(cancel));
            let inner = &mut *self.world.inner();
            inner.faults.occurs(Fault::Cancel, &mut inner.random);
        }
    }

    /// Performs one step. Returns `false` if no event remains.
    pub fn step(&mut self) -> bool {
        let limit = self.scenario.horizon();
        let stepped = self.executor.step(limit);
        let died = self.world.inner().take_died();
        for service in died {
            // A process that has already ended restarts only once.
            if !self.fleet.roster().end_process(service) {
                continue;
            }
            let (world, fleet) = (Arc::clone(&self.world), Arc::clone(&self.fleet));
            let down = world.inner().random.between(0, 30_000);
            let resend = self.scenario.resend;
            self.world.spawn(SimService::Outside, async move {
                world.sleep(down).await;
                fleet.start(service, resend);
            });
        }
        stepped
    }

    /// Runs until no work is pending or in progress, and no resource costs money.
    pub fn run_until_idle(&mut self) -> bool {
        loop {
            for _ in 0..64 {
                if !self.step() {
                    return self.quiet();
                }
            }
            if self.quiet() {
                return true;
            }
            // A healthy simulation needs fewer calls; a bug may loop forever.
            if self.world.inner().calls > MOST_CALLS * self.scenario.requested_runs.len() as u64 {
                return false;
            }
        }
    }

    /// Runs for this number of steps, or until idle; returns whether it is idle.
    pub fn run_steps(&mut self, steps: usize) -> bool {
        (0..steps).any(|_| !self.step()) || self.quiet()
    }

    /// Number of events that the bus has accepted.
    pub fn published(&self) -> usize {
        self.world.inner().published
    }

    /// Records of the only run, after the simulation has become idle.
    pub fn records(mut self) -> Vec<Record> {
        self.run_until_idle();
        let name = |seq: u64| format!("ledger/sim-0/{seq:010}.json");
        let body = |seq| at_once(self.bucket.read(&name(seq))).ok().flatten();
        (1..).map_while(|seq| serde_json::from_slice(&body(seq)?).ok()).collect()
    }

    fn quiet(&self) -> bool {
        let busy = {
            let inner = self.world.inner();
            inner.in_flight > 0 || inner.clouds.busy()
        };
        !busy && at_once(self.bucket.list("open/")).is_ok_and(|hints| hints.is_empty())
    }

    fn finish(&mut self) {
        let mut replays = self.scenario.faults.rate(Fault::Replay) > 0;
        while self.run_until_idle() && replays {
            replays = false;
            self.replay();
        }
    }

    /// Redelivers every acknowledged event, in random order.
    fn replay(&self) {
        let inner = &mut *self.world.inner();
        inner.faults.occurs(Fault::Replay, &mut inner.random);
        inner.note(SimService::Outside, ExternalEvent::Replayed);
        let acked = inner.history.iter().filter_map(|(_, event)| match event {
            ExternalEvent::Acked { event, .. } => Some(Arc::clone(event)),
            _ => None,
        });
        for event in acked.collect::<Vec<_>>() {
            for group in Group::handling(cloudevents::AttributesReader::ty(&*event)) {
                let delay = inner.random.between(0, 60_000);
                inner.in_flight += 1;
                let delivery = deliver_later(self.fleet.roster(), Arc::clone(&event), group, delay);
                inner.spawn(SimService::Outside, delivery);
            }
        }
    }

    fn outcome(mut self, panicked: Option<Violation>) -> SimOutcome {
        let quiet = panicked.is_none() && self.quiet();
        self.executor.clear();
        let inner = &mut *self.world.inner();
        let evidence = RunFiles::gather(&self.scenario, inner, &self.bucket);
        let mut violations: Vec<Violation> = panicked.into_iter().collect();
        if violations.is_empty() {
            violations.extend(checks::all(&evidence, quiet));
        }
        SimOutcome {
            endings: evidence.endings(),
            violations,
            digest: inner.digest(),
            trace: inner.take_trace(),
            occurrences: inner.faults.occurrences().collect(),
            calls: inner.calls,
            effects: std::mem::take(&mut inner.effects),
            events: inner.published,
            lasted: inner.now - START,
        }
    }
}

/// Processes and fleet refer to each other: break the cycle.
impl Drop for Simulation {
    fn drop(&mut self) {
        self.executor.clear();
        self.fleet.roster().clear();
    }
}
