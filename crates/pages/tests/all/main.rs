//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod pages;
mod support;
mod systems;
