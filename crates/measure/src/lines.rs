//! Splits a log into lines and processes, in constant memory.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, ErrorKind, Read},
};

use memchr::{memchr, memchr_iter, memchr2, memrchr2};
use model::{measurement::LogEnd, metric::Subject};

use crate::{
    out::Out,
    prefix::{Labels, Origin},
    text::text_of,
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
    /// The terminator exists. Otherwise the log may have been cut here, and a number at the end of the line may be
    /// incomplete.
    pub(crate) whole: bool,
    /// This line and those after it, unchanged, if none of them needs its prefix removed; otherwise empty. A reader that
    /// takes more than this line sets [`Out::taken`].
    pub(crate) ahead: &'a str,
}

/// Reads the lines of one process.
pub(crate) trait Lines {
    /// Reads a line; lines are neither empty nor blank.
    fn line(&mut self, line: Line<'_>, out: &mut Out);

    /// Reports how the output ended.
    fn finish(&mut self, out: &mut Out) -> LogEnd;
}

/// Reads all lines of a log.
///
/// # Errors
///
/// Returns an error if the reader fails. Damaged gzip data is not an error: the log is then incomplete.
pub(crate) fn read(
    input: impl Read,
    labels: Labels,
    new: &dyn Fn() -> Box<dyn Lines>,
    out: &mut Out,
) -> io::Result<LogEnd> {
    let mut processes =
        Processes { labels, new, streams: Vec::new(), places: BTreeMap::new(), current: 0, ended: None };
    let mut scratch = Vec::new();
    let damage = match split(input, |piece| processes.line(piece, &mut scratch, out)) {
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
    streams: Vec<Stream>,
    /// Index of each stream by its label.
    places: BTreeMap<String, usize>,
    /// The stream of the last line.
    current: usize,
    /// A part of the input is unreadable.
    ended: Option<LogEnd>,
}

/// The output of one process.
struct Stream {
    label: String,
    subject: Subject,
    lines: Box<dyn Lines>,
}

impl Processes<'_> {
    /// Reads a piece; returns the number of bytes that were taken, if they are more than the piece.
    fn line(&mut self, piece: Piece<'_>, scratch: &mut Vec<u8>, out: &mut Out) -> usize {
        let Piece { text, number, whole, first, ahead } = piece;
        let Some(line) = text else {
            out.error(&format!("line {number} exceeds {} MiB", LINE >> 20));
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
        if unlabelled && self.is_unlabelled() {
            // Nearly all lines have no prefix of a launcher.
            if rest.is_empty() {
                return 0;
            }
            self.streams[self.current].lines.line(Line { text: rest, number, whole, ahead }, out);
            return std::mem::take(&mut out.taken);
        }
        // A launcher writes its prefix once a line.
        let continued = !first && origin.is_absent() && !self.streams.is_empty();
        let blank = rest.is_empty();
        if blank && origin.is_absent() {
            return 0;
        }
        // A line that begins with a carriage return has its prefix before it, without text.
        let selected = continued || self.select(origin, out);
        if blank || !selected {
            return 0;
        }
        if let Some(stream) = self.streams.get_mut(self.current) {
            stream.lines.line(Line { text: rest, number, whole, ahead }, out);
        }
        std::mem::take(&mut out.taken)
    }

    /// The current stream is that of lines without prefix.
    fn is_unlabelled(&self) -> bool {
        self.streams.get(self.current).is_some_and(|stream| stream.label.is_empty())
    }

    /// Makes the stream of a process the current one; returns `false` if the maximum of [`PROCESSES`] is reached.
    fn select(&mut self, origin: Origin<'_>, out: &mut Out) -> bool {
        let is_current = |stream: &Stream| {
            let length = origin.outer.len() + origin.label.len();
            // Comparing empty texts is slow: their address is invalid, which some processors handle by an exception.
            if length == 0 || stream.label.len() != length {
                return stream.label.len() == length;
            }
            let (outer, inner) = stream.label.split_at_checked(origin.outer.len()).unwrap_or_default();
            outer == origin.outer && inner == origin.label
        };
        if self.streams.get(self.current).is_some_and(is_current) {
            return true;
        }
        let label = [origin.outer, origin.label].concat();
        if let Some(&place) = self.places.get(&label) {
            self.current = place;
            out.origin.clone_from(&self.streams[place].subject);
            return true;
        }
        if self.streams.len() == PROCESSES {
            out.error(&format!("the log contains more than {PROCESSES} processes"));
            self.ended = Some(LogEnd::Truncated);
            return false;
        }
        let Origin { node, rank, .. } = origin;
        let subject = Subject { node: node.map(|node| out.name(node)), rank, ..Subject::default() };
        out.origin.clone_from(&subject);
        self.current = self.streams.len();
        self.places.insert(label.clone(), self.current);
        self.streams.push(Stream { label, subject, lines: (self.new)() });
        true
    }

    fn finish(self, out: &mut Out) -> LogEnd {
        let mut ended = self.ended;
        for mut stream in self.streams {
            out.origin.clone_from(&stream.subject);
            ended = worst(ended, stream.lines.finish(out));
        }
        ended.unwrap_or(LogEnd::Empty)
    }
}

/// The line without trailing blanks and NUL bytes, which are holes of a sparse file.
fn trimmed_end(line: &str) -> &str {
    if line.as_bytes().last().is_some_and(|byte| *byte > b' ') {
        return line;
    }
    let end = line.bytes().rposition(|byte| byte > b' ').map_or(0, |at| at + 1);
    // All bytes after it are ASCII.
    &line[..end]
}

/// Whether a line may begin with the mark of a byte order or with the JSON of a log driver, which `nccl::clean` removes.
fn is_wrapped(line: &str) -> bool {
    matches!(line.as_bytes(), [0xef, ..] | [b'{', b'"', b'l', ..])
}

/// Text between two terminators.
struct Piece<'a> {
    /// The text, or bytes that are not UTF-8; absent if it exceeds the maximum.
    text: Option<Result<&'a str, &'a [u8]>>,
    number: u64,
    whole: bool,
    /// It begins a line.
    first: bool,
    /// The piece and all lines after it that were read, if they are UTF-8 without control sequences of a terminal;
    /// otherwise empty.
    ahead: &'a str,
}

/// Splits the input at line feeds and carriage returns: programs overwrite their progress with the latter, which do not
/// count as lines.
fn split(mut input: impl Read, mut piece: impl FnMut(Piece<'_>) -> usize) -> io::Result<()> {
    let mut buffer = vec![0; LINE];
    let (mut filled, mut searched, mut number) = (0, 0, 1);
    let (mut skipping, mut first) = (false, true);
    let end = loop {
        let most = LINE.min(filled + BLOCK);
        match input.read(&mut buffer[filled..most]) {
            Ok(0) => break Ok(()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => break Err(error),
        }
        let mut from = 0;
        if let Some(last) = memrchr2(b'\n', b'\r', &buffer[searched..filled]) {
            // All lines of a block are checked at once: for short lines, starting a check takes longer than the check.
            let block = &buffer[..searched + last + 1];
            let (text, plain) = (str::from_utf8(block), memchr(0x1b, block).is_none());
            while let Some(more) = memchr2(b'\n', b'\r', &block[searched..]) {
                let end = searched + more;
                let mut next = end + 1;
                if !std::mem::take(&mut skipping) && end > from {
                    let line = text.map_or_else(|_| utf8(&block[from..end]), |text| Ok(&text[from..end]));
                    let ahead = text.map_or("", |text| if plain { &text[from..] } else { "" });
                    let taken = piece(Piece { text: Some(line), number, whole: true, first, ahead });
                    next = next.max(from + taken);
                }
                // An empty piece before a carriage return still begins the line.
                let line_feed = block[next - 1] == b'\n';
                number += u64::from(line_feed);
                if next > end + 1 {
                    number += memchr_iter(b'\n', &block[end..next - 1]).count() as u64;
                }
                first = line_feed || first && end == from;
                (from, searched) = (next, next);
            }
        }
        if from == 0 && filled == buffer.len() {
            if !std::mem::replace(&mut skipping, true) {
                piece(Piece { text: None, number, whole: false, first, ahead: "" });
            }
            from = filled;
        }
        buffer.copy_within(from..filled, 0);
        filled -= from;
        searched = filled;
    };
    if filled > 0 && !skipping {
        let text = Some(utf8(&buffer[..filled]));
        piece(Piece { text, number, whole: false, first, ahead: "" });
    }
    end
}

fn utf8(bytes: &[u8]) -> Result<&str, &[u8]> {
    str::from_utf8(bytes).map_err(|_| bytes)
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
