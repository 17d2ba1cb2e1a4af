//! The rules of a run, as three pure functions.
//!
//! ```text
//! evolve(state, record)      -> state      total; replays the ledger
//! decide(state, input, now)  -> Decision   entries to append, or why the input changes nothing
//! owed(state, now)           -> commands   everything the world still owes this run
//! ```
//!
//! What is owed follows from the state alone, never from the last event, so recovery after a crash and normal work are
//! the same walk: load, [`decide()`], append, [`evolve()`], [`owed()`], send.
//!
//! A run owes its caller an *answer* (image, cluster, job, logs, verdict, results, in this order) and owes the cloud a
//! *lease* for every cluster it ever asked for. It closes when the answer is settled, every lease is returned and
//! nothing it began is still running. A cluster that appears after that reopens its lease, and nothing else.

mod cost;
mod decide;
mod evolve;
mod owed;
mod state;

pub use cost::{Usage, most};
pub use decide::{Decision, Ignored, Input, Occurrence, decide, decide_first};
pub use evolve::{Unreadable, evolve, fold};
pub use owed::{Obligation, checkup, owed, wake};
pub use state::{EarlierAttempt, End, Lease, LeaseState, RunState, StageState};
