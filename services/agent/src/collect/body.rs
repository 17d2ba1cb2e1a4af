//! Content of a file as stored: secrets redacted, and the middle of an oversized file cut out.
//!
//! The beginning of a log has the command and its end the result, so both are kept. The stored bytes depend only on
//! the file and its limit, not on how they arrived: a retry after a crash stores the same bytes.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures::stream;
use ledger::ObjectReader;
use model::{Cluster, Collected, Cut};
use redact::{Redactor, Rules, Tally};
use service::PortError;
use tokio::io::AsyncReadExt;
use tokio_util::io::StreamReader;

use cluster_api::{FileTail, Scheduler};

/// Number of bytes per read.
const CHUNK: usize = 64 << 10;
/// Number of bytes kept from the end of a cut file.
const TAIL: u64 = 1 << 20;
/// Maximum distance back from the cut to a line end.
const LINE: usize = 64 << 10;

#[derive(Clone)]
pub struct OutputFile {
    pub scheduler: Arc<dyn Scheduler>,
    pub cluster: Cluster,
    pub job: String,
    pub name: String,
}

/// Properties of a body. They are complete after the body has been read to the end.
pub type CollectedHandle = Arc<Mutex<Collected>>;

/// The file's bytes as stored, and their properties. `limit`: maximum bytes without the marks of cuts and redactions.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub async fn body(
    file: &OutputFile,
    rules: &Arc<Rules>,
    limit: u64,
) -> Result<(ObjectReader, CollectedHandle), PortError> {
    let source = file.scheduler.output(&file.cluster, &file.job, &file.name).await?;
    let collected = CollectedHandle::default();
    let state = BodyState {
        file: file.clone(),
        source,
        rules: Arc::clone(rules),
        redactor: Some(Redactor::new(Arc::clone(rules))),
        tally: Tally::default(),
        held: Vec::new(),
        chunk: vec![0; CHUNK],
        given: 0,
        pushed: 0,
        limit,
        cut: None,
        collected: Arc::clone(&collected),
    };
    let chunks = stream::try_unfold(state, |mut state| async {
        let bytes = state.next().await?;
        Ok::<_, io::Error>((!bytes.is_empty()).then_some((bytes, state)))
    });
    Ok((Box::new(StreamReader::new(Box::pin(chunks))), collected))
}

struct BodyState {
    file: OutputFile,
    source: ObjectReader,
    rules: Arc<Rules>,
    /// `None` after the end of the file.
    redactor: Option<Redactor>,
    tally: Tally,
    /// Redacted bytes that the limit may still cut.
    held: Vec<u8>,
    chunk: Vec<u8>,
    /// Number of stored bytes.
    given: u64,
    /// Number of read bytes.
    pushed: u64,
    limit: u64,
    cut: Option<Cut>,
    collected: CollectedHandle,
}

impl BodyState {
    /// The next bytes to store; empty at the end.
    async fn next(&mut self) -> io::Result<Bytes> {
        let tail = TAIL.min(self.limit / 2);
        // Bytes beyond this position may be cut out.
        let certain = (self.limit - tail).saturating_sub(LINE as u64);
        loop {
            let Some(redactor) = &mut self.redactor else { return Ok(self.end()) };
            let length = self.source.read(&mut self.chunk).await?;
            self.pushed += length as u64;
            if length == 0 {
                if let Some(redactor) = self.redactor.take() {
                    self.tally.add(&redactor.finish(&mut self.held));
                }
            } else {
                redactor.push(&self.chunk[..length], &mut self.held);
            }
            if self.given + self.held.len() as u64 > self.limit {
                self.cut(tail).await?;
            }
            let ready = if self.redactor.is_none() {
                self.held.len()
            } else {
                self.held.len().min(usize::try_from(certain.saturating_sub(self.given)).unwrap_or(usize::MAX))
            };
            if ready > 0 {
                self.given += ready as u64;
                return Ok(self.held.drain(..ready).collect::<Vec<_>>().into());
            }
        }
    }

    /// Fills in the properties after the last byte.
    fn end(&mut self) -> Bytes {
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.read_bytes = self.pushed;
        collected.redacted = self.tally.by_kind();
        collected.cut = self.cut.take();
        Bytes::new()
    }

    /// Cuts at a line end within the buffered bytes, and appends a mark and the end of the file.
    async fn cut(&mut self, tail: u64) -> io::Result<()> {
        // Count redactions in the removed part too: the file contained them.
        let undecided = self.redactor.take().map_or(0, |redactor| {
            self.tally.add(redactor.tally());
            redactor.undecided()
        });
        let head = usize::try_from(self.limit - tail - self.given).unwrap_or(usize::MAX).min(self.held.len());
        let since = head.saturating_sub(LINE);
        let line = self.held[since..head].iter().rposition(|byte| *byte == b'\n');
        let at = line.map_or(head, |line| since + line + 1);
        let left = self.held.len() - at + undecided;
        self.held.truncate(at);
        let begins = self.pushed - left as u64;
        let at_bytes = self.given + at as u64;

        let Self { file, .. } = self;
        let ending = file.scheduler.read_tail(&file.cluster, &file.job, &file.name, tail).await;
        let ending = match ending.map_err(|error| io::Error::other(format!("{error:?}")))? {
            Some(ending) => Some(whole_lines(ending, begins, tail).await?),
            None => None,
        };
        let left_out_bytes = ending.as_ref().map(|(from, _)| from - begins);
        if self.held.last().is_some_and(|byte| *byte != b'\n') {
            self.held.push(b'\n');
        }
        let how_much = match left_out_bytes {
            Some(bytes) => format!("{bytes} bytes left out"),
            None => "the rest left out".to_owned(),
        };
        self.held.extend_from_slice(format!("[burnin: cut here, {how_much}]\n").as_bytes());
        if let Some((_, text)) = ending {
            let mut redactor = Redactor::new(Arc::clone(&self.rules));
            redactor.push(&text, &mut self.held);
            self.tally.add(&redactor.finish(&mut self.held));
            self.pushed += text.len() as u64;
        }
        self.cut = Some(Cut { at_bytes, left_out_bytes });
        Ok(())
    }
}

/// The end of a file, starting at its first complete line, and the offset of that line. An incomplete line or private key is
/// dropped: a secret whose beginning is missing would not be recognized.
async fn whole_lines(ending: FileTail, not_before: u64, most: u64) -> io::Result<(u64, Vec<u8>)> {
    let FileTail { mut from, body } = ending;
    let mut text = Vec::new();
    body.take(most).read_to_end(&mut text).await?;
    let twice = usize::try_from(not_before.saturating_sub(from)).unwrap_or(usize::MAX).min(text.len());
    let find = |text: &[u8], what: &[u8]| text.windows(what.len()).position(|window| window == what);
    let line = |from: usize| {
        text[from..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| from + at + 1)
    };
    let mut begins = line(twice);
    if let Some(end) = find(&text[begins..], b"-----END ")
        && find(&text[begins..begins + end], b"-----BEGIN ").is_none()
    {
        begins = line(begins + end);
    }
    text.drain(..begins);
    from += begins as u64;
    Ok((from.max(not_before), text))
}
