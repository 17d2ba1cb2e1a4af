//! The processes: liveness, wiring and restarts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use agent::Agent;
use builder::Builder;
use conductor::{Conductor, Settings};
use judge::Judge;
use ledger::{Artefacts, Ledger, Store};
use loader::Loader;
use model::{Span, planted};
use provisioner::Provisioner;
use service::{Bus, Clock, DeadLetters, Handler, Spawn, StoreParking, SystemClock, Worker, WorkerHandler};

use crate::{
    bus::SimBus,
    cloud::{SimBuilds, SimClusters, SimScheduler, SimWarehouse},
    effect::Effects,
    store::SimStore,
    world::{SimService, SimWorld},
};

/// Poll interval of workers.
const LOOK: Span = Span::from_secs(5);
/// Interval of the independent sweeper, and its grace period after the end of a lease.
const SWEEP: Span = Span::from_secs(30);
const SWEEP_GRACE: Span = Span::from_secs(120);
/// Interval at which a conductor wakes every open run.
const TICK: Span = Span::from_secs(20);

/// Processes that share a subscription: each event is delivered to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Both conductors.
    Conductors,
    /// One worker.
    Worker(SimService),
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 6] = [
        Self::Conductors,
        Self::Worker(SimService::Builder),
        Self::Worker(SimService::Provisioner),
        Self::Worker(SimService::Agent),
        Self::Worker(SimService::Loader),
        Self::Worker(SimService::Judge),
    ];

    fn takes(self, event_type: &str) -> bool {
        match self {
            Self::Conductors => conductor::takes().contains(&event_type),
            Self::Worker(SimService::Builder) => Builder::TAKES.contains(&event_type),
            Self::Worker(SimService::Provisioner) => Provisioner::TAKES.contains(&event_type),
            Self::Worker(SimService::Agent) => Agent::TAKES.contains(&event_type),
            Self::Worker(SimService::Loader) => Loader::TAKES.contains(&event_type),
            Self::Worker(SimService::Judge) => Judge::TAKES.contains(&event_type),
            Self::Worker(_) => false,
        }
    }

    /// The groups that receive events of a type.
    pub fn taking(event_type: &str) -> impl Iterator<Item = Self> {
        let event_type = event_type.to_owned();
        Self::ALL.into_iter().filter(move |group| group.takes(&event_type))
    }
}

/// All processes.
pub struct Fleet {
    world: Arc<SimWorld>,
    bucket: Arc<dyn Store>,
    alive: Mutex<BTreeMap<SimService, Arc<dyn Handler>>>,
    lives: Mutex<BTreeMap<SimService, u32>>,
    settings: Mutex<BTreeMap<SimService, Span>>,
}

impl Fleet {
    /// No processes yet, with a bucket.
    pub fn new(world: Arc<SimWorld>, bucket: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            world,
            bucket,
            alive: Mutex::default(),
            lives: Mutex::default(),
            settings: Mutex::default(),
        })
    }

    /// Its world.
    pub fn world(&self) -> Arc<SimWorld> {
        Arc::clone(&self.world)
    }

    /// A live member of a group.
    pub fn pick(&self, group: Group) -> Option<(SimService, Arc<dyn Handler>)> {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |service: SimService| Some((service, Arc::clone(alive.get(&service)?)));
        match group {
            Group::Worker(service) => found(service),
            Group::Conductors => {
                let first = u8::from(self.world.inner().dice.once_in(2));
                found(SimService::Conductor(first)).or_else(|| found(SimService::Conductor(1 - first)))
            }
        }
    }

    /// Where a process parks unreadable events.
    pub fn parking(&self, service: SimService) -> Arc<dyn DeadLetters> {
        if planted("park_without_keeping") {
            return Arc::new(Nowhere);
        }
        let door = self.door(service);
        Arc::new(StoreParking::new(self.store(service), Arc::new(door)))
    }

    fn door(&self, service: SimService) -> Effects {
        Effects { world: Arc::clone(&self.world), service }
    }

    fn store(&self, service: SimService) -> Arc<dyn Store> {
        Arc::new(SimStore::new(self.door(service), Arc::clone(&self.bucket)))
    }

    /// Ends a process. Returns `false` if it was not running.
    pub fn gone(&self, service: SimService) -> bool {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).remove(&service).is_some()
    }

    /// Ends all processes.
    pub fn clear(&self) {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Sets the resend interval of a conductor from its next start on.
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
        self.world.inner().say(service, || format!("starts, life {life}"));
        let door = self.door(service);
        let bus: Arc<dyn Bus> = Arc::new(SimBus::new(door.clone(), Arc::clone(self)));
        let artefacts = || Artefacts::in_place(self.store(service));
        let handler = match service {
            SimService::Outside => return,
            SimService::Conductor(number) => self.conductor(door, number, life, bus, resend),
            SimService::Builder => {
                let builds = Arc::new(SimBuilds(door.clone()));
                worker(Builder::new(builds, LOOK), bus, door)
            }
            SimService::Provisioner => {
                let clusters = Arc::new(SimClusters(door.clone()));
                worker(Provisioner::new(clusters, LOOK), bus, door)
            }
            SimService::Agent => {
                let scheduler = Arc::new(SimScheduler(door.clone()));
                worker(Agent::new(scheduler, artefacts(), LOOK), bus, door)
            }
            SimService::Loader => {
                let warehouse = Arc::new(SimWarehouse(door.clone()));
                worker(Loader::new(artefacts(), warehouse), bus, door)
            }
            SimService::Sweeper => self.sweeper(door),
            SimService::Judge => {
                let past = Arc::new(SimWarehouse(door.clone()));
                worker(Judge::new(artefacts(), past), bus, door)
            }
        };
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).insert(service, handler);
    }

    /// The sweeper reads only the provider's state.
    fn sweeper(&self, door: Effects) -> Arc<dyn Handler> {
        let world = Arc::clone(&self.world);
        self.world.spawn(door.service, async move {
            let clusters = SimClusters(door.clone());
            let grace = if planted("sweep_without_grace") { Span::from_secs(0) } else { SWEEP_GRACE };
            loop {
                door.sleep(SWEEP).await;
                if planted("no_sweep") {
                    continue;
                }
                if let Err(error) = provisioner::sweep(&clusters, grace, true).await {
                    world.inner().say(door.service, || format!("the sweep did not get through: {error:?}"));
                }
            }
        });
        Arc::new(Deaf)
    }

    fn conductor(
        self: &Arc<Self>,
        door: Effects,
        number: u8,
        life: u32,
        bus: Arc<dyn Bus>,
        resend: Span,
    ) -> Arc<dyn Handler> {
        let written = Mutex::new(0_u64);
        let nonces = move || {
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            *written += 1;
            if planted("forget_the_nonce") { "n".to_owned() } else { format!("{number}-{life}-{written}") }
        };
        let ledger = Ledger::new(self.store(door.service), Arc::new(nonces));
        let clock: Arc<dyn Clock> =
            if planted("real_clock") { Arc::new(SystemClock) } else { Arc::new(door.clone()) };
        let resend = if planted("never_send_again") { Span::from_secs(1 << 40) } else { resend };
        let conductor =
            Arc::new(Conductor::new(ledger, bus, clock, Settings { resend, refresh: Span::default() }, None));
        if !planted("no_tick") {
            let (ticking, world) = (Arc::clone(&conductor), Arc::clone(&self.world));
            self.world.spawn(door.service, async move {
                loop {
                    if let Err(error) = ticking.tick().await {
                        let why = service::worker::chain(&error);
                        world.inner().say(door.service, || format!("the tick did not get through: {why}"));
                    }
                    door.sleep(TICK).await;
                }
            });
        }
        conductor
    }
}

fn worker(worker: impl Worker, bus: Arc<dyn Bus>, door: Effects) -> Arc<dyn Handler> {
    let clock: Arc<dyn Clock> = Arc::new(door.clone());
    let spawner: Arc<dyn Spawn> = Arc::new(door);
    Arc::new(WorkerHandler::new(worker, bus, clock).with_spawner(spawner))
}

/// Handles no events.
struct Deaf;

#[async_trait::async_trait]
impl Handler for Deaf {
    async fn handle(&self, _: &service::Event) -> service::Disposition {
        service::Disposition::Done
    }
}

/// Stores nothing.
struct Nowhere;

#[async_trait::async_trait]
impl DeadLetters for Nowhere {
    async fn park(&self, _: &str, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}
