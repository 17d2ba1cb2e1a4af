//! Shared state of a simulation: time, random numbers, faults, external systems, and history.

use std::{
    collections::BTreeMap,
    fmt::Write,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use service::spawn::Work;

use crate::{
    cloud::state::Clouds,
    faults::{Fault, Faults},
    history::ExternalEvent,
    process::{CrashPhase, ProcessState, SimService},
    rng::SeededRandom,
};

/// Start time of every simulation: milliseconds since 1970.
pub const START: i64 = 1_800_000_000_000;

pub struct SimWorld {
    inner: Mutex<WorldState>,
}

/// Content of a [`SimWorld`].
pub struct WorldState {
    /// True time, milliseconds since 1970.
    pub now: i64,
    /// Source of all random numbers.
    pub random: SeededRandom,
    pub faults: Faults,
    /// End of all faults.
    pub heals_at: i64,
    /// All events outside the services, in order, with their true time. Append-only.
    pub history: Vec<(i64, ExternalEvent)>,
    /// External systems.
    pub clouds: Clouds,
    pub conditions: BTreeMap<SimService, ProcessState>,
    /// Number of calls to the world.
    pub calls: u64,
    /// Numbers of the calls with effects: all except reads.
    pub effects: Vec<u64>,
    /// Number of events accepted by the bus.
    pub published: usize,
    /// Time that a conductor needed for each fact, until its commands were sent, nanoseconds. While it is
    /// measured, no history is kept, because it would use most of the memory.
    pub busy: Option<Vec<u32>>,
    /// Calls that kill their process, for enumerations of crashes.
    pub crash_at: Vec<(u64, CrashPhase)>,
    /// Number of unacknowledged deliveries.
    pub in_flight: u64,
    trace: Option<Vec<String>>,
    digest: u64,
    timers: BTreeMap<(i64, u64), Waker>,
    spawned: Vec<(SimService, Work)>,
    killed: Vec<SimService>,
    died: Vec<SimService>,
}

impl SimWorld {
    /// A world without events. `traced` keeps the trace as text.
    pub fn new(random: SeededRandom, faults: Faults, heals_at: i64, traced: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(WorldState {
                now: START,
                random,
                faults,
                heals_at,
                history: Vec::new(),
                clouds: Clouds::default(),
                conditions: BTreeMap::new(),
                calls: 0,
                effects: Vec::new(),
                published: 0,
                busy: None,
                crash_at: Vec::new(),
                in_flight: 0,
                trace: traced.then(Vec::new),
                digest: 0xcbf2_9ce4_8422_2325,
                timers: BTreeMap::new(),
                spawned: Vec::new(),
                killed: Vec::new(),
                died: Vec::new(),
            }),
        })
    }

    /// The shared content. The guard is never held across an await.
    pub fn inner(&self) -> MutexGuard<'_, WorldState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts work that ends with its process.
    pub fn spawn(&self, service: SimService, work: impl Future<Output = ()> + Send + 'static) {
        self.inner().spawn(service, work);
    }

    /// Waits for this number of milliseconds.
    pub fn sleep(self: &Arc<Self>, millis: i64) -> Sleep {
        let until = self.inner().now.saturating_add(millis.max(0));
        Sleep { world: Arc::clone(self), until, ticket: None }
    }
}

impl WorldState {
    /// Starts work that ends with its process.
    pub fn spawn(&mut self, service: SimService, work: impl Future<Output = ()> + Send + 'static) {
        self.spawned.push((service, Box::pin(work)));
    }

    /// Ends a process immediately.
    pub fn kill(&mut self, service: SimService) {
        self.trace(service, || "dies".to_owned());
        self.killed.push(service);
    }

    /// Whether a fault occurs now.
    pub fn occurs(&mut self, fault: Fault) -> bool {
        self.now < self.heals_at && self.faults.occurs(fault, &mut self.random)
    }

    /// Adds an event to the trace, and to the history unless a throughput is measured.
    pub fn note(&mut self, service: SimService, event: ExternalEvent) {
        self.trace(service, || event.to_string());
        self.published += usize::from(matches!(event, ExternalEvent::Published { .. }));
        if self.busy.is_none() {
            self.history.push((self.now, event));
        }
    }

    /// Adds a line to the trace, or only to its digest.
    pub fn trace(&mut self, service: SimService, what: impl FnOnce() -> String) {
        self.mix(self.now.unsigned_abs());
        if let Some(trace) = &mut self.trace {
            let mut line = String::new();
            let at = self.now - START;
            _ = write!(line, "{:6}.{:03} {service:<12} {}", at / 1000, at % 1000, what());
            trace.push(line);
        }
    }

    /// Adds a number to the digest of the trace.
    pub const fn mix(&mut self, number: u64) {
        self.digest = (self.digest ^ number).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    /// Digest of all trace lines and decisions.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Takes the trace lines since the last call.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn take_spawned(&mut self) -> Vec<(SimService, Work)> {
        std::mem::take(&mut self.spawned)
    }

    pub(crate) fn take_killed(&mut self) -> Vec<SimService> {
        self.died.extend(&self.killed);
        std::mem::take(&mut self.killed)
    }

    pub(crate) fn take_died(&mut self) -> Vec<SimService> {
        std::mem::take(&mut self.died)
    }

    /// Advances time to the next timer due by `limit`, and wakes it.
    pub(crate) fn advance(&mut self, limit: i64) -> bool {
        let Some(entry) = self.timers.first_entry() else { return false };
        let (at, _) = *entry.key();
        if at > limit {
            return false;
        }
        let waker = entry.remove();
        self.now = self.now.max(at);
        waker.wake();
        true
    }
}

/// Waits for a point of the true time.
pub struct Sleep {
    world: Arc<SimWorld>,
    until: i64,
    /// Id of the timer of this wait, once the timer exists.
    ticket: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let world = Arc::clone(&self.world);
        let mut inner = world.inner();
        if inner.now >= self.until && self.ticket.is_some() {
            return Poll::Ready(());
        }
        if self.ticket.is_none() {
            // Timers of the same time wake in random order.
            let ticket = inner.random.number();
            self.ticket = Some(ticket);
            inner.timers.insert((self.until, ticket), context.waker().clone());
        }
        Poll::Pending
    }
}

/// Removes the timer of a dropped wait: most deadlines are never reached.
impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.world.inner().timers.remove(&(self.until, ticket));
        }
    }
}
