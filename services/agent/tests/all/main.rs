//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod collect;
mod contract;
mod locate;
mod memory;
mod public_reports;
