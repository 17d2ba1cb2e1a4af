//! Integration tests of the crate, as one program: each program links all dependencies.

mod provider;
mod scheduler;
mod support;
