//! Integration tests of the crate, as one program: each program links all dependencies.

mod pages;
mod support;
mod systems;
