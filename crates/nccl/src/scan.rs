//! Words of a line, with their places: right-aligned columns tell as much by their place as by their text.

/// Reads the words of one line from left to right.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) line: &'a [u8],
    /// Where the next word is looked for.
    pub(crate) at: usize,
}

/// One word and the blanks before it.
#[derive(Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) start: usize,
    /// Blanks between the previous word and this one.
    pub(crate) blanks: usize,
}

impl Word<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Width of the column when the word fills it to the right: the padding and the word.
    pub(crate) fn pitch(&self) -> usize {
        self.blanks + self.text.len()
    }
}

/// Blanks of all kinds. A NUL is what a hole in a log file reads as; a carriage return inside a line is a terminal's.
#[inline]
pub(crate) fn is_blank(byte: u8) -> bool {
    byte <= b' '
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a [u8], at: usize) -> Words<'a> {
        Words { line, at }
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<Word<'a>> {
        let rest = self.rest();
        let blanks = rest.iter().position(|&byte| !is_blank(byte))?;
        let word = &rest[blanks..];
        let length = word.iter().position(|&byte| is_blank(byte)).unwrap_or(word.len());
        Some(Word { text: &word[..length], start: self.at + blanks, blanks })
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    #[inline]
    fn next(&mut self) -> Option<Word<'a>> {
        let word = self.peek()?;
        self.at = word.end();
        Some(word)
    }
}

/// At most `limit` bytes of text, for people.
pub(crate) fn text(bytes: &[u8], limit: usize) -> String {
    let cut = bytes[..bytes.len().min(limit)].trim_ascii();
    String::from_utf8_lossy(cut).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}
