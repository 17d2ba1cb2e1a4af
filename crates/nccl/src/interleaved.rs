//! Rows are printed in pieces without a newline, so concurrent output of the same process may be joined to
//! the last word of a piece: a root appears as `-138dcf168f605:1505:1505`, a count as `0vm:2199:2199`.
//!
//! A host name may begin with digits. Then only the column width, or a host known from the Rank lines,
//! determines the end of the number; without either, the number is rejected.

use crate::scan::Word;
use memchr::memchr;
use std::collections::BTreeSet;

/// Names of reductions.
pub(crate) const OPERATIONS: [&str; 7] = ["sum", "none", "prod", "max", "min", "avg", "mulsum"];

/// Names of element types, the common ones first. A name precedes its own prefixes, because the first match is used.
pub(crate) const TYPES: [&str; 20] = [
    "float8_e4m3",
    "float8_e5m2",
    "float",
    "bfloat16",
    "half",
    "double",
    "int8",
    "int32",
    "int64",
    "int",
    "uint8",
    "uint32",
    "uint64",
    "char",
    "f8e4m3",
    "f8e5m2",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp32",
    "bf16",
];

/// Maximum number of digits of a count.
const DIGITS: usize = 20;
/// Width of the root column with its two blanks, in all versions.
const ROOT_PITCH: usize = 8;

/// End of the root in a word to which other output is joined.
pub(crate) fn root(word: &Word<'_>, hosts: &BTreeSet<Vec<u8>>) -> Option<usize> {
    // -1 is the only negative root, so the following text belongs to other output.
    if word.text.starts_with(b"-1") {
        return Some(2);
    }
    count(word, Some(ROOT_PITCH), hosts)
}

/// Length of the count at the start of a word, if other output follows it without a blank.
pub(crate) fn count(word: &Word<'_>, pitch: Option<usize>, hosts: &BTreeSet<Vec<u8>>) -> Option<usize> {
    let digits = word.text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &word.text[digits..];
    if digits == 0 || rest.is_empty() {
        return None;
    }
    // With padding, the width of the column determines the end of the number. The first
    // blanks of a line may also come from the launcher.
    if let Some(length) = pitch.and_then(|pitch| pitch.checked_sub(word.blanks))
        && word.blanks > 2
    {
        return (1..=digits).contains(&length).then_some(length);
    }
    let name = memchr(b':', word.text).map_or(&[][..], |colon| &word.text[..colon]);
    let mut lengths = (1..=digits.min(DIGITS))
        .filter(|&length| name.get(length..).is_some_and(|host| !host.is_empty() && hosts.contains(host)));
    if let Some(length) = lengths.next() {
        // Two known hosts match because one name is a suffix of the other: the number is ambiguous.
        return lengths.next().is_none().then_some(length);
    }
    let decimal = matches!(rest[0], b'.' | b',' | b'e' | b'E' | b'-' | b'+' | b'%');
    (digits == 1 && !decimal).then_some(1)
}

/// End of a relative error such as `5e-07`, which has one digit and a two-digit exponent.
pub(crate) fn error(text: &[u8]) -> Option<usize> {
    let shape =
        text.len() > 5 && text[0].is_ascii_digit() && text[1] == b'e' && matches!(text[2], b'+' | b'-');
    (shape && text[3..5].iter().all(u8::is_ascii_digit)).then_some(5)
}

/// End of a percentage such as `0.63`, which has two decimals.
pub(crate) fn percentage(text: &[u8]) -> Option<usize> {
    let point =
        memchr(b'.', text).filter(|&point| point > 0 && text[..point].iter().all(u8::is_ascii_digit))?;
    let decimals = text.get(point + 1..point + 3)?;
    (decimals.iter().all(u8::is_ascii_digit) && text.len() > point + 3).then_some(point + 3)
}

/// The first of the names that is a prefix of the text.
pub(crate) fn name(text: &[u8], names: &[&'static str]) -> Option<&'static str> {
    names.iter().copied().find(|name| text.starts_with(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Words;

    fn word(line: &str) -> Word<'_> {
        Words::new(line.as_bytes(), 0).next().unwrap()
    }

    #[test]
    fn a_root_ends_at_the_end_of_its_column() {
        let none = BTreeSet::new();
        assert_eq!(root(&word("      -138dcf168f605:1505"), &none), Some(2));
        assert_eq!(root(&word("       038dcf168f605:1505"), &none), Some(1));
        assert_eq!(root(&word("      1238dcf168f605:1505"), &none), Some(2));
        assert_eq!(root(&word(" 1238dcf168f605:1505"), &none), None);
        assert_eq!(root(&word(" 1238dcf168f605:1505"), &[b"38dcf168f605".to_vec()].into()), Some(2));
    }

    #[test]
    fn a_decimal_is_not_split() {
        assert_eq!(count(&word("0.46"), None, &BTreeSet::new()), None);
        assert_eq!(count(&word("1e+06"), None, &BTreeSet::new()), None);
        assert_eq!(count(&word("0vm:2199:2199"), None, &BTreeSet::new()), Some(1));
        assert_eq!(error(b"5e-07node-1:1"), Some(5));
        assert_eq!(percentage(b"0.6338dcf:1"), Some(4));
    }
}
