//! Searches in lines.

use std::{borrow::Cow, sync::OnceLock};

use memchr::{memchr, memchr2, memchr3, memmem::Finder};

/// A word whose eight bytes are each 1.
const EACH: u64 = u64::MAX / 255;

/// The bytes as text; invalid ones are replaced. Checking valid text first is several times faster.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Whether two texts are equal. `==` calls a function, which takes longer than comparing a short text.
#[inline]
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // The last bytes are compared together, even if some of them were compared before.
    if let (Some(first), Some(last)) = (one.first_chunk::<8>(), one.last_chunk::<8>()) {
        let ends = other.starts_with(first) && other.ends_with(last);
        ends && (one.len() <= 16 || one == other)
    } else if let (Some(first), Some(last)) = (one.first_chunk::<4>(), one.last_chunk::<4>()) {
        other.starts_with(first) && other.ends_with(last)
    } else {
        one.iter().eq(other)
    }
}

/// The text without blanks at its ends, like `str::trim`, which decodes each character.
#[inline]
pub(crate) fn trim(text: &str) -> &str {
    let bytes = text.as_bytes();
    if let [b'!'..=b'~', .., b'!'..=b'~'] | [b'!'..=b'~'] = bytes {
        return text;
    }
    trim_blanks(text)
}

/// Slow path of [`trim`], for a text that may have blanks at its ends.
#[inline(never)]
fn trim_blanks(text: &str) -> &str {
    let bytes = text.as_bytes();
    let is_text = |byte: &u8| !matches!(byte, b'\t'..=b'\r' | b' ');
    let start = bytes.iter().position(is_text).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(is_text).map_or(start, |last| last + 1);
    let inner = &text[start..end];
    // Only a text with a non-ASCII character at one end can still have whitespace there.
    if inner.bytes().next().is_none_or(|byte| byte.is_ascii())
        && inner.bytes().last().is_none_or(|byte| byte.is_ascii())
    {
        inner
    } else {
        inner.trim()
    }
}

/// The words of a text, like `str::split_whitespace` for ASCII whitespace: consecutive blanks separate only once.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    let is_blank = |byte: u8| matches!(byte, b'\t'..=b'\r' | b' ');
    let mut rest = text;
    std::iter::from_fn(move || {
        let spaces = leading_spaces(rest.as_bytes());
        let start = spaces + rest.as_bytes()[spaces..].iter().position(|byte| !is_blank(*byte))?;
        let word = &rest[start..];
        let end = leading_visible(word.as_bytes());
        let end =
            end + word.as_bytes()[end..].iter().position(|byte| is_blank(*byte)).unwrap_or(word.len() - end);
        rest = &word[end..];
        Some(&word[..end])
    })
}

/// Number of spaces at the start of a text; at most seven bytes at its end are not examined. Columns of a table are many spaces
/// apart.
#[inline]
pub(crate) fn leading_spaces(text: &[u8]) -> usize {
    leading(text, |word| word ^ (EACH * u64::from(b' ')))
}

/// Number of bytes at the start of a text before the first space or control character; at most seven bytes at its end are not
/// examined.
#[inline]
fn leading_visible(text: &[u8]) -> usize {
    leading(text, |word| word.wrapping_sub(EACH * u64::from(b'!')) & !word & (EACH << 7))
}

/// Number of bytes at the start of a text before the first byte that `others` marks; at most seven bytes at its end are not
/// examined. Eight bytes are examined at once: the lowest set bit of `others` belongs to the first marked byte.
#[inline]
fn leading(text: &[u8], others: impl Fn(u64) -> u64) -> usize {
    let mut length = 0;
    while let Some((word, _)) = text[length..].split_first_chunk() {
        let others = others(u64::from_le_bytes(*word));
        length += others.trailing_zeros() as usize / 8;
        if others != 0 {
            break;
        }
    }
    length
}

/// Position of the first of one to three bytes, which is expected near the beginning: starting a search takes longer than examining
/// a few words.
#[inline]
pub(crate) fn find_near<const COUNT: usize>(bytes: [u8; COUNT], text: &[u8]) -> Option<usize> {
    const NEAR: usize = 4;
    let found = |word: &[u8; 8]| {
        bytes.iter().fold(0, |found, byte| {
            let word = u64::from_le_bytes(*word) ^ (EACH * u64::from(*byte));
            found | word.wrapping_sub(EACH) & !word & (EACH << 7)
        })
    };
    // The lowest bit that is set belongs to the first such byte.
    let first = |found: u64| found.trailing_zeros() as usize / 8;
    let (words, rest) = text.as_chunks::<8>();
    for (at, word) in words.iter().take(NEAR).enumerate() {
        let found = found(word);
        if found != 0 {
            return Some(at * 8 + first(found));
        }
    }
    if (1..=NEAR).contains(&words.len())
        && let Some(last) = text.last_chunk()
    {
        // Fewer than eight bytes remain: examine the last eight bytes of the text, the first of which are known not to match.
        let found = if rest.is_empty() { 0 } else { found(last) };
        return (found != 0).then(|| text.len() - 8 + first(found));
    }
    let examined = words.len().min(NEAR) * 8;
    find_far(bytes, &text[examined..]).map(|at| examined + at)
}

/// Position of the first byte that equals any of one to three bytes. Not inlined: callers contain only the search near the beginning.
#[inline(never)]
fn find_far<const COUNT: usize>(bytes: [u8; COUNT], text: &[u8]) -> Option<usize> {
    match bytes[..] {
        _ if text.len() < 8 => text.iter().position(|byte| bytes.contains(byte)),
        [one] => memchr(one, text),
        [one, two] => memchr2(one, two, text),
        [one, two, three] => memchr3(one, two, three, text),
        _ => text.iter().position(|byte| bytes.contains(byte)),
    }
}

/// A phrase to find in many lines. The search is prepared once, because `str::split_once` prepares it for each line,
/// which takes longer than searching the line.
pub(crate) struct SearchPhrase {
    text: &'static str,
    finder: OnceLock<Finder<'static>>,
}

impl SearchPhrase {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, finder: OnceLock::new() }
    }

    /// Position of the first occurrence.
    pub(crate) fn find(&self, text: &str) -> Option<usize> {
        self.finder.get_or_init(|| Finder::new(self.text)).find(text.as_bytes())
    }

    /// The text before and after the first occurrence.
    pub(crate) fn split_once<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let at = self.find(text)?;
        Some((&text[..at], &text[at + self.text.len()..]))
    }

    /// The texts between the occurrences.
    pub(crate) fn split<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = Some(text);
        std::iter::from_fn(move || {
            let (part, after) = match self.split_once(rest?) {
                Some((part, after)) => (part, Some(after)),
                None => (rest?, None),
            };
            rest = after;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trim_equals_str_trim() {
        for text in ["", " ", "a", " a b\t", "\u{3000} a \u{a0}", "\u{e9} ", "\u{b}\u{1c}x\u{1c}\r"] {
            assert_eq!(trim(text), text.trim(), "{text:?}");
        }
    }

    #[test]
    fn same_texts_have_the_same_length_and_bytes() {
        for length in 0..40 {
            let text = vec![b'a'; length];
            assert!(same(&text, &text.clone()), "{length}");
            assert!(
                !same(&text, &vec![b'a'; length + 1]) && !same(&vec![b'a'; length + 1], &text),
                "{length}"
            );
            for at in 0..length {
                let mut other = text.clone();
                other[at] = b'b';
                assert!(!same(&text, &other), "{length} {at}");
            }
        }
    }

    #[test]
    fn words_are_separated_by_any_number_of_blanks() {
        for text in ["", " ", "a", " a  b\t\u{b}c ", "\u{e9} \u{e9}"] {
            assert!(words(text).eq(text.split_whitespace()), "{text:?}");
        }
    }

    #[test]
    fn find_near_finds_the_first_match_at_any_position() {
        for length in 0..80 {
            for at in 0..=length {
                let mut text = "ab\u{8a}\u{b}".repeat(20).into_bytes();
                text.truncate(length);
                if at < length {
                    text[at] = b'\n';
                }
                let found = text.iter().position(|byte| matches!(byte, b'\n' | b'"'));
                assert_eq!(find_near([b'\n'], &text), found, "{length} {at}");
                assert_eq!(find_near([b'"', b'\n'], &text), found, "{length} {at}");
                assert_eq!(find_near([b'"', b'\r', b'\n'], &text), found, "{length} {at}");
            }
        }
    }

    #[test]
    fn a_phrase_splits_text_like_str_split() {
        static DASH: SearchPhrase = SearchPhrase::new(" - ");
        for text in ["", " - ", "a", "a - b", " - a - - b - "] {
            assert!(DASH.split(text).eq(text.split(" - ")), "{text}");
            assert_eq!(DASH.split_once(text), text.split_once(" - "), "{text}");
        }
    }
}
