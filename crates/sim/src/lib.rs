//! The whole chain in one seeded, single-threaded world.
//!
//! One seed decides what runs are asked for, what goes wrong, how long everything takes and who goes first. The handlers
//! are the real ones, and so are `machine`, the ledger and the artefacts; only clock, bus, bucket, build service,
//! clusters, scheduler and warehouse are of paper. What happens to the paper is written into a history, and the
//! [`checks`] hold that history and the bucket against the invariants; they never ask a handler.
//!
//! The same seed gives the same trace, byte for byte. `cargo run -p sim -- replay SEED` tells it.

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
