//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod access;
mod api;
mod auth;
mod broken;
mod catalogue;
mod events;
mod github;
mod offers;
#[cfg(feature = "gcp")]
mod program;
mod refs;
mod schedule;
mod support;
