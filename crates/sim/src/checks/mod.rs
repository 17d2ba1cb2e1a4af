//! Invariants, checked against the history and the bucket, never against a handler.

mod acknowledged;
mod commands;
mod evidence;
mod ledgers;
mod resources;
mod results;

use std::fmt;

pub use evidence::{CheckedRun, RunFiles, SimEnd};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the violated invariant, such as `I1 one cluster per run`.
    pub invariant: &'static str,
    pub what: String,
}

impl Violation {
    pub fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Checks all invariants. `quiet`: the world became idle before its deadline.
pub fn all(evidence: &RunFiles, quiet: bool) -> Vec<Violation> {
    let mut found = Vec::new();
    resources::check(evidence, quiet, &mut found);
    ledgers::check(evidence, quiet, &mut found);
    acknowledged::check(evidence, &mut found);
    commands::check(evidence, &mut found);
    results::check(evidence, &mut found);
    found
}
