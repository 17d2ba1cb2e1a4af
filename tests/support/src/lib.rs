//! Shared by tests of several crates. All functions panic on failure.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::panic,
    reason = "only tests use it"
)]

mod answer;
#[cfg(feature = "cloud-build")]
pub mod cloud_build;
pub mod contract;
pub mod good_run;
pub mod processes;
pub mod program;

pub use answer::{answer, committed};
