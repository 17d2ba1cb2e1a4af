//! The running processes, and the subscriptions they share.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use agent::Agent;
use builder::Builder;
use judge::Judge;
use ledger::Store;
use loader::Loader;
use model::failpoint_is_active;
use provisioner::Provisioner;
use service::{DeadLetters, Handler, StoredDeadLetters};

use crate::{effect::Effects, process::SimService, store::SimStore, world::SimWorld};

/// Processes that share a subscription: each event is delivered to one process of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Conductors,
    /// A single process per kind of worker.
    Worker(SimService),
}

impl Group {
    pub const ALL: [Self; 6] = [
        Self::Conductors,
        Self::Worker(SimService::Builder),
        Self::Worker(SimService::Provisioner),
        Self::Worker(SimService::Agent),
        Self::Worker(SimService::Loader),
        Self::Worker(SimService::Judge),
    ];

    fn handles(self, event_type: &str) -> bool {
        match self {
            Self::Conductors => conductor::handled_events().contains(&event_type),
            Self::Worker(SimService::Builder) => Builder::HANDLED_EVENTS.contains(&event_type),
            Self::Worker(SimService::Provisioner) => Provisioner::HANDLED_EVENTS.contains(&event_type),
            Self::Worker(SimService::Agent) => Agent::HANDLED_EVENTS.contains(&event_type),
            Self::Worker(SimService::Loader) => Loader::HANDLED_EVENTS.contains(&event_type),
            Self::Worker(SimService::Judge) => Judge::HANDLED_EVENTS.contains(&event_type),
            Self::Worker(_) => false,
        }
    }

    /// The groups that receive events of a type.
    pub fn handling(event_type: &str) -> impl Iterator<Item = Self> {
        let event_type = event_type.to_owned();
        Self::ALL.into_iter().filter(move |group| group.handles(&event_type))
    }
}

/// The running processes and their bucket.
pub struct RunningProcesses {
    world: Arc<SimWorld>,
    bucket: Arc<dyn Store>,
    alive: Mutex<BTreeMap<SimService, Arc<dyn Handler>>>,
}

impl RunningProcesses {
    pub fn new(world: Arc<SimWorld>, bucket: Arc<dyn Store>) -> Self {
        Self { world, bucket, alive: Mutex::default() }
    }

    pub fn world(&self) -> Arc<SimWorld> {
        Arc::clone(&self.world)
    }

    pub fn add(&self, service: SimService, handler: Arc<dyn Handler>) {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).insert(service, handler);
    }

    /// A running member of a group.
    pub fn pick(&self, group: Group) -> Option<(SimService, Arc<dyn Handler>)> {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |service: SimService| Some((service, Arc::clone(alive.get(&service)?)));
        match group {
            Group::Worker(service) => found(service),
            Group::Conductors => {
                let first = u8::from(self.world.inner().random.once_in(2));
                found(SimService::Conductor(first)).or_else(|| found(SimService::Conductor(1 - first)))
            }
        }
    }

    /// Dead letters of a process.
    pub fn dead_letters(&self, service: SimService) -> Arc<dyn DeadLetters> {
        if failpoint_is_active("park_without_keeping") {
            return Arc::new(DiscardedDeadLetters);
        }
        let effects = self.effects(service);
        Arc::new(StoredDeadLetters::new(self.store(service), Arc::new(effects)))
    }

    /// Ends a process. Returns `false` if it was not running.
    pub fn end_process(&self, service: SimService) -> bool {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).remove(&service).is_some()
    }

    pub fn clear(&self) {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The effect port of a process.
    pub fn effects(&self, service: SimService) -> Effects {
        Effects { world: Arc::clone(&self.world), service }
    }

    /// Client of the bucket in one process.
    pub fn store(&self, service: SimService) -> Arc<dyn Store> {
        Arc::new(SimStore::new(self.effects(service), Arc::clone(&self.bucket)))
    }
}

/// Dead letters while the failpoint `park_without_keeping` is active: every event is accepted and none is stored.
struct DiscardedDeadLetters;

#[async_trait::async_trait]
impl DeadLetters for DiscardedDeadLetters {
    async fn park(&self, _: &str, _: &str, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}
