//! Integration tests of the crate, in one binary, because each binary links all dependencies.

mod captures;
mod docs;
mod evidence;
mod exemptions;
mod faults;
mod fuzz;
mod mutations;
mod samples;
mod support;
