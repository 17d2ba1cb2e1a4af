//! JSON documents between the other lines of a log.

use memchr::memchr2;
use model::measurement::LogEnd;

use super::{Document, JsonNode, JsonValue, LONGEST, TYPICAL};
use crate::{
    lines::{Line, worst},
    reading_builder::ReadingBuilder,
};

/// Finds JSON documents between other lines: a document starts with a bracket at the start of a line and ends with the
/// bracket that closes it.
#[derive(Default)]
struct Gather {
    text: String,
    line: u64,
    depth: usize,
    in_string: bool,
    escaped: bool,
    exceeded: bool,
}

/// Effect of a line on a [`Gather`].
enum Gathered {
    /// The line is not part of a document.
    Other,
    /// The line is part of a document that is still open.
    Open,
    /// The line closed a document: the text of the document, and the number of its first line.
    Closed(String, u64),
    /// The document exceeded the maximum and was dropped.
    Exceeded,
}

impl Gather {
    fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// Adds a line. `starts` are the brackets that start a document; `used` counts the bytes of all open documents.
    fn line(&mut self, line: &str, number: u64, starts: &[u8], used: &mut usize) -> Gathered {
        if self.depth == 0 {
            if !starts_with(line, starts) {
                return Gathered::Other;
            }
            *self = Self { line: number, ..Self::default() };
        }
        let end = self.end(line.as_bytes());
        let kept = &line[..end.unwrap_or(line.len())];
        if *used + kept.len() >= LONGEST {
            self.exceeded = true;
            *used -= self.text.len();
            self.text = String::new();
        }
        if !self.exceeded {
            *used += kept.len() + 1;
            self.text.push_str(kept);
            self.text.push('\n');
        }
        match end {
            None => Gathered::Open,
            Some(_) if self.exceeded => Gathered::Exceeded,
            Some(_) => {
                *used -= self.text.len();
                Gathered::Closed(std::mem::take(&mut self.text), self.line)
            }
        }
    }

    /// Position after the bracket that closes the document; `None` if the line does not contain this bracket.
    fn end(&mut self, line: &[u8]) -> Option<usize> {
        // Fast path: most lines of a document have neither brackets nor backslashes, so the quotes of many bytes are counted at once,
        // without a branch for each byte.
        let (quotes, others) = line.iter().fold((0_u8, false), |(quotes, others), byte| {
            // True for `{`, `}`, `[`, `]`, `\`, and for the rare `|`.
            let other = (byte | 0x20).wrapping_sub(b'{') < 3;
            (quotes ^ u8::from(*byte == b'"'), others | other)
        });
        if !others && !self.escaped {
            self.in_string ^= quotes == 1;
            return None;
        }
        let mut at = 0;
        while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
            if self.in_string {
                if std::mem::take(&mut self.escaped) {
                    at += 1;
                    continue;
                }
                let found = memchr2(b'"', b'\\', rest)?;
                self.in_string = rest[found] != b'"';
                self.escaped = self.in_string;
                at += found + 1;
                continue;
            }
            let found = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
            at += found + 1;
            match rest[found] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                _ => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at);
                    }
                }
            }
        }
        None
    }
}

/// Whether the first byte after blanks is one of `starts`.
fn starts_with(line: &str, starts: &[u8]) -> bool {
    let first = line.bytes().find(|byte| !matches!(byte, b'\t'..=b'\r' | b' '));
    match first {
        // The first character may be a non-ASCII blank.
        Some(0x80..) => line.trim_start().bytes().next().is_some_and(|first| starts.contains(&first)),
        Some(first) => starts.contains(&first),
        None => false,
    }
}

#[derive(Default)]
pub(crate) struct JsonDocuments {
    gather: Gather,
    /// Memory of a small document, reused for the next document.
    nodes: Vec<JsonNode>,
    ended: Option<LogEnd>,
}

impl JsonDocuments {
    /// Adds a line of a document, and reads a closed document; returns `false` for other lines. The line is borrowed: copying it right
    /// after its parts were written would wait for each of the writes.
    pub(crate) fn line(
        &mut self,
        line: &Line<'_>,
        starts: &[u8],
        out: &mut ReadingBuilder,
        read: impl FnOnce(JsonValue<'_>, &mut ReadingBuilder) -> LogEnd,
    ) -> bool {
        if !self.gather.is_open() && !starts_with(line.text, starts) {
            return false;
        }
        // If all lines of the document are in memory, parse it in place without a copy.
        let ahead = if line.ahead.is_empty() { line.text } else { line.ahead };
        if !self.gather.is_open()
            && out.documents + ahead.len() < LONGEST
            && let Some((document, length)) =
                Document::at_start(ahead, line.text.len(), line.number, std::mem::take(&mut self.nodes))
        {
            if length > line.text.len() {
                let rest = &ahead.as_bytes()[length..];
                out.taken = memchr2(b'\n', b'\r', rest).map_or(ahead.len(), |end| length + end + 1);
            }
            let ended = read(document.root(), out);
            self.ended = worst(self.ended, ended);
            if document.nodes.capacity() <= TYPICAL {
                self.nodes = document.nodes;
                self.nodes.clear();
            }
            return true;
        }
        let ended = match self.gather.line(line.text, line.number, starts, &mut out.documents) {
            Gathered::Other => return false,
            Gathered::Open => return true,
            Gathered::Closed(text, first) => match Document::parse(&text, first) {
                Ok(document) => read(document.root(), out),
                // Text in brackets, such as a time, is not a document.
                Err(_) if first == line.number => return false,
                Err(error) => {
                    out.error(&error);
                    LogEnd::Truncated
                }
            },
            Gathered::Exceeded => {
                out.error(&format!("line {}: the JSON document exceeds {} MiB", line.number, LONGEST >> 20));
                LogEnd::Truncated
            }
        };
        self.ended = worst(self.ended, ended);
        true
    }

    /// Ends the log; `other` is the end of its lines outside JSON documents.
    pub(crate) fn finish(&self, other: LogEnd) -> LogEnd {
        let open = if self.gather.is_open() { LogEnd::Truncated } else { LogEnd::Empty };
        worst(worst(self.ended, open), other).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_between_lines() {
        let mut gather = Gather::default();
        let (mut found, mut used) = (Vec::new(), 0);
        for (number, line) in ["note", "{\"a\":", "\"}\"", "} tail", "{}", "[", "x"].iter().enumerate() {
            if let Gathered::Closed(text, line) = gather.line(line, number as u64 + 1, b"{[", &mut used) {
                found.push((text, line));
            }
        }
        assert_eq!(found, [("{\"a\":\n\"}\"\n}\n".to_owned(), 2), ("{}\n".to_owned(), 5)]);
        assert!(gather.is_open());
    }
}
