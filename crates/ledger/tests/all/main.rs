//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod artefacts;
mod conformance;
mod record_cache;
