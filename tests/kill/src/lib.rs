//! Checks of runs whose services were killed, shared with the rehearsal of a deployment.

pub mod checks;
pub mod receiver;
