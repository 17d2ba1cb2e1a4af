//! What was found in a run's events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What came of a host's tasks, in Ansible's own words. When a run has ended they are Ansible's own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Tasks that ended well, those that changed something included.
    pub ok: u64,
    /// Tasks that changed something.
    pub changed: u64,
    /// Tasks that failed for good: neither ignored nor rescued, as far as the run has ended.
    pub failures: u64,
    /// Times the host could not be reached.
    pub unreachable: u64,
    /// Tasks that were not for this host.
    pub skipped: u64,
    /// Failures that the playbook goes on after.
    pub ignored: u64,
    /// Failures that a `rescue` dealt with.
    pub rescued: u64,
}

/// The first thing that went wrong for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The play, by its name or its hosts.
    pub play: String,
    /// The task.
    pub task: String,
    /// The host, as the inventory calls it.
    pub host: String,
    /// The module's own words, at most 600 characters in one line.
    pub message: String,
}

/// A host that could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    /// The host, as the inventory calls it.
    pub host: String,
    /// Why, in the words of ssh or sudo.
    pub reason: String,
}

/// What a stream of events said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Each host's counts, over all runs of the stream.
    pub hosts: BTreeMap<String, Counts>,
    /// The first failure that ended a host's run.
    pub failure: Option<Failure>,
    /// Hosts that could not be reached, in the order in which that was found.
    pub unreachable: Vec<Unreachable>,
    /// Whether the last run of the stream came to its end. A stream without any run has not.
    pub ended: bool,
    /// Runs that came to their end.
    pub runs: u64,
    /// Lines that were no events.
    pub foreign_lines: u64,
    /// Results that were left out because there were more hosts than anybody has.
    pub left_out: u64,
}

impl Findings {
    /// Whether everything came to its end and nothing is wrong.
    pub fn good(&self) -> bool {
        self.ended && self.failure.is_none() && self.unreachable.is_empty() && !self.hosts.is_empty() && {
            self.left_out == 0 && self.hosts.values().all(|host| host.failures == 0 && host.unreachable == 0)
        }
    }

    /// Whether no host was changed.
    pub fn unchanged(&self) -> bool {
        self.hosts.values().all(|host| host.changed == 0)
    }

    /// What is wrong in one line each, most telling first; empty when everything is good.
    pub fn problems(&self) -> Vec<String> {
        let mut lines: Vec<_> = self
            .unreachable
            .iter()
            .map(|lost| format!("{} cannot be reached: {}", lost.host, lost.reason))
            .collect();
        if let Some(Failure { play, task, host, message }) = &self.failure {
            lines.push(format!("{host}: {message} (task `{task}` of play `{play}`)"));
        }
        if !self.ended {
            lines.push("the run of the playbook broke off before its end".to_owned());
        } else if self.hosts.is_empty() {
            lines.push("the playbook ran on no host".to_owned());
        }
        lines
    }
}
