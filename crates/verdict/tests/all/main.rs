//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod baseline;
mod diagnose;
mod history;
mod judge;
mod locate_pairs;
mod locate_plan;
mod locate_processes;
mod locate_sweep;
mod metric_coverage;
mod metric_fleets;
mod metric_history;
mod metric_pairs;
mod metrics;
mod minimums;
mod references;
mod support;
