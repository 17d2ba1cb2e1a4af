//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod decide;
mod flow;
mod http;
#[cfg(feature = "gcp")]
mod program;
mod support;
mod words;
