//! Integration tests of the crate, as one program: each program links all dependencies.

#[cfg(feature = "gcp")]
mod cloud_build;
mod deployed;
mod support;
