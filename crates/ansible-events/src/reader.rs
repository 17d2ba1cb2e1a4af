//! Splits a stream of bytes into lines, and adds the events to the findings.

use std::collections::BTreeMap;
use std::io::{self, Read};

use crate::event::{self, PlayEvent, TaskResult};
use crate::findings::{Counts, PlayFindings, TaskFailure, Unreachable};
use crate::text;

/// Maximum line length, bytes. Longer lines are ignored: a task result may contain whole files.
const LONGEST_LINE: usize = 4 << 20;
const MOST_HOSTS: usize = 10_000;

/// Processes a stream of events in chunks of any size.
#[derive(Clone, Debug, Default)]
pub struct EventReader {
    line: Vec<u8>,
    /// The line exceeds the maximum: ignore the rest of it.
    overlong: bool,
    play: String,
    /// Completed runs: Ansible's counts, final failures and unreachable hosts.
    past: PlayFindings,
    /// The current run: counts from events.
    counts: BTreeMap<String, Counts>,
    failed: BTreeMap<String, HostFailure>,
    lost: Vec<Unreachable>,
    failures: u64,
}

#[derive(Clone, Debug)]
struct HostFailure {
    /// Position among the failures of all hosts.
    order: u64,
    /// Whether the host ran another task afterwards, because of `ignore_errors`, `rescue` or `always`. Only
    /// Ansible's counts show whether the failure is final.
    went_on: bool,
    failure: TaskFailure,
}

impl EventReader {
    /// Processes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.overlong |= self.line.len() + text.len() > LONGEST_LINE;
            if self.overlong {
                self.line.clear();
            } else {
                self.line.extend_from_slice(text);
            }
            if ends {
                self.end_of_line();
            }
        }
    }

    /// Findings of the processed bytes. An unterminated last line is included if it is a complete event.
    pub fn findings(&self) -> PlayFindings {
        let mut last = self.clone();
        last.end_of_line();
        if !last.counts.is_empty() {
            last.finish_play(None);
        }
        last.past
    }

    fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.overlong) {
            self.past.foreign_lines += 1;
        } else if !line.iter().all(u8::is_ascii_whitespace) {
            match event::parse(&line) {
                Some(event) => self.event(event),
                None => self.past.foreign_lines += 1,
            }
        }
    }

    fn event(&mut self, event: PlayEvent) {
        match event {
            PlayEvent::Play(name) => {
                self.play = text::name(&name);
                self.past.ended = false;
            }
            PlayEvent::Result { task, host, how, result } => {
                self.past.ended = false;
                self.result(&task, &text::name(&host), how, &result);
            }
            PlayEvent::Stats(stats) => {
                self.finish_play(Some(stats));
                self.past.ended = true;
                self.past.runs += 1;
            }
            PlayEvent::Other => {}
        }
    }

    fn result(&mut self, task: &str, host: &str, how: TaskResult, result: &serde_json::Value) {
        if !self.counts.contains_key(host) && self.counts.len() >= MOST_HOSTS {
            self.past.left_out += 1;
            return;
        }
        let counts = self.counts.entry(host.to_owned()).or_default();
        if let Some(failed) = self.failed.get_mut(host).filter(|failed| !failed.went_on) {
            failed.went_on = true;
            counts.failures -= 1;
            counts.ignored += 1;
        }
        match how {
            TaskResult::Ok => counts.ok += 1,
            TaskResult::Changed => {
                counts.ok += 1;
                counts.changed += 1;
            }
            TaskResult::Skipped => counts.skipped += 1,
            TaskResult::Failed => {
                counts.failures += 1;
                let failure = TaskFailure {
                    play: self.play.clone(),
                    task: text::name(task),
                    host: host.to_owned(),
                    message: text::message(result),
                };
                let failed = HostFailure { order: self.failures, went_on: false, failure };
                self.failed.insert(host.to_owned(), failed);
                self.failures += 1;
            }
            TaskResult::Unreachable => {
                counts.unreachable += 1;
                self.lost.push(Unreachable { host: host.to_owned(), reason: text::message(result) });
            }
        }
    }

    /// Ends a run: with Ansible's counts if they are complete, otherwise with the counts of the events.
    fn finish_play(&mut self, stats: Option<BTreeMap<String, Counts>>) {
        let counted = std::mem::take(&mut self.counts);
        let counts = match stats {
            Some(stats) => stats.into_iter().map(|(host, counts)| (text::name(&host), counts)).collect(),
            None => counted,
        };
        let failed = std::mem::take(&mut self.failed);
        let stands =
            |failed: &HostFailure| counts.get(&failed.failure.host).is_some_and(|host| host.failures > 0);
        let first = failed.into_values().filter(stands).min_by_key(|failed| failed.order);
        if self.past.failure.is_none() {
            self.past.failure = first.map(|failed| failed.failure);
        }
        for lost in std::mem::take(&mut self.lost) {
            // A host that continued because of `ignore_unreachable` is not included in any count.
            let stands = counts.get(&lost.host).is_some_and(|host| host.unreachable > 0);
            if stands && !self.past.unreachable.iter().any(|other| other.host == lost.host) {
                self.past.unreachable.push(lost);
            }
        }
        for (host, more) in counts {
            if !self.past.hosts.contains_key(&host) && self.past.hosts.len() >= MOST_HOSTS {
                self.past.left_out += 1;
                continue;
            }
            let sum = self.past.hosts.entry(host).or_default();
            for (sum, more) in [
                (&mut sum.ok, more.ok),
                (&mut sum.changed, more.changed),
                (&mut sum.failures, more.failures),
                (&mut sum.unreachable, more.unreachable),
                (&mut sum.skipped, more.skipped),
                (&mut sum.ignored, more.ignored),
                (&mut sum.rescued, more.rescued),
            ] {
                *sum = sum.saturating_add(more);
            }
        }
    }
}

/// Reads a whole stream.
///
/// # Errors
/// Returns an error if the stream cannot be read.
pub fn read(mut stream: impl Read) -> io::Result<PlayFindings> {
    let mut reader = EventReader::default();
    let mut piece = vec![0; 64 << 10];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(reader.findings()),
            Ok(length) => reader.take(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
