//! What everything in a simulation shares: time, chance, faults, the outside worlds, and what happened.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use service::spawn::Work;

use crate::{Dice, Fault, Faults, Happening, cloud::Clouds};

/// When every simulation begins: milliseconds since 1970.
pub const START: i64 = 1_800_000_000_000;

/// A process of the simulated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// No process of ours: providers, people, the bus itself.
    Outside,
    /// One of two conductors.
    Conductor(u8),
    /// The builder.
    Builder,
    /// The provisioner.
    Provisioner,
    /// The agent.
    Agent,
    /// The loader.
    Loader,
    /// The judge.
    Judge,
    /// The second door: no ledger, no bus.
    Sweeper,
}

impl Service {
    /// Every process of ours.
    pub const ALL: [Self; 8] = [
        Self::Conductor(0),
        Self::Conductor(1),
        Self::Builder,
        Self::Provisioner,
        Self::Agent,
        Self::Loader,
        Self::Judge,
        Self::Sweeper,
    ];
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Outside => "world",
            Self::Conductor(0) => "conductor-0",
            Self::Conductor(_) => "conductor-1",
            Self::Builder => "builder",
            Self::Provisioner => "provisioner",
            Self::Agent => "agent",
            Self::Loader => "loader",
            Self::Judge => "judge",
            Self::Sweeper => "sweeper",
        })
    }
}

/// Where a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Before the call has its effect.
    Before,
    /// After it, before the caller hears of it.
    After,
}

/// How a process is, besides being alive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Condition {
    /// Until when its calls do not return.
    pub silent_until: i64,
    /// The same, and nothing heals it before.
    pub out_until: i64,
    /// How many times longer than usual its calls take.
    pub slowness: i64,
    /// How wrong its clock is, milliseconds.
    pub skew: i64,
}

/// What everything shares.
pub struct World {
    inner: Mutex<Inner>,
}

/// The inside of a [`World`].
pub struct Inner {
    /// Milliseconds since 1970, in truth.
    pub now: i64,
    /// All chance.
    pub dice: Dice,
    /// What goes wrong.
    pub faults: Faults,
    /// After this nothing goes wrong any more.
    pub heals_at: i64,
    /// Everything that happened outside of the services, in order, with its true time. Never changed afterwards.
    pub history: Vec<(i64, Happening)>,
    /// The outside worlds.
    pub clouds: Clouds,
    /// How each process is.
    pub conditions: BTreeMap<Service, Condition>,
    /// Calls so far by which a process touched its world.
    pub calls: u64,
    /// Those of them that had an effect: everything but reads.
    pub effects: Vec<u64>,
    /// Events the bus took.
    pub published: usize,
    /// How long each fact kept a conductor busy, until its commands were sent, nanoseconds. Where this is measured no
    /// history is kept: it would be most of the memory.
    pub busy: Option<Vec<u32>>,
    /// Calls at which a process dies, for enumerations.
    pub crash_at: Vec<(u64, Moment)>,
    /// Deliveries that are not acknowledged yet.
    pub in_flight: u64,
    trace: Option<Vec<String>>,
    digest: u64,
    timers: BTreeMap<(i64, u64), Waker>,
    spawned: Vec<(Service, Work)>,
    killed: Vec<Service>,
    died: Vec<Service>,
}

impl World {
    /// A world before anything happened. `traced` keeps what happens as text.
    pub fn new(dice: Dice, faults: Faults, heals_at: i64, traced: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                now: START,
                dice,
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

    /// The inside. Never held across an await.
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins work that ends with a process.
    pub fn spawn(&self, service: Service, work: impl Future<Output = ()> + Send + 'static) {
        self.inner().spawn(service, work);
    }

    /// Returns after this many milliseconds.
    pub fn sleep(self: &Arc<Self>, millis: i64) -> Sleep {
        let until = self.inner().now.saturating_add(millis.max(0));
        Sleep { world: Arc::clone(self), until, ticket: None }
    }
}

impl Inner {
    /// Begins work that ends with a process.
    pub fn spawn(&mut self, service: Service, work: impl Future<Output = ()> + Send + 'static) {
        self.spawned.push((service, Box::pin(work)));
    }

    /// Ends a process where it stands.
    pub fn kill(&mut self, service: Service) {
        self.say(service, || "dies".to_owned());
        self.killed.push(service);
    }

    /// Whether a fault strikes now.
    pub fn strikes(&mut self, fault: Fault) -> bool {
        self.now < self.heals_at && self.faults.strike(fault, &mut self.dice)
    }

    /// Notes that something happened.
    pub fn note(&mut self, service: Service, happening: Happening) {
        self.say(service, || happening.to_string());
        self.published += usize::from(matches!(happening, Happening::Published { .. }));
        if self.busy.is_none() {
            self.history.push((self.now, happening));
        }
    }

    /// Adds a line to the trace, or only to its digest.
    pub fn say(&mut self, service: Service, what: impl FnOnce() -> String) {
        self.mix(self.now.unsigned_abs());
        if let Some(trace) = &mut self.trace {
            let mut line = String::new();
            let at = self.now - START;
            _ = write!(line, "{:6}.{:03} {service:<12} {}", at / 1000, at % 1000, what());
            trace.push(line);
        }
    }

    /// Makes the digest of the trace depend on a number.
    pub const fn mix(&mut self, number: u64) {
        self.digest = (self.digest ^ number).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    /// A digest of everything that was said and decided.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Takes the lines said since the last call.
    pub fn take_trace(&mut self) -> Vec<String> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn take_spawned(&mut self) -> Vec<(Service, Work)> {
        std::mem::take(&mut self.spawned)
    }

    pub(crate) fn take_killed(&mut self) -> Vec<Service> {
        self.died.extend(&self.killed);
        std::mem::take(&mut self.killed)
    }

    pub(crate) fn take_died(&mut self) -> Vec<Service> {
        std::mem::take(&mut self.died)
    }

    /// Moves time to the next timer that is due by `limit`, and wakes it.
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

/// Waits for a moment of the true time.
pub struct Sleep {
    world: Arc<World>,
    until: i64,
    /// Of its timer, once there is one.
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
            // Whoever wakes at the same moment does so in any order.
            let ticket = inner.dice.number();
            self.ticket = Some(ticket);
            inner.timers.insert((self.until, ticket), context.waker().clone());
        }
        Poll::Pending
    }
}

/// Who no longer waits is not woken: most deadlines are never met.
impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.world.inner().timers.remove(&(self.until, ticket));
        }
    }
}
