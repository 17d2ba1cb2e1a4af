//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod contract;
#[cfg(feature = "gcp")]
mod notifications;
#[cfg(feature = "gcp")]
mod program;
mod support;
mod sweep;
