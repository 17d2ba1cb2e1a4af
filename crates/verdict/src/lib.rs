//! What measurements say of a cluster: [`judge()`], a pure function of evidence and criteria.
//!
//! Sanity comes first: is everything there that was asked for, and is it what it claims to be? Then performance. What is
//! missing makes a verdict inconclusive, never a pass; what is measured and wrong makes it a failure. What is healthy is
//! learned in [`baseline`]; who is to blame is named in [`locate`].

pub mod baseline;
mod judge;
pub mod locate;
mod performance;
mod sanity;

pub use baseline::Baseline;
pub use judge::{Evidence, Judgement, judge};
