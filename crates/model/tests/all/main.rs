//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod measurement;
mod metric;
mod money;
mod program;
mod split_mix;
mod system;
