//! Parses the callback's events, one JSON document per line.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::Counts;

/// An event of the callback. The findings need all kinds except `Other`.
#[derive(Debug)]
pub(crate) enum PlayEvent {
    Play(String),
    Result {
        task: String,
        host: String,
        how: TaskResult,
        result: Value,
    },
    /// The run ended, with Ansible's own counts.
    Stats(BTreeMap<String, Counts>),
    /// Any other event; ignored.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskResult {
    Ok,
    Changed,
    Skipped,
    Failed,
    Unreachable,
}

#[derive(Deserialize)]
struct EventLine {
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

/// Parses a line; `None` if it is not an event.
pub(crate) fn parse(line: &[u8]) -> Option<PlayEvent> {
    let line: EventLine = serde_json::from_slice(line).ok()?;
    let how = match line.event.as_str() {
        "v2_playbook_on_play_start" => return Some(PlayEvent::Play(line.play.name)),
        "v2_playbook_on_stats" => return Some(PlayEvent::Stats(line.stats)),
        "v2_runner_on_ok" => TaskResult::Ok,
        "v2_runner_on_skipped" => TaskResult::Skipped,
        "v2_runner_on_failed" => TaskResult::Failed,
        "v2_runner_on_unreachable" => TaskResult::Unreachable,
        event if event.starts_with("v2_") => return Some(PlayEvent::Other),
        _ => return None,
    };
    // The callback writes one event per host.
    let Some((host, result)) = line.hosts.into_iter().next() else { return Some(PlayEvent::Other) };
    let how = if how == TaskResult::Ok && result["changed"] == true { TaskResult::Changed } else { how };
    Some(PlayEvent::Result { task: line.task.name, host, how, result })
}
