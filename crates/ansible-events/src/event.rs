//! One line of the callback, as far as it is needed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::Counts;

/// An event that says something; all others are left out.
#[derive(Debug)]
pub(crate) enum Event {
    /// A play began.
    Play(String),
    /// One host's result of a task.
    Result { task: String, host: String, how: How, result: Value },
    /// The run ended; Ansible's own counts.
    Stats(BTreeMap<String, Counts>),
    /// Another event of the callback.
    Other,
}

/// How a task ended on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Ok,
    Changed,
    Skipped,
    Failed,
    Unreachable,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "_event")]
    event: String,
    #[serde(default)]
    play: Named,
    #[serde(default)]
    task: Named,
    #[serde(default)]
    hosts: BTreeMap<String, Value>,
    #[serde(default)]
    stats: BTreeMap<String, Counts>,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

/// The event of a line; none when it is not one.
pub(crate) fn parse(line: &[u8]) -> Option<Event> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let how = match line.event.as_str() {
        "v2_playbook_on_play_start" => return Some(Event::Play(line.play.name)),
        "v2_playbook_on_stats" => return Some(Event::Stats(line.stats)),
        "v2_runner_on_ok" => How::Ok,
        "v2_runner_on_skipped" => How::Skipped,
        "v2_runner_on_failed" => How::Failed,
        "v2_runner_on_unreachable" => How::Unreachable,
        event if event.starts_with("v2_") => return Some(Event::Other),
        _ => return None,
    };
    // The callback writes an event for each host.
    let Some((host, result)) = line.hosts.into_iter().next() else { return Some(Event::Other) };
    let how = if how == How::Ok && result["changed"] == true { How::Changed } else { how };
    Some(Event::Result { task: line.task.name, host, how, result })
}
