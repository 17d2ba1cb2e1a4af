//! Integration tests of the crate, as one program: each program links all dependencies.

mod requests;
mod runs;
mod storms;
mod support;
