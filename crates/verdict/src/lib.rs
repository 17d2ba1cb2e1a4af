//! Verdicts on a cluster from its measurements: [`judge()`], a pure function of evidence and a standard.
//!
//! The judge checks sanity first (completeness and consistency of the measurements), then performance. Missing
//! data makes a verdict inconclusive, never a pass; a bad measurement makes it a failure. [`diagnose`] then
//! derives the cause, and [`locate`] the location. [`baseline`] learns the healthy curve; [`history`] finds
//! changes over many runs, and [`compare`] between two. [`audit`] compares the settings of nodes
//! with each other and with [`minimum`] versions.

#![deny(missing_docs)]

pub mod audit;
pub mod baseline;
pub mod bounds;
pub mod clues;
pub mod compare;
pub mod diagnose;
pub mod environment;
mod evidence;
pub mod fingerprint;
pub mod history;
mod judge;
mod judgement;
mod line_rate;
pub mod locate;
mod metrics;
pub mod minimum;
mod network;
mod one_rank;
mod performance;
pub mod pin;
pub mod reference;
pub mod repeat;
mod sanity;
mod scaled;
mod soak;
mod standard;
mod start;
mod stated_gpus;
mod statistics;
mod stored;
mod table;

pub use baseline::Baseline;
pub use clues::{ClueReader, Clues};
pub use evidence::RunEvidence;
pub use fingerprint::Fingerprint;
pub use judge::judge;
pub use judgement::Judgement;
pub use metrics::{
    DeviceReference, PAIR_FAILED, REFERENCES, directed, from_pair_metrics, pair_metrics, units_of_pairs,
};
pub use pin::Pin;
pub use soak::SoakSeries;
pub use standard::Standard;
pub use stated_gpus::StatedGpus;
pub use stored::Stored;
pub use table::one_rank;
