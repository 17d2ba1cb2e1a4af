//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod contrast;
mod costs;
mod forms;
mod handover;
mod hostile;
mod metrics;
mod page;
mod pages;
mod sizes;
mod support;
mod terminal;
mod timeline;
