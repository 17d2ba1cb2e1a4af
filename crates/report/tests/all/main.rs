//! Integration tests of the crate, as one program: each program links all dependencies.

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
