//! The state machine of a run, as three pure functions.
//!
//! ```text
//! evolve(state, record)      -> state      total; replays the ledger
//! decide(state, input, now)  -> Decision   entries to append, or the reason to ignore the input
//! owed(state, now)           -> commands   all commands still pending for this run
//! ```
//!
//! Pending commands depend only on the state, never on the last event, so recovery after a crash and normal operation are the same steps:
//! load, [`decide()`], append, [`evolve()`], [`owed()`], send.
//!
//! A run has an *answer* (image, cluster, job, logs, verdict, results, in this order) and a *lease* for every
//! cluster it requested. It closes when the answer is final, every lease is released and no started operation
//! is running. A cluster that appears later reopens its lease, and nothing else.

mod cost;
mod decide;
mod evolve;
mod owed;
mod rounds;
mod soak;
mod state;

pub use cost::{Usage, max_cost};
pub use decide::{Decision, Ignored, Input, ReceivedFact, decide, decide_first};
pub use evolve::{UnreadableLedger, evolve, fold};
pub use owed::{Obligation, current_poll, job_limit, last_loads, owed, wake};
pub use soak::{SoakEnd, SoakProgress};
pub use state::{AttemptEnd, EarlierAttempt, Lease, LeaseState, RunState, StageState};
