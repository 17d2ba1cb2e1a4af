//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod bus;
mod config;
mod dead_letters;
mod meters;
mod push;
