//! Integration tests of the crate, as one program: each program links all dependencies.

mod captures;
mod docs;
mod evidence;
mod exemptions;
mod fuzz;
mod mutations;
mod samples;
mod support;
