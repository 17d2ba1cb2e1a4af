//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod bus;
mod config;
mod meters;
mod parking;
mod push;
