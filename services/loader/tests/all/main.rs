//! Integration tests of the crate, as one program: each program links all dependencies.

mod contract;
mod measurements;
#[cfg(feature = "gcp")]
mod program;
