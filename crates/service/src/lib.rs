//! Runtime of every service.
//!
//! A service is a [`Worker`] (or its own [`Handler`]), a [`Bus`] to publish on and a [`Clock`]. In the cloud
//! its handler runs behind [`serve::router`], on a laptop behind a [`MemoryBus`]; the handler is the same.

pub mod auth;
pub mod bus;
pub mod clock;
pub mod config;
mod connections;
pub mod dead_letters;
pub mod ids;
mod pollers;
pub mod push;
pub mod serve;
pub mod shutdown;
pub mod spawn;
pub mod telemetry;
pub mod worker;

pub use async_trait::async_trait;
pub use bus::{Bus, BusError, DeadLetters, Disposition, Handler, MemoryBus};
pub use clock::{Clock, ManualClock, SystemClock};
pub use cloudevents::{AttributesReader, Event};
pub use dead_letters::StoredDeadLetters;
pub use pollers::{PollResult, Pollers};
pub use spawn::{Runtime, Spawn};
pub use worker::{CommandError, PortError, Publisher, Worker, WorkerHandler, chain};
