//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod conformance;
#[cfg(feature = "gcp")]
mod engine;
mod location;
