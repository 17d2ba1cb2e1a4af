//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod provider;
mod scheduler;
mod support;
