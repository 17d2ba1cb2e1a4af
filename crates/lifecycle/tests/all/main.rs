//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod checks;
mod cost;
mod golden;
mod properties;
mod soak;
mod stories;
mod support;
