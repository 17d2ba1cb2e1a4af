//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod script;
mod states;
mod unwanted;
