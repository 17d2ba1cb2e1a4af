//! Integration tests of the crate, as one program: each program links all dependencies.

mod builds;
mod clusters;
mod support;
