//! Integration tests of the crate, as one program: each program links all dependencies.

mod decide;
mod flow;
mod http;
#[cfg(feature = "gcp")]
mod program;
mod support;
mod words;
