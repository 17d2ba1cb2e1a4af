//! The local runner, with real processes.

mod bed;
mod bench;
mod hostile;
mod log;
mod outcome;
mod stop;
