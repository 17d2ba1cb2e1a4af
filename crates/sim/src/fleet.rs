//! The processes: liveness, wiring and restarts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use agent::Agent;
use builder::Builder;
use conductor::{Conductor, WakeSettings};
use judge::Judge;
use ledger::{Artefacts, Ledger, Store};
use loader::Loader;
use model::{Span, failpoint_is_active};
use provisioner::Provisioner;
use service::{Bus, Clock, Handler, Spawn, SystemClock, Worker, WorkerHandler};

use crate::{
    bus::SimBus,
    cloud::{SimBuilds, SimClusters, SimScheduler, SimWarehouse},
    effect::Effects,
    process::SimService,
    roster::RunningProcesses,
    world::SimWorld,
};

/// Poll interval of workers.
const POLL_INTERVAL: Span = Span::from_secs(5);
/// Interval of the independent sweeper, and its grace period after the end of a lease.
const SWEEP: Span = Span::from_secs(30);
const SWEEP_GRACE: Span = Span::from_secs(120);
/// Interval of a conductor's ticks, which wake every open run.
const TICK: Span = Span::from_secs(20);

pub struct Fleet {
    world: Arc<SimWorld>,
    roster: Arc<RunningProcesses>,
    lives: Mutex<BTreeMap<SimService, u32>>,
    settings: Mutex<BTreeMap<SimService, Span>>,
}

impl Fleet {
    /// Creates an empty fleet; processes are started by [`Self::start`].
    pub fn new(world: Arc<SimWorld>, bucket: Arc<dyn Store>) -> Arc<Self> {
        let roster = Arc::new(RunningProcesses::new(Arc::clone(&world), bucket));
        Arc::new(Self { world, roster, lives: Mutex::default(), settings: Mutex::default() })
    }

    pub fn world(&self) -> Arc<SimWorld> {
        Arc::clone(&self.world)
    }

    pub fn roster(&self) -> Arc<RunningProcesses> {
        Arc::clone(&self.roster)
    }

    /// Sets the resend interval that a conductor uses from its next start on.
    pub fn settings(&self, service: SimService, resend: Span) {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).insert(service, resend);
    }

    /// Starts a process without any earlier state.
    pub fn start(self: &Arc<Self>, service: SimService, resend: Span) {
        let life = {
            let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
            let life = lives.entry(service).or_default();
            *life += 1;
            *life
        };
        let resend = {
            let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
            settings.get(&service).copied().unwrap_or(resend)
        };
        self.world.inner().trace(service, || format!("starts, incarnation {life}"));
        let effects = self.roster.effects(service);
        let bus: Arc<dyn Bus> = Arc::new(SimBus::new(effects.clone(), self.roster()));
        let artefacts = || Artefacts::in_place(self.roster.store(service));
        let handler = match service {
            SimService::Outside => return,
            SimService::Conductor(number) => self.conductor(effects, number, life, bus, resend),
            SimService::Builder => {
                let builds = Arc::new(SimBuilds(effects.clone()));
                worker(Builder::new(builds, POLL_INTERVAL), bus, effects)
            }
            SimService::Provisioner => {
                let clusters = Arc::new(SimClusters(effects.clone()));
                worker(Provisioner::new(clusters, POLL_INTERVAL), bus, effects)
            }
            SimService::Agent => {
                let scheduler = Arc::new(SimScheduler(effects.clone()));
                worker(Agent::new(scheduler, artefacts(), POLL_INTERVAL), bus, effects)
            }
            SimService::Loader => {
                let warehouse = Arc::new(SimWarehouse(effects.clone()));
                worker(Loader::new(artefacts(), warehouse), bus, effects)
            }
            SimService::Sweeper => self.sweeper(effects),
            SimService::Judge => {
                let past = Arc::new(SimWarehouse(effects.clone()));
                worker(Judge::new(artefacts(), past), bus, effects)
            }
        };
        self.roster.add(service, handler);
    }

    /// The sweeper reads only the provider's state.
    fn sweeper(&self, effects: Effects) -> Arc<dyn Handler> {
        let world = Arc::clone(&self.world);
        self.world.spawn(effects.service, async move {
            let clusters = SimClusters(effects.clone());
            let grace =
                if failpoint_is_active("sweep_without_grace") { Span::from_secs(0) } else { SWEEP_GRACE };
            loop {
                effects.sleep(SWEEP).await;
                if failpoint_is_active("no_sweep") {
                    continue;
                }
                if let Err(error) = provisioner::sweep(&clusters, grace, true).await {
                    world.inner().trace(effects.service, || format!("the sweep failed: {error:?}"));
                }
            }
        });
        Arc::new(AcknowledgesAll)
    }

    fn conductor(
        self: &Arc<Self>,
        effects: Effects,
        number: u8,
        life: u32,
        bus: Arc<dyn Bus>,
        resend: Span,
    ) -> Arc<dyn Handler> {
        let written = Mutex::new(0_u64);
        let nonces = move || {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            *written += 1;
            if failpoint_is_active("forget_the_nonce") {
                "n".to_owned()
            } else {
                format!("{number}-{life}-{written}")
            }
        };
        let ledger = Ledger::new(self.roster.store(effects.service), Arc::new(nonces));
        let clock: Arc<dyn Clock> =
            if failpoint_is_active("real_clock") { Arc::new(SystemClock) } else { Arc::new(effects.clone()) };
        let resend = if failpoint_is_active("never_send_again") { Span::from_secs(1 << 40) } else { resend };
        let conductor = Arc::new(Conductor::new(
            ledger,
            bus,
            clock,
            WakeSettings { resend, refresh: Span::default() },
            None,
        ));
        if !failpoint_is_active("no_tick") {
            let (ticking, world) = (Arc::clone(&conductor), Arc::clone(&self.world));
            self.world.spawn(effects.service, async move {
                loop {
                    if let Err(error) = ticking.tick().await {
                        let why = service::worker::chain(&error);
                        world.inner().trace(effects.service, || format!("the tick failed: {why}"));
                    }
                    effects.sleep(TICK).await;
                }
            });
        }
        conductor
    }
}

fn worker(worker: impl Worker, bus: Arc<dyn Bus>, effects: Effects) -> Arc<dyn Handler> {
    let clock: Arc<dyn Clock> = Arc::new(effects.clone());
    let spawner: Arc<dyn Spawn> = Arc::new(effects);
    Arc::new(WorkerHandler::new(worker, bus, clock).with_spawner(spawner))
}

/// Acknowledges every event without an action.
struct AcknowledgesAll;

#[async_trait::async_trait]
impl Handler for AcknowledgesAll {
    async fn handle(&self, _: &service::Event) -> service::Disposition {
        service::Disposition::Done
    }
}
