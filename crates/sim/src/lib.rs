//! Simulates all services in one seeded, single-threaded world.
//!
//! One seed determines the requested runs, the faults, all durations and the order of tasks. The handlers are
//! the real ones, as are `lifecycle`, the ledger and the artefacts; only clock, bus, bucket, build service,
//! clusters, scheduler and warehouse are simulated. Their events are written to a history, and the [`checks`]
//! compare that history and the bucket with the invariants, without access to handlers.
//!
//! The same seed gives the same trace, byte for byte. `cargo run -p sim -- replay SEED` prints it.

mod blows;
pub mod bus;
pub mod checks;
pub mod cloud;
pub mod crashes;
mod dice;
pub mod door;
pub mod executor;
mod faults;
pub mod fleet;
mod history;
pub mod orders;
pub mod planted;
mod scenario;
pub mod seeds;
mod shelf;
mod simulation;
pub mod store;
pub mod throughput;
pub mod workload;
pub mod world;

pub use dice::Dice;
pub use faults::{Fault, Faults};
pub use history::{Happening, run_of};
pub use scenario::{Asked, Blow, Scenario};
pub use shelf::Shelf;
pub use simulation::{Ending, Outcome, Simulation, run};
