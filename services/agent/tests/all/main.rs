//! Integration tests of the crate, as one program: each program links all dependencies.

mod collect;
mod contract;
mod locate;
mod memory;
mod public_reports;
