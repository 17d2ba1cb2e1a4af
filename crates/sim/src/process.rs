//! Simulated processes, and their state.

use std::fmt;

/// A process of the simulated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimService {
    /// An external sender: a provider, a user, the bus itself.
    Outside,
    /// One of two conductors.
    Conductor(u8),
    /// Handles commands about images.
    Builder,
    /// Handles commands about clusters.
    Provisioner,
    /// Handles commands about jobs, logs and bad nodes.
    Agent,
    /// Handles commands about rows of the warehouse.
    Loader,
    /// Handles commands about verdicts.
    Judge,
    /// The independent sweeper: without ledger and bus.
    Sweeper,
}

impl SimService {
    /// All simulated processes, with two conductors.
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

impl fmt::Display for SimService {
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

/// Time at which a process is killed, relative to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPhase {
    /// Before the effect of the call.
    Before,
    /// After the effect of the call, before the caller receives the result.
    After,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessState {
    /// Time until which its calls block.
    pub silent_until: i64,
    /// Like `silent_until`, but the end of all faults does not shorten it.
    pub out_until: i64,
    /// Multiplier of the duration of the process's calls; 0 means 1.
    pub slowness: i64,
    /// Offset of its clock, milliseconds.
    pub skew: i64,
}
