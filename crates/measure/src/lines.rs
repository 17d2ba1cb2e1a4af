//! Splits a log into lines and processes, in constant memory.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, ErrorKind, Read},
};

use memchr::{memchr, memchr_iter, memchr2, memrchr2};
use model::{measurement::LogEnd, metric::Subject};

use crate::{
    prefix::{LineOrigin, LogPrefixes},
    reading_builder::{ReadingBuilder, hash},
    recent::Recent,
    text::{find_near, text_of},
};

/// Maximum length of a line, bytes.
const LINE: usize = 1 << 20;
/// Maximum number of bytes of one read: the block stays in the processor's cache while its lines are read.
const BLOCK: usize = 128 << 10;
/// Maximum number of processes in one log.
const PROCESSES: usize = 1024;

/// One line of a process's output, without its terminator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The text without trailing blanks.
    pub(crate) text: &'a str,
    /// Line of the log, starting at 1.
    pub(crate) number: u64,
    /// Whether the line has a terminator. Otherwise the log may have been cut here, and a number at the end of the line may be incomplete.
    pub(crate) whole: bool,
    /// This line and those after it, unchanged, if no prefix must be removed from them; otherwise empty. A reader that
    /// takes more than this line sets [`ReadingBuilder::taken`].
    pub(crate) ahead: &'a str,
}

/// Reads the lines of one process.
pub(crate) trait Lines {
    /// Reads a line; lines are neither empty nor blank.
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder);

    /// Reports the end of the output.
    fn finish(&mut self, out: &mut ReadingBuilder) -> LogEnd;
}

/// Reads all lines of a log: those of its beginning, then those of the input.
///
/// # Errors
///
/// Returns an error if the reader fails. Damaged gzip data is not an error: the log is then incomplete.
pub(crate) fn read(
    beginning: Vec<u8>,
    input: impl Read,
    labels: LogPrefixes,
    new: &dyn Fn() -> Box<dyn Lines>,
    out: &mut ReadingBuilder,
) -> io::Result<LogEnd> {
    let mut processes = Processes {
        labels,
        new,
        out,
        streams: Vec::new(),
        indices: BTreeMap::new(),
        recent_indices: Recent::default(),
        current: 0,
        is_unlabelled: false,
        ended: None,
    };
    let damage = match split(beginning, input, &mut processes) {
        Ok(()) => None,
        Err(error) if error.kind() == ErrorKind::InvalidData => Some(error.to_string()),
        Err(error) => return Err(error),
    };
    let ended = processes.finish();
    Ok(match damage {
        Some(damage) => {
            out.error(&damage);
            if ended == LogEnd::Complete { LogEnd::Truncated } else { ended }
        }
        None => ended,
    })
}

struct Processes<'n> {
    labels: LogPrefixes,
    new: &'n dyn Fn() -> Box<dyn Lines>,
    out: &'n mut ReadingBuilder,
    streams: Vec<ProcessStream>,
    /// Index of each stream by its label.
    indices: BTreeMap<String, usize>,
    /// Indexes of recent streams by the hash of their labels.
    recent_indices: Recent<usize>,
    /// The stream of the last line.
    current: usize,
    /// Whether lines without a prefix belong to the current stream, and their first bytes suffice to recognize such lines.
    is_unlabelled: bool,
    /// Set if a part of the input is unreadable.
    ended: Option<LogEnd>,
}

/// The output of one process.
struct ProcessStream {
    label: String,
    subject: Subject,
    lines: Box<dyn Lines>,
}

impl Processes<'_> {
    /// Reads the pieces at the start of a text, up to the first piece that may have a prefix or continues a line. Returns the length of
    /// these pieces, their number of lines, and whether the next piece is the first of a line. Nearly all lines are read here, with as
    /// little work as possible for each of them.
    fn plain_lines(&mut self, text: &str, position: usize, number: u64, returns: bool) -> (usize, u64, bool) {
        let stream = self.streams.get_mut(self.current).filter(|_| self.is_unlabelled);
        let Some(stream) = stream else { return (0, 0, true) };
        let (mut rest, mut lines, mut first) = (text, 0, true);
        while first
            && !may_have_prefix(rest)
            && let Some(end) = terminator(rest.as_bytes(), returns)
        {
            let mut length = end + 1;
            let line = trimmed_end(&rest[..end]);
            if !line.is_empty() {
                self.out.position = position + text.len() - rest.len();
                let line = Line { text: line, number: number + lines, whole: true, ahead: rest };
                stream.lines.line(line, self.out);
                let taken = std::mem::take(&mut self.out.taken);
                if taken > length {
                    lines += memchr_iter(b'\n', &rest.as_bytes()[end..taken - 1]).count() as u64;
                    length = taken;
                }
            }
            let line_feed = rest.as_bytes()[length - 1] == b'\n';
            lines += u64::from(line_feed);
            // After an empty piece before a carriage return, the next piece is still the first of the line.
            first = line_feed || end == 0;
            rest = &rest[length..];
        }
        (text.len() - rest.len(), lines, first)
    }

    /// Slow path for a piece that [`Self::plain_lines`] does not read. Returns the number of bytes taken if the reader took more than the
    /// piece, otherwise 0.
    fn examine(&mut self, piece: LinePiece<'_>, scratch: &mut Vec<u8>) -> usize {
        let LinePiece { text, number, whole, first, position, ahead } = piece;
        self.out.position = position;
        let Some(line) = text else {
            self.out.error(&format!("line {number} exceeds {} MiB", LINE >> 20));
            self.ended = Some(LogEnd::Truncated);
            return 0;
        };
        let clean = !ahead.is_empty() && line.is_ok_and(|line| !is_wrapped(line));
        let text = match line {
            Ok(line) if clean => Cow::Borrowed(line),
            Ok(line) => text_of(nccl::clean(line.as_bytes(), scratch)),
            Err(line) => text_of(nccl::clean(line, scratch)),
        };
        let (origin, rest) = self.labels.strip(&text);
        let rest = trimmed_end(rest);
        let unlabelled = clean && first && origin.is_absent();
        let ahead = if unlabelled && self.labels.are_marked() { ahead } else { "" };
        // A launcher writes its prefix once per line.
        let continued = !first && origin.is_absent() && !self.streams.is_empty();
        let blank = rest.is_empty();
        if blank && origin.is_absent() {
            return 0;
        }
        // If a line begins with a carriage return, an empty piece with the prefix precedes the carriage return.
        let selected = continued || self.select(origin);
        if blank || !selected {
            return 0;
        }
        if let Some(stream) = self.streams.get_mut(self.current) {
            self.is_unlabelled = stream.label.is_empty() && self.labels.are_marked();
            stream.lines.line(Line { text: rest, number, whole, ahead }, self.out);
        }
        std::mem::take(&mut self.out.taken)
    }

    /// Makes the stream of a process the current one; returns `false` if the maximum of [`PROCESSES`] is reached.
    fn select(&mut self, origin: LineOrigin<'_>) -> bool {
        self.is_unlabelled = false;
        let is_of_origin = |stream: &ProcessStream| {
            // Comparing empty texts is slow: their address is invalid, which some processors handle by an exception.
            let equal = |one: &str, other: &str| other.is_empty() || one == other;
            stream.label.len() == origin.outer.len() + origin.label.len()
                && stream
                    .label
                    .split_at_checked(origin.outer.len())
                    .is_some_and(|(outer, inner)| equal(outer, origin.outer) && equal(inner, origin.label))
        };
        if self.streams.get(self.current).is_some_and(is_of_origin) {
            return true;
        }
        let key = hash(hash(0, origin.outer.as_bytes()), origin.label.as_bytes());
        let recent = self.recent_indices.get(key, |index| is_of_origin(&self.streams[*index])).copied();
        if let Some(index) = recent {
            self.resume(index);
            return true;
        }
        let label = [origin.outer, origin.label].concat();
        if let Some(&index) = self.indices.get(&label) {
            self.recent_indices.insert(key, index);
            self.resume(index);
            return true;
        }
        if self.streams.len() == PROCESSES {
            self.out.error(&format!("the log contains more than {PROCESSES} processes"));
            self.ended = Some(LogEnd::Truncated);
            return false;
        }
        let LineOrigin { node, rank, .. } = origin;
        let subject = Subject { node: node.map(|node| self.out.name(node)), rank, ..Subject::default() };
        self.out.origin.clone_from(&subject);
        self.current = self.streams.len();
        self.indices.insert(label.clone(), self.current);
        self.streams.push(ProcessStream { label, subject, lines: (self.new)() });
        true
    }

    /// Makes an existing stream the current one.
    fn resume(&mut self, index: usize) {
        self.current = index;
        self.out.origin.clone_from(&self.streams[index].subject);
    }

    fn finish(self) -> LogEnd {
        let mut ended = self.ended;
        for mut stream in self.streams {
            self.out.origin.clone_from(&stream.subject);
            ended = worst(ended, stream.lines.finish(self.out));
        }
        ended.unwrap_or(LogEnd::Empty)
    }
}

/// Whether the first line of a text may begin with a marked prefix, or with other text that is removed.
#[inline]
fn may_have_prefix(text: &str) -> bool {
    match text.as_bytes() {
        [b'[', b'0'..=b'9' | b'p', ..] => true,
        // A timestamp begins with four digits of the year and a hyphen.
        [b'0'..=b'9', rest @ ..] => rest.get(3) == Some(&b'-'),
        [0xef, ..] | [b'{', b'"', b'l', ..] => true,
        _ => false,
    }
}

/// The line without trailing blanks and NUL bytes, which are holes of a sparse file.
fn trimmed_end(line: &str) -> &str {
    if line.as_bytes().last().is_some_and(|byte| *byte > b' ') {
        return line;
    }
    let end = line.bytes().rposition(|byte| byte > b' ').map_or(0, |at| at + 1);
    // All bytes after `end` are ASCII.
    &line[..end]
}

/// Whether a line may begin with a byte-order mark or with the JSON of a log driver, which `nccl::clean` removes.
fn is_wrapped(line: &str) -> bool {
    matches!(line.as_bytes(), [0xef, ..] | [b'{', b'"', b'l', ..])
}

/// Text between two terminators.
struct LinePiece<'a> {
    /// The text, or bytes that are not UTF-8; absent if it exceeds the maximum.
    text: Option<Result<&'a str, &'a [u8]>>,
    number: u64,
    whole: bool,
    /// Whether the piece is the first of a line.
    first: bool,
    /// Position of the piece in the buffer.
    position: usize,
    /// The piece and all lines after it that were read, if they are UTF-8 without control sequences of a terminal;
    /// otherwise empty.
    ahead: &'a str,
}

/// Splits the input at line feeds and carriage returns: programs overwrite their progress with carriage returns, which do not increase the
/// line number. The beginning of the log is split in place; the memory is then used for the rest of the log.
fn split(beginning: Vec<u8>, mut input: impl Read, processes: &mut Processes<'_>) -> io::Result<()> {
    let (mut buffer, mut scratch) = (beginning, Vec::new());
    // The unread line starts at `from`; `block_end` is the end of the bytes already searched for terminators.
    let (mut filled, mut from, mut block_end, mut number) = (buffer.len(), 0, 0, 1);
    let (mut skipping, mut first) = (false, true);
    let end = loop {
        if block_end == filled {
            if from == 0 && filled == LINE {
                if !std::mem::replace(&mut skipping, true) {
                    let piece = LinePiece { text: None, number, whole: false, first, position: 0, ahead: "" };
                    processes.examine(piece, &mut scratch);
                }
                from = filled;
            }
            buffer.copy_within(from..filled, 0);
            filled -= from;
            (from, block_end) = (0, filled);
            let most = LINE.min(filled + BLOCK);
            if buffer.len() < most {
                buffer.resize(most, 0);
            }
            match input.read(&mut buffer[filled..most]) {
                Ok(0) => break Ok(()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => break Err(error),
            }
        }
        let mut searched = block_end;
        block_end = filled.min(block_end + BLOCK);
        let Some(last) = memrchr2(b'\n', b'\r', &buffer[searched..block_end]) else { continue };
        // All lines of a block are checked at once: for short lines, starting a check takes longer than the check.
        let start = from;
        let block = &buffer[start..=searched + last];
        searched -= start;
        from = 0;
        let text = str::from_utf8(block);
        let (plain, returns) = match memchr2(0x1b, b'\r', block) {
            Some(_) => (memchr(0x1b, block).is_none(), memchr(b'\r', block).is_some()),
            None => (true, false),
        };
        let clean = if plain { text.unwrap_or_default() } else { "" };
        loop {
            if first && !skipping {
                let ahead = clean.get(from..).unwrap_or_default();
                let (length, lines, begins) = processes.plain_lines(ahead, start + from, number, returns);
                (from, number, first) = (from + length, number + lines, begins);
                searched = searched.max(from);
            }
            let Some(more) = terminator(&block[searched..], returns) else { break };
            let end = searched + more;
            let mut next = end + 1;
            if !std::mem::take(&mut skipping) && end > from {
                let line = text.map_or_else(|_| utf8(&block[from..end]), |text| Ok(&text[from..end]));
                let ahead = clean.get(from..).unwrap_or_default();
                let piece =
                    LinePiece { text: Some(line), number, whole: true, first, position: start + from, ahead };
                let taken = processes.examine(piece, &mut scratch);
                next = next.max(from + taken);
            }
            // After an empty piece before a carriage return, the next piece is still the first of the line.
            let line_feed = block[next - 1] == b'\n';
            number += u64::from(line_feed);
            if next > end + 1 {
                number += memchr_iter(b'\n', &block[end..next - 1]).count() as u64;
            }
            first = line_feed || first && end == from;
            (from, searched) = (next, next);
        }
        from += start;
    };
    if filled > 0 && !skipping {
        let text = Some(utf8(&buffer[..filled]));
        processes
            .examine(LinePiece { text, number, whole: false, first, position: 0, ahead: "" }, &mut scratch);
    }
    end
}

/// Position of the first line feed, or of the first carriage return if `returns` is set.
#[inline]
fn terminator(bytes: &[u8], returns: bool) -> Option<usize> {
    if returns {
        return memchr2(b'\n', b'\r', bytes);
    }
    find_near([b'\n'], bytes)
}

fn utf8(bytes: &[u8]) -> Result<&str, &[u8]> {
    str::from_utf8(bytes).map_err(|_| bytes)
}

/// The worse of two ends; the end of an empty part is ignored.
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
