//! Integration tests of the crate, as one program: each program links all dependencies.

mod checks;
mod cost;
mod golden;
mod properties;
mod soak;
mod stories;
mod support;
