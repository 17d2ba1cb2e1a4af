//! Integration tests of the crate, in one binary, because each binary links all dependencies.

#[cfg(feature = "gcp")]
mod cloud_build;
mod deployed;
mod support;
