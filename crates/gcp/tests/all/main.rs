//! Integration tests of the crate, as one program: each program links all dependencies.

mod auth;
mod pull;
mod telemetry;
