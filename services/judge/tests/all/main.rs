//! Integration tests of the crate, as one program: each program links all dependencies.

mod contract;
mod node_logs;
mod pins;
mod pods;
mod stated_gpus;
mod support;
