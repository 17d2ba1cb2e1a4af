//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod decide;
mod flow;
mod http;
mod notice_texts;
#[cfg(feature = "gcp")]
mod program;
mod support;
