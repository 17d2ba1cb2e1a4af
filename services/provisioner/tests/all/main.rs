//! Integration tests of the crate, as one program: each program links all dependencies.

mod contract;
#[cfg(feature = "gcp")]
mod notifications;
#[cfg(feature = "gcp")]
mod program;
mod support;
mod sweep;
