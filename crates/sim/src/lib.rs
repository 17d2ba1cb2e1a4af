//! Simulates all services in one seeded, single-threaded world.
//!
//! One seed determines the requested runs, the faults, all durations and the order of tasks. The handlers are
//! the real ones, as are `lifecycle`, the ledger and the artefacts; only clock, bus, bucket, build service,
//! clusters, scheduler and warehouse are simulated. Their events are written to a history, and the [`checks`]
//! compare that history and the bucket with the invariants, without access to handlers.
//!
//! The same seed produces the same trace, byte for byte. `cargo run -p sim -- replay SEED` prints it.

pub mod bus;
pub mod checks;
pub mod cloud;
pub mod crashes;
mod disk_store;
pub mod effect;
pub mod executor;
pub mod failpoint;
mod faults;
pub mod fleet;
mod history;
mod incidents;
mod interference;
pub mod orders;
pub mod process;
pub mod requests;
mod rng;
pub mod roster;
mod scenario;
pub mod seeds;
mod simulation;
pub mod store;
pub mod throughput;
pub mod workload;
pub mod world;

pub use checks::SimEnd;
pub use disk_store::ObjectFile;
pub use faults::{Fault, Faults};
pub use history::{ExternalEvent, run_of};
pub use rng::SeededRandom;
pub use scenario::{ProcessFault, RequestedRun, Scenario};
pub use simulation::{SimOutcome, Simulation, run};
