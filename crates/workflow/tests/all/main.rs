//! Integration tests of the crate, as one program: each program links all dependencies.

mod checks;
mod feasible;
mod files;
mod hostile;
mod values;
