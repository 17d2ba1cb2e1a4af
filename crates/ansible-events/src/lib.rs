//! What a run of Ansible says of itself, read into findings.
//!
//! The source is the callback `ansible.posix.jsonl`: one JSON event a line, written as things happen. Ansible's exit
//! code alone says too little: it is 4 for a host that cannot be reached, also when another one failed, and for a
//! playbook that is no YAML. The events say which host, which task and why.
//!
//! [`Reader`] takes bytes as they come and answers with [`Findings`] at any moment. Whatever it is fed, it takes a
//! bounded amount of memory and does not fail: lines that are no event are counted and left out, since tools print
//! their own lines among them. Several runs may follow each other in one stream, as the steps of a build do.
//!
//! Messages are quoted as the modules wrote them, cut short and without control characters. A task with `no_log` is
//! never quoted. Secrets that a module printed all the same are the business of whoever keeps the text.

mod event;
mod findings;
mod reader;
mod text;

pub use findings::{Counts, Failure, Findings, Unreachable};
pub use reader::{Reader, read};
