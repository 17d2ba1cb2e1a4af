//! Integration tests of the crate, as one program: each program links all dependencies.

mod conformance;
#[cfg(feature = "gcp")]
mod engine;
