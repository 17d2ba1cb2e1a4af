//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod contract;
mod measurements;
#[cfg(feature = "gcp")]
mod program;
