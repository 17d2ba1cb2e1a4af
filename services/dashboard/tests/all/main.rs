//! Integration tests of the crate, as one program: each program links all dependencies.

mod pages;
#[cfg(feature = "gcp")]
mod program;
mod support;
mod systems;
