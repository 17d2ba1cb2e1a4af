//! Reads a container's output while it is written: the kubelet's log rotation cannot remove stored pieces.
//!
//! Lines are read with the kubelet's timestamps, which give the position to resume from, and stored without them, as the
//! program wrote them.

use std::{future::Future, time::Duration};

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use futures::AsyncBufReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use service::PortError;
use tokio::time::Instant;

use crate::{
    api::NamespacedCluster,
    apiserver::port_error,
    job_notes::{JobNotes, OutputCursor},
    objects::{containers, is_running, is_terminated, text},
};

/// Size at which a piece is stored, bytes. A smaller piece is stored once its first line is older than `LATEST`.
const PIECE: usize = 256 << 10;
const LATEST: Duration = Duration::from_secs(1);
/// Maximum length of a line; longer lines are stored in parts.
const LINE: usize = 1 << 20;
/// Timeout of opening an output.
const OPENING: Duration = Duration::from_secs(30);
/// Delay between two connections.
const PAUSE: Duration = Duration::from_secs(1);

/// A container's output, and its storage location.
#[derive(Clone)]
pub struct ContainerOutput {
    pub cluster: NamespacedCluster,
    pub notes: JobNotes,
    /// Name of the pod that writes the output.
    pub pod: String,
    /// Name of the container that writes the output.
    pub container: String,
    pub stream: String,
}

/// Reason why a pass over the output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassEnd {
    /// The API returned the complete output.
    Complete,
    /// Another agent stores the same output: its pieces are not stored again.
    OtherWriter,
    /// The pod is deleted.
    Deleted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogRead {
    /// A complete line, or a part of a line longer than `LINE`.
    Line,
    /// The end of the output.
    End,
    /// The deadline of the pending lines passed without a further line: store them now.
    Due,
}

impl ContainerOutput {
    /// Reads until the container has ended. Errors are retried.
    pub async fn follow(&self) {
        loop {
            match self.step().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(why) => {
                    tracing::debug!(pod = self.pod, "cannot read the pod's output, retrying: {why:?}")
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn step(&self) -> Result<bool, PortError> {
        if self.notes.end(&self.stream).await?.is_some() {
            return Ok(true);
        }
        if self.read_pass(true, false).await? == PassEnd::OtherWriter {
            return Ok(false);
        }
        self.finish().await
    }

    /// Reads the current output; closes the stream if its container has ended or is deleted. Returns whether it is closed.
    ///
    /// # Errors
    /// Returns an error if a request to the cluster or the bucket fails.
    pub async fn finish(&self) -> Result<bool, PortError> {
        if self.notes.end(&self.stream).await?.is_some() {
            return Ok(true);
        }
        // Read the pod before the last pass: output written after this state is not missed.
        let pod = self.cluster.pod(&self.pod).await?;
        let ended = pod.as_ref().is_some_and(|pod| ended(pod, &self.container));
        loop {
            match self.read_pass(false, ended).await? {
                PassEnd::OtherWriter => {}
                PassEnd::Complete if ended => {
                    self.notes.close(&self.stream, None).await?;
                    return Ok(true);
                }
                PassEnd::Complete if pod.is_some() => return Ok(false),
                PassEnd::Complete | PassEnd::Deleted => {
                    let why = "the pod was deleted before its output was read completely".to_owned();
                    self.notes.close(&self.stream, Some(why)).await?;
                    return Ok(true);
                }
            }
        }
    }

    /// One pass over the output from the stored position. `last`: text after the last newline is stored as a line.
    async fn read_pass(&self, follow: bool, last: bool) -> Result<PassEnd, PortError> {
        let mut unstored = UnstoredLines::after(self.notes.cursor(&self.stream).await?);
        let Some(body) = self.open(follow, unstored.until).await? else { return Ok(PassEnd::Deleted) };
        let (mut body, mut line) = (Box::pin(body), Vec::new());
        loop {
            let due = unstored.since.filter(|_| follow).map(|since| since + LATEST);
            let read = match until_deadline(due, next(&mut body, &mut line)).await {
                None => LogRead::Due,
                Some(Ok(true)) => LogRead::Line,
                Some(Ok(false)) => LogRead::End,
                // Store the complete lines before the error is returned; the next pass reads the rest again.
                Some(Err(error)) => {
                    self.keep(&mut unstored).await?;
                    return Err(PortError::transient(error));
                }
            };
            let unfinished = read == LogRead::End && last && !line.is_empty();
            if read == LogRead::Line || unfinished {
                unstored.add(&std::mem::take(&mut line));
            }
            let full = unstored.body.len() >= PIECE;
            if (read != LogRead::Line || full) && !self.keep(&mut unstored).await? {
                return Ok(PassEnd::OtherWriter);
            }
            if read == LogRead::End {
                return Ok(PassEnd::Complete);
            }
        }
    }

    /// Opens the output from a time on; `None` if the pod is deleted.
    async fn open(
        &self,
        follow: bool,
        until: Option<DateTime<Utc>>,
    ) -> Result<Option<impl futures::AsyncBufRead>, PortError> {
        let since_time = until.and_then(|until| {
            // The API takes whole seconds; repeated lines are recognized by their timestamps.
            let whole = until.duration_trunc(TimeDelta::seconds(1)).unwrap_or(until);
            k8s_openapi::jiff::Timestamp::from_second(whole.timestamp()).ok()
        });
        let container = Some(self.container.clone());
        let request = LogParams { container, follow, timestamps: true, since_time, ..LogParams::default() };
        let pods = self.cluster.pods();
        match tokio::time::timeout(OPENING, pods.log_stream(&self.pod, &request)).await {
            Err(_) => Err(PortError::Transient(format!("pod {}: opening its output timed out", self.pod))),
            Ok(Ok(body)) => Ok(Some(body)),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Ok(Err(error)) => Err(port_error(&error, "Pod")),
        }
    }

    async fn keep(&self, unstored: &mut UnstoredLines) -> Result<bool, PortError> {
        if unstored.body.is_empty() {
            return Ok(true);
        }
        let body = std::mem::take(&mut unstored.body);
        unstored.since = None;
        let from = unstored.cursor.bytes;
        unstored.cursor.bytes += body.len() as u64;
        let kept = self.notes.keep(&self.stream, from, &unstored.cursor, &body).await?;
        unstored.cursor.gap = None;
        Ok(kept)
    }
}

/// Reads until the deadline `until`; `None` after it, because the pending lines must then be stored.
async fn until_deadline<T>(until: Option<Instant>, read: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) if until <= Instant::now() => None,
        Some(until) => tokio::time::timeout_at(until, read).await.ok(),
        None => Some(read.await),
    }
}

/// Reads until `line` is complete or longer than `LINE`. Returns false at the end of the output. Cancel-safe: a second call continues.
async fn next(body: &mut (impl futures::AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    loop {
        let filled = body.fill_buf().await?;
        if filled.is_empty() {
            return Ok(false);
        }
        let end = filled.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let taken = end.unwrap_or(filled.len());
        line.extend_from_slice(&filled[..taken]);
        body.consume_unpin(taken);
        if end.is_some() || line.len() > LINE {
            return Ok(true);
        }
    }
}

/// Lines of a pass that are not stored yet.
struct UnstoredLines {
    cursor: OutputCursor,
    /// Timestamp of the last line.
    until: Option<DateTime<Utc>>,
    /// Number of stored lines with the timestamp of the cursor that this pass has read again; `None` after the first new line.
    again: Option<u64>,
    /// Treatment of the current line, until its newline.
    line: Option<LineUse>,
    body: Vec<u8>,
    /// Arrival of the first pending text.
    since: Option<Instant>,
}

#[derive(Clone, Copy)]
enum LineUse {
    /// Read and stored before.
    Skip,
    /// New, except for this number of stored bytes at its start.
    StoreAfter(u64),
}

impl UnstoredLines {
    fn after(cursor: OutputCursor) -> Self {
        let until = cursor.until.parse().ok();
        let again = until.map(|_| 0);
        Self { cursor, until, again, line: None, body: Vec::new(), since: None }
    }

    /// Adds a line, or the next part of a long line: only the first part has a timestamp, and only the last part ends with a newline.
    fn add(&mut self, part: &[u8]) {
        let (used, text) = match self.line {
            Some(used) => (used, part),
            None => self.begin(part),
        };
        let complete = part.ends_with(b"\n");
        self.line = match used {
            _ if complete => None,
            LineUse::Skip => Some(used),
            LineUse::StoreAfter(stored) => {
                Some(LineUse::StoreAfter(stored.saturating_sub(text.len() as u64)))
            }
        };
        let LineUse::StoreAfter(stored) = used else { return };
        let new = text.get(usize::try_from(stored).unwrap_or(usize::MAX)..).unwrap_or_default();
        if !new.is_empty() {
            self.cursor.incomplete = if complete { 0 } else { self.cursor.incomplete + new.len() as u64 };
            self.body.extend_from_slice(new);
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Decides the treatment of a line from its first part, and returns the part's text after the timestamp.
    fn begin<'a>(&mut self, part: &'a [u8]) -> (LineUse, &'a [u8]) {
        let space = part.iter().position(|byte| *byte == b' ');
        let stamp = space.and_then(|space| std::str::from_utf8(&part[..space]).ok());
        let time = stamp.and_then(|stamp| stamp.parse::<DateTime<Utc>>().ok());
        let (Some(space), Some(stamp), Some(time)) = (space, stamp, time) else {
            // A message of the kubelet itself, without a timestamp.
            return (if self.again.is_none() { LineUse::StoreAfter(0) } else { LineUse::Skip }, part);
        };
        let text = &part[space + 1..];
        if let (Some(again), Some(until)) = (&mut self.again, self.until) {
            if time < until {
                return (LineUse::Skip, text);
            }
            if time == until && *again < self.cursor.same {
                *again += 1;
                let is_incomplete = *again == self.cursor.same && self.cursor.incomplete > 0;
                let stored = self.cursor.incomplete;
                return (if is_incomplete { LineUse::StoreAfter(stored) } else { LineUse::Skip }, text);
            }
            if *again < self.cursor.same {
                self.cursor.gap =
                    Some(format!("lines between {} and {stamp} may be missing", self.cursor.until));
            }
            self.again = None;
        }
        self.cursor.same = if self.until == Some(time) { self.cursor.same + 1 } else { 1 };
        self.cursor.incomplete = 0;
        self.until = Some(time);
        stamp.clone_into(&mut self.cursor.until);
        (LineUse::StoreAfter(0), text)
    }
}

/// Whether a container of a pod has ended, or will never start.
pub fn ended(pod: &Pod, container: &str) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_ref());
    let over = matches!(text(phase), "Succeeded" | "Failed");
    let found = containers(pod).find(|status| status.name == container);
    found.map_or(over, |status| is_terminated(status) || (over && !is_running(status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cursor: OutputCursor, lines: &[&str]) -> (String, OutputCursor) {
        let mut unstored = UnstoredLines::after(cursor);
        for line in lines {
            unstored.add(line.as_bytes());
        }
        (String::from_utf8(unstored.body).unwrap(), unstored.cursor)
    }

    const LINES: [&str; 4] = [
        "2026-11-20T19:01:41.5Z one\n",
        "2026-11-20T19:01:41.5Z one\n",
        "2026-11-20T19:01:41.50000001Z two\n",
        "2026-11-20T19:01:42Z \n",
    ];

    #[test]
    fn a_repeated_line_is_stored_once_wherever_the_connection_broke() {
        for broke in 0..=LINES.len() {
            let (first, cursor) = kept(OutputCursor::default(), &LINES[..broke]);
            let (second, cursor) = kept(cursor, &LINES);
            assert_eq!(first + &second, "one\none\ntwo\n\n", "the connection broke after {broke}");
            assert_eq!((cursor.gap, cursor.same), (None, 1));
        }
    }

    #[test]
    fn a_long_line_is_stored_once_wherever_the_connection_broke_in_it() {
        const TEXT: &str = "aaaa 2026-11-20T19:01:43Z bbbb\n";
        let parts = |at: usize| [format!("2026-11-20T19:01:42Z {}", &TEXT[..at]), TEXT[at..].to_owned()];
        let next = "2026-11-20T19:01:42Z next\n";
        for first in 1..TEXT.len() {
            for second in 1..TEXT.len() {
                let [part, _] = parts(first);
                let (before, cursor) = kept(OutputCursor::default(), &[LINES[0], &part]);
                let [start, rest] = parts(second);
                let (after, cursor) = kept(cursor, &[LINES[0], &start, &rest, next]);
                assert_eq!(
                    before + &after,
                    format!("one\n{TEXT}next\n"),
                    "broken at {first}, read again in {second}"
                );
                assert_eq!((cursor.gap, cursor.same, cursor.incomplete), (None, 2, 0));
            }
        }
    }

    #[test]
    fn rotated_lines_are_reported_as_missing() {
        let (_, cursor) = kept(OutputCursor::default(), &LINES[..2]);
        let (text, cursor) = kept(cursor, &LINES[3..]);
        assert_eq!(text, "\n");
        assert_eq!(
            cursor.gap.as_deref(),
            Some("lines between 2026-11-20T19:01:41.5Z and 2026-11-20T19:01:42Z may be missing")
        );
    }

    #[test]
    fn a_clock_that_steps_back_loses_no_line() {
        let (text, _) = kept(OutputCursor::default(), &[LINES[3], LINES[0]]);
        assert_eq!(text, "\none\n");
    }
}
