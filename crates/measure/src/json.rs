//! JSON documents with the position of each value and the printed text of each number.
//!
//! The parser accepts keys and values without quotes, and a comma after the last member of an object, because versions of perftest
//! print them. Memory is bounded by
//! [`LONGEST`] and [`NODES`], depth by [`DEPTH`].

mod documents;

use std::borrow::Cow;

use memchr::{memchr_iter, memchr2};

use crate::{
    number::{PrintedNumber, number},
    text::{SearchPhrase, find_near},
};

pub(crate) use documents::JsonDocuments;

/// Maximum size of a document, bytes.
pub(crate) const LONGEST: usize = 6 << 20;
/// Maximum number of values and keys in a document.
const NODES: usize = 300_000;
/// Maximum nesting.
const DEPTH: usize = 64;
/// Number of values and keys of a typical document.
const TYPICAL: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonKind {
    Object,
    Array,
    Text,
    /// A text with a backslash.
    Escaped,
    /// A number, `true`, `null` or any other word.
    Word,
}

#[derive(Clone, Copy, Debug)]
struct JsonNode {
    start: u32,
    /// End of the text. For a closed object or array: index of the first node after it; for an open one: index of the enclosing
    /// object or array.
    end: u32,
    /// Number of line feeds before the node.
    line: u32,
    kind: JsonKind,
}

impl JsonNode {
    fn is_container(&self) -> bool {
        matches!(self.kind, JsonKind::Object | JsonKind::Array)
    }
}

pub(crate) struct Document<'a> {
    text: &'a str,
    nodes: Vec<JsonNode>,
    /// Line number in the log at which the document starts.
    first: u64,
    /// Number of line feeds already read.
    breaks: usize,
    /// Whether the document has an empty line, a line that ends with a control character, or a string with a line feed.
    irregular: bool,
    /// Position and kind of the error. Stored here, because a `Result` with both would be returned through memory for each value.
    error: Option<(usize, &'static str)>,
}

impl<'a> Document<'a> {
    /// Parses a document that starts in the line `line` of the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not one JSON value, or exceeds a maximum.
    pub(crate) fn parse(text: &'a str, line: u64) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the JSON document exceeds {} MiB", LONGEST >> 20));
        }
        let line_of =
            |at: usize| line + memchr_iter(b'\n', &text.as_bytes()[..at.min(text.len())]).count() as u64;
        let mut document = Self::new(text, line, Vec::new());
        let Some(end) = document.all() else {
            let (at, what) = document.error.unwrap_or_default();
            return Err(format!("line {}: {what}", line_of(at)));
        };
        match text.as_bytes()[end..].iter().position(|byte| !byte.is_ascii_whitespace()) {
            None => Ok(document),
            Some(after) => Err(format!("line {}: text follows the JSON document", line_of(end + after))),
        }
    }

    /// Parses the document at the start of a log's lines; returns it with its length. Returns `None` if the lines do not start with a
    /// document, or if [`JsonDocuments`] could find a different document, because of a line feed within a string, an empty line, or a line
    /// from which the reader removes a part. The first line has `first` bytes.
    fn at_start(text: &'a str, first: usize, line: u64, nodes: Vec<JsonNode>) -> Option<(Self, usize)> {
        static LOG_DRIVER: SearchPhrase = SearchPhrase::new("\n{\"log\":\"");
        let mut document = Self::new(text, line, nodes);
        let end = document.all()?;
        if end <= first {
            return (!document.irregular).then_some((document, end));
        }
        let text = &text[..end];
        let changed = memchr2(b'\r', 0xef, text.as_bytes()).is_some()
            || document.breaks > 0 && LOG_DRIVER.find(text).is_some();
        (!document.irregular && !changed).then_some((document, end))
    }

    fn new(text: &'a str, first: u64, mut nodes: Vec<JsonNode>) -> Self {
        nodes.reserve(TYPICAL);
        Self { text, nodes, first, breaks: 0, irregular: false, error: None }
    }

    pub(crate) fn root(&self) -> JsonValue<'_> {
        JsonValue { document: self, at: 0 }
    }

    /// Whether the text of a node equals `text`.
    #[inline]
    fn is_text(&self, node: &JsonNode, text: &str) -> bool {
        let (start, end) = (node.start as usize, node.end as usize);
        match node.kind {
            // Compare the lengths first, because most texts have another length.
            JsonKind::Text => {
                end - start == text.len() + 2 && &self.text.as_bytes()[start + 1..end - 1] == text.as_bytes()
            }
            _ => self.is_unusual_text(node, text),
        }
    }

    /// Slow path of [`Self::is_text`]: all nodes except texts without a backslash.
    #[cold]
    fn is_unusual_text(&self, node: &JsonNode, text: &str) -> bool {
        let printed = |start, end| &self.text[start as usize..end as usize];
        match node.kind {
            JsonKind::Object | JsonKind::Array => false,
            JsonKind::Word => printed(node.start, node.end) == text,
            JsonKind::Text | JsonKind::Escaped => {
                let printed = printed(node.start + 1, node.end - 1);
                printed == text || unescaped(printed) == text
            }
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Records an error at a position.
    #[cold]
    fn fail<T>(&mut self, at: usize, what: &'static str) -> Option<T> {
        self.error = Some((at, what));
        None
    }

    #[inline]
    fn push(&mut self, start: usize, end: usize, kind: JsonKind) -> Option<usize> {
        if self.nodes.len() == NODES {
            return self.fail(start, "the JSON document has more than 300000 values and keys");
        }
        // The text is shorter than 4 GiB.
        let line = self.breaks as u32;
        self.nodes.push(JsonNode { start: start as u32, end: end as u32, line, kind });
        Some(self.nodes.len() - 1)
    }

    /// Parses one value without recursion; returns the position after it, or `None` after an error.
    fn all(&mut self) -> Option<usize> {
        // Depth, index and kind of the innermost open object or array.
        let (mut depth, mut open, mut open_kind) = (0, 0, JsonKind::Word);
        let mut at = 0;
        loop {
            // Skips a value, or enters an object or array.
            at = self.blanks(at);
            if open_kind == JsonKind::Object {
                at = if self.byte(at) == Some(b'"') { self.string(at)? } else { self.word(at)? };
                at = self.blanks(at);
                if self.byte(at) != Some(b':') {
                    return self.fail(at, "a colon is missing");
                }
                at = self.blanks(at + 1);
            }
            match self.byte(at) {
                Some(bracket @ (b'{' | b'[')) => {
                    if depth == DEPTH {
                        return self.fail(at, "the JSON document is nested more than 64 levels deep");
                    }
                    open_kind = if bracket == b'{' { JsonKind::Object } else { JsonKind::Array };
                    open = self.push(at, open, open_kind)?;
                    depth += 1;
                    at = self.blanks(at + 1);
                    if !matches!(self.byte(at), Some(b'}' | b']')) {
                        continue;
                    }
                }
                Some(b'"') => at = self.string(at)?,
                Some(_) => at = self.word(at)?,
                None => return self.fail(at, "the JSON document is truncated"),
            }
            // Closing brackets may follow, then a comma or the end.
            loop {
                if depth == 0 {
                    return Some(at);
                }
                at = self.blanks(at);
                match (self.byte(at), open_kind) {
                    (Some(b','), JsonKind::Object) => {
                        at = self.blanks(at + 1);
                        if self.byte(at) == Some(b'}') {
                            continue;
                        }
                    }
                    (Some(b','), _) => at += 1,
                    (Some(b'}'), JsonKind::Object) | (Some(b']'), JsonKind::Array) => {
                        at += 1;
                        let outer = self.nodes[open].end as usize;
                        self.nodes[open].end = self.nodes.len() as u32;
                        (open, depth) = (outer, depth - 1);
                        open_kind = if depth == 0 { JsonKind::Word } else { self.nodes[open].kind };
                        continue;
                    }
                    (Some(_), _) => return self.fail(at, "a comma or bracket is missing"),
                    (None, _) => return self.fail(at, "the JSON document is truncated"),
                }
                break;
            }
        }
    }

    /// Adds a word without quotes; returns its end.
    #[inline]
    fn word(&mut self, at: usize) -> Option<usize> {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let end = at + word_length(rest);
        if end == at {
            let cut = rest.is_empty();
            return self
                .fail(at, if cut { "the JSON document is truncated" } else { "a value or key is missing" });
        }
        self.irregular |= rest[end - at - 1] < b' ';
        self.push(at, end, JsonKind::Word)?;
        Some(end)
    }

    #[inline]
    fn blanks(&mut self, at: usize) -> usize {
        match self.text.as_bytes().get(at..) {
            Some([b'!'..=0xff, ..]) => at,
            Some([b' ', b'!'..=0xff, ..]) => at + 1,
            _ => self.after_blanks(at),
        }
    }

    fn after_blanks(&mut self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let (mut length, mut breaks) = (0, 0);
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = rest.get(length) {
            breaks += usize::from(rest[length] == b'\n');
            length += 1;
        }
        self.breaks += breaks;
        self.irregular |= breaks > 1;
        at + length
    }

    /// Adds the string whose opening quote is at `start`; returns the end of the string.
    #[inline]
    fn string(&mut self, start: usize) -> Option<usize> {
        let inside = self.text.as_bytes().get(start + 1..).unwrap_or_default();
        match find_near([b'"', b'\\', b'\n'], inside) {
            Some(length) if inside[length] == b'"' => {
                let end = start + length + 2;
                self.push(start, end, JsonKind::Text)?;
                Some(end)
            }
            _ => self.unusual_string(start),
        }
    }

    /// Slow path for strings with a backslash or a line feed, and for unterminated strings.
    #[inline(never)]
    fn unusual_string(&mut self, start: usize) -> Option<usize> {
        let (mut at, mut kind, mut breaks) = (start + 1, JsonKind::Text, 0);
        // Errors are reported at the position after the last backslash.
        let mut from = at;
        loop {
            let rest = self.text.as_bytes().get(at..).unwrap_or_default();
            let Some(more) = find_near([b'"', b'\\', b'\n'], rest) else {
                return self.fail(from, "the JSON document is truncated");
            };
            at += more + 1;
            match rest[more] {
                b'"' => break,
                b'\n' => breaks += 1,
                _ => {
                    kind = JsonKind::Escaped;
                    breaks += usize::from(self.byte(at) == Some(b'\n'));
                    at += 1;
                    from = at;
                }
            }
        }
        self.push(start, at, kind)?;
        self.breaks += breaks;
        self.irregular |= breaks > 0;
        Some(at)
    }
}

/// Length of the word without quotes at the start of a text.
#[inline]
fn word_length(text: &[u8]) -> usize {
    const EACH: u64 = u64::MAX / 255;
    // Most words are numbers, some of 17 digits. Bytes from `-` to `9` never end a word, and eight of them are recognized at once.
    let mut length = 0;
    while let Some((word, _)) = text[length..].split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let above = word.wrapping_add(EACH * u64::from(0x7f - b'9'));
        let below = word.wrapping_sub(EACH * u64::from(b'-'));
        // The lowest set bit belongs to the first byte outside `-` to `9`.
        let others = (word | above | below) & (EACH << 7);
        length += others.trailing_zeros() as usize / 8;
        if others != 0 {
            break;
        }
    }
    let rest = &text[length..];
    length + rest.iter().position(|byte| ENDS_WORD[usize::from(*byte)]).unwrap_or(rest.len())
}

/// Bytes after a word without quotes.
const ENDS_WORD: [bool; 256] = {
    let (mut ends, bytes, mut at) = ([false; 256], b",]}\n\r \t\"{[:", 0);
    while at < bytes.len() {
        ends[bytes[at] as usize] = true;
        at += 1;
    }
    ends
};

#[derive(Clone, Copy)]
pub(crate) struct JsonValue<'d> {
    document: &'d Document<'d>,
    at: usize,
}

impl<'d> JsonValue<'d> {
    #[inline]
    fn node(self) -> JsonNode {
        self.document.nodes[self.at]
    }

    /// Index of the first node after this value.
    #[inline]
    fn after(self) -> usize {
        let node = self.node();
        if node.is_container() { node.end as usize } else { self.at + 1 }
    }

    /// Line of the log in which the value starts.
    pub(crate) fn line(self) -> u64 {
        self.document.first + u64::from(self.node().line)
    }

    /// The printed text: a string's content, or a word such as a number.
    #[inline]
    pub(crate) fn text(self) -> Option<Cow<'d, str>> {
        let node = self.node();
        if node.is_container() {
            return None;
        }
        let quote = usize::from(node.kind != JsonKind::Word);
        let text = &self.document.text[node.start as usize + quote..node.end as usize - quote];
        Some(if node.kind == JsonKind::Escaped { Cow::Owned(unescaped(text)) } else { Cow::Borrowed(text) })
    }

    /// The number, printed with or without quotes.
    pub(crate) fn number(self) -> Option<PrintedNumber> {
        self.text().and_then(|text| number(&text))
    }

    /// The number, if it is a non-negative integer.
    pub(crate) fn count<T: std::str::FromStr>(self) -> Option<T> {
        self.text().and_then(|text| crate::number::count(&text))
    }

    /// Values of an array; empty for other values.
    pub(crate) fn items(self) -> impl Iterator<Item = JsonValue<'d>> {
        let node = self.node();
        let end = if node.kind == JsonKind::Array { node.end as usize } else { 0 };
        let document = self.document;
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let item = (at < end).then_some(JsonValue { document, at })?;
            at = item.after();
            Some(item)
        })
    }

    /// Keys and values of an object; empty for other values.
    pub(crate) fn members(self) -> impl Iterator<Item = (Cow<'d, str>, JsonValue<'d>)> {
        let node = self.node();
        let end = if node.kind == JsonKind::Object { node.end as usize } else { 0 };
        let document = self.document;
        let mut at = self.at + 1;
        std::iter::from_fn(move || {
            let key = (at < end).then_some(JsonValue { document, at })?;
            let value = JsonValue { document, at: at + 1 };
            at = value.after();
            Some((key.text().unwrap_or_default(), value))
        })
    }

    /// The last member of this name.
    pub(crate) fn get(self, name: &str) -> Option<JsonValue<'d>> {
        let [found] = self.get_each([name]);
        found
    }

    /// The last member of each name: one pass over the members for all names.
    #[inline]
    pub(crate) fn get_each<const COUNT: usize>(self, names: [&str; COUNT]) -> [Option<JsonValue<'d>>; COUNT] {
        let (document, mut found) = (self.document, [None; COUNT]);
        let JsonNode { end, kind: JsonKind::Object, .. } = self.node() else { return found };
        let nodes = &document.nodes[..end as usize];
        let mut at = self.at + 1;
        while let Some([key, value, ..]) = nodes.get(at..) {
            for (name, found) in names.iter().zip(&mut found) {
                if document.is_text(key, name) {
                    *found = Some(JsonValue { document, at: at + 1 });
                }
            }
            at = if value.is_container() { value.end as usize } else { at + 2 };
        }
        found
    }

    #[inline]
    pub(crate) fn get_text(self, name: &str) -> Option<Cow<'d, str>> {
        self.get(name)?.text()
    }

    pub(crate) fn get_items(self, name: &str) -> impl Iterator<Item = JsonValue<'d>> {
        self.get(name).into_iter().flat_map(JsonValue::items)
    }
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                plain.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_record_their_line_and_printed_resolution() {
        let text = "{\n \"a\": [1.50, \"x\\\"y\",\n  {\"b\": null}],\n sl: bare\n}\n";
        let document = Document::parse(text, 7).unwrap();
        let root = document.root();
        let items: Vec<_> = root.get_items("a").collect();
        assert_eq!(items[0].number().unwrap().resolution, Some(0.01));
        assert_eq!(items[1].text().unwrap(), "x\"y");
        assert_eq!((items[0].line(), items[2].line()), (8, 9));
        assert_eq!(items[2].get_text("b").unwrap(), "null");
        assert_eq!(root.get_text("sl").unwrap(), "bare");
        assert!(root.get("c").is_none());
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, error) in [
            ("{\n \"a\": 1\n}\n\n x\n", "line 11: text follows the JSON document"),
            ("{\n \"a\": 1\n} {", "line 9: text follows the JSON document"),
        ] {
            assert_eq!(Document::parse(text, 7).map(drop), Err(error.to_owned()));
        }
    }

    #[test]
    fn a_word_ends_at_its_first_delimiter() {
        for length in 0..30 {
            for end in 0..=u8::MAX {
                let mut text = vec![b'7'; length];
                text.push(end);
                text.extend(b"5,12345678");
                let expected = text.iter().position(|byte| ENDS_WORD[usize::from(*byte)]).unwrap();
                assert_eq!(word_length(&text), expected, "{length} {end}");
            }
        }
        assert_eq!([word_length(b""), word_length(b"12"), word_length(b"12345678")], [0, 2, 8]);
    }

    #[test]
    fn a_cut_document_is_an_error() {
        let text = r#"{"a": [1, {"b": "x"}], "c": {}, "d": []}"#;
        assert!(Document::parse(text, 1).is_ok());
        for length in 0..text.len() {
            assert!(Document::parse(&text[..length], 1).is_err(), "the document is cut at byte {length}");
        }
        assert!(Document::parse("{\"a\": {b: x,\n},\n}\n", 1).is_ok());
        for text in [
            "{}}",
            "{\"a\":1,,}",
            "[1,]",
            "{\"a\":1,]",
            "[1 2]",
            "{\"a\" 1}",
            "[}",
            "{]",
            "{\"a\":}",
            "[,]",
            "{,}",
        ] {
            assert!(Document::parse(text, 1).is_err(), "{text}");
        }
        assert!(Document::parse(&"[".repeat(100_000), 1).is_err());
        assert!(Document::parse(&format!("[{}1]", "1,".repeat(400_000)), 1).is_err());
    }
}
