//! Converts the events of an Ansible run to findings.
//!
//! The source is the callback `ansible.posix.jsonl`: one JSON event per line, written immediately. Ansible's exit code alone is
//! insufficient: it is 4 for an unreachable host, even if another host failed, and for a playbook with invalid YAML. The events state host,
//! task and reason.
//!
//! [`EventReader`] processes bytes as they arrive and returns [`PlayFindings`] at any time. For any input, its memory
//! is bounded and it does not fail: other lines, which tools print between the events, are counted and
//! ignored. A stream may contain several consecutive runs, such as the steps of a build.
//!
//! Messages are quoted from the modules, shortened and without control characters. A task with `no_log` is
//! never quoted. Secrets printed by a module must be redacted by the caller that stores the text.

mod event;
mod findings;
mod reader;
mod text;

pub use findings::{Counts, PlayFindings, TaskFailure, Unreachable};
pub use reader::{EventReader, read};
