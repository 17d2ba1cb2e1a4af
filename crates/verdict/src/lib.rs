//! What measurements say of a cluster: [`judge()`], a pure function of evidence and a standard.
//!
//! Sanity comes first: is everything there that was asked for, and is it what it claims to be? Then performance. What is
//! missing makes a verdict inconclusive, never a pass; what is measured and wrong makes it a failure. Then the cause, in
//! [`diagnose`], and the place, in [`locate`]. What is healthy is learned in [`baseline`]; what changed over many runs is
//! found in [`history`], and between two in [`compare`].

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
pub use judge::{Evidence, Judgement, Standard, judge};
pub use one_rank::one_rank;
pub use pin::Pin;
pub use stored::Stored;
