//! Integration tests of the crate, as one program: each program links all dependencies.

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
