//! Splits a log into lines and processes, in constant memory.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read},
};

use memchr::memchr2;
use model::{measurement::LogEnd, metric::Subject};

use crate::{
    out::Out,
    prefix::{Labels, Origin},
};

/// Maximum length of a line, bytes.
const LINE: usize = 1 << 20;
/// Maximum number of processes in one log.
const PROCESSES: usize = 1024;

/// One line of a process's output, without its terminator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The text without trailing blanks.
    pub(crate) text: &'a str,
    /// Line of the log, starting at 1.
    pub(crate) number: u64,
    /// The terminator exists. Otherwise the log may have been cut here, and a number at the end of the line may be
    /// incomplete.
    pub(crate) whole: bool,
}

/// Reads the lines of one process.
pub(crate) trait Lines {
    /// Reads a line; lines are neither empty nor blank.
    fn line(&mut self, line: Line<'_>, out: &mut Out);

    /// Reports the end of the output.
    fn finish(&mut self, out: &mut Out) -> LogEnd;
}

/// Reads all lines of a log.
///
/// # Errors
///
/// Returns an error of the reader. Damaged gzip data is no error: the log is incomplete.
pub(crate) fn read(
    input: impl Read,
    labels: Labels,
    new: &dyn Fn() -> Box<dyn Lines>,
    out: &mut Out,
) -> io::Result<LogEnd> {
    let mut processes = Processes {
        labels,
        new,
        streams: BTreeMap::new(),
        ended: None,
        label: Box::default(),
        scratch: Vec::new(),
    };
    let damage = match split(input, |piece| processes.line(piece, out)) {
        Ok(()) => None,
        Err(error) if error.kind() == ErrorKind::InvalidData => Some(error.to_string()),
        Err(error) => return Err(error),
    };
    let ended = processes.finish(out);
    Ok(match damage {
        Some(damage) => {
            out.error(&damage);
            if ended == LogEnd::Complete { LogEnd::Truncated } else { ended }
        }
        None => ended,
    })
}

struct Processes<'n> {
    labels: Labels,
    new: &'n dyn Fn() -> Box<dyn Lines>,
    streams: BTreeMap<Box<str>, (Subject, Box<dyn Lines>)>,
    /// A part of the log could not be read.
    ended: Option<LogEnd>,
    /// Label of the line whose pieces are read.
    label: Box<str>,
    scratch: Vec<u8>,
}

impl Processes<'_> {
    fn line(&mut self, piece: Piece<'_>, out: &mut Out) {
        let Piece { text, number, whole, first } = piece;
        let Some(line) = text else {
            out.error(&format!("line {number} exceeds {} MiB", LINE >> 20));
            self.ended = Some(LogEnd::Truncated);
            return;
        };
        let line = nccl::clean(line, &mut self.scratch);
        let text = String::from_utf8_lossy(line);
        let (mut origin, rest) = self.labels.strip(&text);
        if first || !origin.label.is_empty() {
            if *self.label != *origin.label {
                self.label = origin.label.into();
            }
        } else {
            // A launcher writes its prefix once a line.
            origin.label = &self.label;
        }
        let rest = rest.trim_end_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
        if rest.trim_start().is_empty() {
            return;
        }
        if !self.streams.contains_key(origin.label) {
            if self.streams.len() == PROCESSES {
                out.error(&format!("the log contains more than {PROCESSES} processes"));
                self.ended = Some(LogEnd::Truncated);
                return;
            }
            let Origin { label, node, rank } = origin;
            let subject = Subject { node: node.map(|node| out.name(node)), rank, ..Subject::default() };
            self.streams.insert(label.into(), (subject, (self.new)()));
        }
        if let Some((subject, lines)) = self.streams.get_mut(origin.label) {
            out.origin.clone_from(subject);
            lines.line(Line { text: rest, number, whole }, out);
        }
    }

    fn finish(mut self, out: &mut Out) -> LogEnd {
        let mut ended = self.ended;
        for (subject, lines) in self.streams.values_mut() {
            out.origin.clone_from(subject);
            ended = worst(ended, lines.finish(out));
        }
        ended.unwrap_or(LogEnd::Empty)
    }
}

/// Text between two terminators.
struct Piece<'a> {
    /// Absent if it exceeds the maximum.
    text: Option<&'a [u8]>,
    number: u64,
    whole: bool,
    /// The piece begins a line.
    first: bool,
}

/// Splits the input at line feeds and carriage returns: programs overwrite their progress with the latter, which do not
/// count as lines.
fn split(mut input: impl Read, mut piece: impl FnMut(Piece<'_>)) -> io::Result<()> {
    let mut buffer = vec![0; LINE];
    let (mut filled, mut searched, mut number) = (0, 0, 1);
    let (mut skipping, mut first) = (false, true);
    let end = loop {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break Ok(()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => break Err(error),
        }
        let mut from = 0;
        while let Some(more) = memchr2(b'\n', b'\r', &buffer[searched..filled]) {
            let end = searched + more;
            if !std::mem::take(&mut skipping) && end > from {
                piece(Piece { text: Some(&buffer[from..end]), number, whole: true, first });
            }
            // An empty piece before a carriage return still begins the line.
            let line_feed = buffer[end] == b'\n';
            number += u64::from(line_feed);
            first = line_feed || first && end == from;
            from = end + 1;
            searched = from;
        }
        if from == 0 && filled == buffer.len() {
            if !std::mem::replace(&mut skipping, true) {
                piece(Piece { text: None, number, whole: false, first });
            }
            from = filled;
        }
        buffer.copy_within(from..filled, 0);
        filled -= from;
        searched = filled;
    };
    if filled > 0 && !skipping {
        piece(Piece { text: Some(&buffer[..filled]), number, whole: false, first });
    }
    end
}

/// The worse of two ends; an empty part does not count.
pub(crate) fn worst(ended: Option<LogEnd>, other: LogEnd) -> Option<LogEnd> {
    let rank = |end: LogEnd| match end {
        LogEnd::Empty => 0,
        LogEnd::Complete => 1,
        LogEnd::Truncated => 2,
        LogEnd::Failed => 3,
    };
    match ended {
        Some(ended) if rank(ended) >= rank(other) => Some(ended),
        _ => Some(other),
    }
}
