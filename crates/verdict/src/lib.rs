//! Verdicts on a cluster from its measurements: [`judge()`], a pure function of evidence and a standard.
//!
//! Sanity comes first: completeness and consistency of the measurements. Then performance. Missing data makes
//! a verdict inconclusive, never a pass; a bad measurement makes it a failure. Then the cause, in
//! [`diagnose`], and the location, in [`locate`]. [`baseline`] learns the healthy curve; [`history`] finds
//! changes over many runs, and [`compare`] between two.

pub mod baseline;
pub mod clues;
pub mod compare;
pub mod diagnose;
pub mod fingerprint;
pub mod history;
mod judge;
pub mod locate;
mod network;
mod one_rank;
mod performance;
pub mod pin;
pub mod reference;
pub mod repeat;
mod sanity;
mod start;
mod stored;

pub use baseline::Baseline;
pub use clues::{Clues, Listening};
pub use fingerprint::Fingerprint;
pub use judge::{Judgement, RunEvidence, Standard, judge};
pub use one_rank::one_rank;
pub use pin::Pin;
pub use stored::Stored;
