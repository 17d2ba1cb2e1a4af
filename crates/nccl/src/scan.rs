//! Words of a line with their positions: in right-aligned columns the position of a word identifies its column.

/// Reads the words of one line from left to right.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) line: &'a [u8],
    /// Position of the next word.
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

    /// Width of the column if the word is right-aligned: padding and word.
    pub(crate) fn pitch(&self) -> usize {
        self.blanks + self.text.len()
    }
}

/// Whether the byte is a blank of any kind. A NUL is a hole in a log file; a carriage return inside a line comes from a terminal.
#[inline]
pub(crate) fn is_blank(byte: u8) -> bool {
    byte <= b' '
}

/// Number of leading blanks of a text; with `BLANKS` false, number of leading bytes that are not blanks.
///
/// Rows are mostly blanks, so eight bytes are compared at once.
#[inline]
pub(crate) fn span<const BLANKS: bool>(text: &[u8]) -> usize {
    const HIGH: u64 = 0x80 * ONES;
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (eights, rest) = text.as_chunks::<8>();
    for (at, eight) in eights.iter().enumerate() {
        let eight = u64::from_le_bytes(*eight);
        // Sets the high bit of each non-blank byte: for bytes from 0x21 on, the addition carries into the high
        // bit of the same byte, never into another byte.
        let solid = (((eight & !HIGH) + (0x7f - u64::from(b' ')) * ONES) | eight) & HIGH;
        let ends = if BLANKS { solid } else { solid ^ HIGH };
        if ends != 0 {
            return at * 8 + ends.trailing_zeros() as usize / 8;
        }
    }
    let tail = rest.iter().position(|&byte| is_blank(byte) != BLANKS).unwrap_or(rest.len());
    text.len() - rest.len() + tail
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a [u8], at: usize) -> Words<'a> {
        Words { line, at }
    }

    /// The unread text.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<Word<'a>> {
        let rest = self.rest();
        let blanks = span::<true>(rest);
        let word = &rest[blanks..];
        let length = span::<false>(word);
        (length > 0).then_some(Word { text: &word[..length], start: self.at + blanks, blanks })
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

/// At most `limit` bytes of text, for display.
pub(crate) fn text(bytes: &[u8], limit: usize) -> String {
    let cut = bytes[..bytes.len().min(limit)].trim_ascii();
    String::from_utf8_lossy(cut).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_at_the_first_other_byte() {
        for blank in [b' ', b'\t', 0, b'\r', 0x1f] {
            for solid in [b'!', b'0', b'~', 0x7f, 0x80, 0xa0, 0xff] {
                for length in 0..40 {
                    let blanks = [vec![blank; length], vec![solid; 3]].concat();
                    assert_eq!(span::<true>(&blanks), length, "{blank} {solid}");
                    let solids = [vec![solid; length], vec![blank; 3]].concat();
                    assert_eq!(span::<false>(&solids), length, "{blank} {solid}");
                    assert_eq!(span::<true>(&blanks[..length]), length);
                    assert_eq!(span::<false>(&solids[..length]), length);
                }
            }
        }
    }
}
