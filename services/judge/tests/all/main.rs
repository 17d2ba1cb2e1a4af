//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod contract;
mod node_logs;
mod pins;
mod pods;
mod stated_gpus;
mod support;
