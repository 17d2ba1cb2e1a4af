//! Google Cloud adapters for the ports of `service` and `ledger`, and the main program of services on Cloud
//! Run.
//!
//! A service's `main` states its name and builds its handler from a [`ServiceContext`]; [`program::run`] runs the service.

pub mod auth;
pub mod environment;
pub mod keys;
pub mod otlp;
mod platform_callers;
pub mod program;
pub mod pubsub;
pub mod pull;
pub mod storage;

pub use environment::{AbsolutePath, Platform, StorageLocation};
pub use program::{ServiceContext, ServiceParts, StartupError, exit_code, run, run_with_routes};
