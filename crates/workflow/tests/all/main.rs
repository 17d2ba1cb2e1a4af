//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod checks;
mod feasible;
mod files;
mod hostile;
mod values;
