//! Findings of Ansible runs: task counts by host, the first final failure, and unreachable hosts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Task results of a host, with Ansible's names. After a run the counts are Ansible's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Successful tasks, including those with changes.
    pub ok: u64,
    pub changed: u64,
    /// Tasks that failed permanently: neither ignored nor rescued in the processed events.
    pub failures: u64,
    /// Number of times the host was unreachable.
    pub unreachable: u64,
    /// Tasks not applicable to this host.
    pub skipped: u64,
    pub ignored: u64,
    /// Failures handled by `rescue`.
    pub rescued: u64,
}

/// The first task failure that ended the run on a host: neither ignored nor rescued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskFailure {
    /// Name of the play, or its hosts.
    pub play: String,
    /// Task name as in the playbook.
    pub task: String,
    /// Host name in the inventory.
    pub host: String,
    /// The module's message, one line of at most 600 characters.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    /// Host name in the inventory.
    pub host: String,
    /// Reason that ssh or sudo reported, for display.
    pub reason: String,
}

/// Results of the processed events of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlayFindings {
    /// Counts by host, over all runs of the stream.
    pub hosts: BTreeMap<String, Counts>,
    /// The first failure that ended the run on a host.
    pub failure: Option<TaskFailure>,
    /// Unreachable hosts, in the order of detection.
    pub unreachable: Vec<Unreachable>,
    /// Whether the last run of the stream is complete; `false` without a run.
    pub ended: bool,
    /// Number of complete runs.
    pub runs: u64,
    /// Number of lines that are not events.
    pub foreign_lines: u64,
    /// Number of results ignored because of the maximum number of hosts.
    pub left_out: u64,
}

impl PlayFindings {
    /// Whether all runs are complete and successful.
    pub fn is_success(&self) -> bool {
        self.ended && self.failure.is_none() && self.unreachable.is_empty() && !self.hosts.is_empty() && {
            self.left_out == 0 && self.hosts.values().all(|host| host.failures == 0 && host.unreachable == 0)
        }
    }

    /// Whether no host was changed.
    pub fn unchanged(&self) -> bool {
        self.hosts.values().all(|host| host.changed == 0)
    }

    /// One line per problem, most significant first; empty if successful.
    pub fn problems(&self) -> Vec<String> {
        let mut lines: Vec<_> = self
            .unreachable
            .iter()
            .map(|lost| format!("{} is unreachable: {}", lost.host, lost.reason))
            .collect();
        if let Some(TaskFailure { play, task, host, message }) = &self.failure {
            lines.push(format!("{host}: {message} (task `{task}` of play `{play}`)"));
        }
        if !self.ended {
            lines.push("the run of the playbook is incomplete".to_owned());
        } else if self.hosts.is_empty() {
            lines.push("the playbook ran on no host".to_owned());
        }
        lines
    }
}
