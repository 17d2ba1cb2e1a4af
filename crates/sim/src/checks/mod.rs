//! What must hold, whatever happens. Read from the world's history and from the bucket, never from a handler.

mod acknowledged;
mod commands;
mod evidence;
mod ledgers;
mod resources;
mod results;

use std::fmt;

pub use evidence::{Evidence, Run};

/// Something is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant is broken.
    pub invariant: &'static str,
    /// How.
    pub what: String,
}

impl Violation {
    /// Of this invariant.
    pub fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Holds everything against every invariant. `quiet`: the world came to rest by itself.
pub fn all(evidence: &Evidence, quiet: bool) -> Vec<Violation> {
    let mut found = Vec::new();
    resources::check(evidence, quiet, &mut found);
    ledgers::check(evidence, quiet, &mut found);
    acknowledged::check(evidence, &mut found);
    commands::check(evidence, &mut found);
    results::check(evidence, &mut found);
    found
}
