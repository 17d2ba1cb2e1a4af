//! Rows without their beginning or a header, as in excerpts of a log.

use crate::interleaved;
use crate::layout::Layout;
use crate::number::{Number, unsigned};
use crate::scan::{Word, Words};
use crate::value::value;

/// Maximum number of words of a line that are searched for a row.
const WORDS: usize = 64;

/// Infers the columns of a row without a header; its left part starts at `at`.
pub(crate) fn infer(line: &[u8], at: usize) -> Option<Layout> {
    let mut words = Words::new(line, at);
    unsigned(words.next()?.text)?;
    unsigned(words.next()?.text)?;
    let known = words.next()?.text;
    interleaved::name(known, &interleaved::TYPES).filter(|name| name.as_bytes() == known)?;
    let first = words.peek()?.text;
    if interleaved::OPERATIONS.iter().any(|name| name.as_bytes() == first) {
        words.next();
    }
    let mut values = [&[][..]; 18];
    let mut count = 0;
    for word in words.map(|word| word.text).take_while(|word| value(word).is_some()).take(values.len()) {
        values[count] = word;
        count += 1;
    }
    let time = Number::parse(values[usize::from(count % 2 == 1)])?;
    // Times had three decimals only while the unit was milliseconds.
    let milliseconds = time.decimals() == 3;
    // A relative error such as 5e-07 always has an exponent; the exponent of a count, if any, is positive.
    let error = |word: &[u8]| word.len() >= 5 && (word.starts_with(b"0e+00") || word.contains(&b'-'));
    Layout::from_values(count, milliseconds, values[..count].iter().any(|word| error(word)))
}

/// Possible start of a row's left part, if the beginning of the line is unknown: two integers before a known type.
pub(crate) fn anchor(line: &[u8]) -> Option<usize> {
    let mut before: [Option<Word<'_>>; 2] = [None, None];
    for word in Words::new(line, 0).take(WORDS) {
        if let [Some(size), Some(count)] = before
            && interleaved::name(word.text, &interleaved::TYPES).is_some()
            && unsigned(count.text).is_some()
        {
            let digits = size.text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            let start = size.text.len() - digits;
            let joined =
                start > 0 && matches!(size.text[start - 1], b'.' | b'-' | b'_' | b'+' | b',' | b'/' | b'=');
            let letter = start > 0 && size.text[start - 1].is_ascii_alphanumeric();
            if digits > 0 && !joined && !letter {
                return Some(size.start + start);
            }
        }
        before = [before[1], Some(word)];
    }
    None
}
