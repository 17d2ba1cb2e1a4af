//! Integration tests of the crate, as one program: each program links all dependencies.

mod script;
mod states;
