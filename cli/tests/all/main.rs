//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod audit;
mod bundles;
mod busy_gpu;
mod checks;
mod conventions;
mod cost;
mod errors;
mod evidence;
mod init;
mod judge;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod locate;
mod node_counts;
mod nodes;
mod notify;
mod outages;
mod output;
mod parse;
#[cfg(feature = "kubernetes")]
mod real_kubernetes;
mod report;
mod resume;
mod run;
mod server;
mod support;
mod sweep;
mod terminal;
mod up;
mod upgrade;
