//! Google Cloud behind the ports of `kit` and `ledger`, and a service as a program on Cloud Run.
//!
//! A service's `main` names itself and builds its handler from a [`Wiring`]; everything else, from the environment to
//! the last request, is [`program::run`].

pub mod auth;
pub mod environment;
pub mod keys;
pub mod otlp;
pub mod program;
pub mod pubsub;
pub mod pull;
pub mod storage;

pub use environment::{Local, Place, Platform};
pub use program::{Parts, Unfit, Wiring, ended, run, run_with_routes};
