//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod hostile;
mod recordings;
