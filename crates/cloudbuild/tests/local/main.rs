//! The local runner, with real processes.

mod bench;
mod hostile;
mod log;
mod outcome;
mod stop;
mod world;
