//! Integration tests of the crate, as one program: each program links all dependencies.

mod bus;
mod config;
mod meters;
mod parking;
mod push;
