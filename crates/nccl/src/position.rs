//! Source positions that some builds of nccl-tests print before every piece of a line.

use crate::interleaved;
use memchr::memchr_iter;

/// Maximum length of a function name or path in a source position, bytes.
const NAME: usize = 128;

/// Removes source positions such as `BenchTime(), common.cu:533, `, which some builds print before every piece of a
/// line, also inside rows. `None` without one.
pub(crate) fn without_positions(line: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut from = 0;
    for open in memchr_iter(b'(', line) {
        if open < from {
            continue;
        }
        let Some(length) = position(&line[open..]) else { continue };
        let Some(start) = function(&line[from..open]) else { continue };
        out.extend_from_slice(&line[from..from + start]);
        from = open + length;
    }
    (from > 0).then(|| {
        out.extend_from_slice(&line[from..]);
        out
    })
}

/// Length of `(), common.cu:533, ` at the start of a text.
fn position(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"(), ")?;
    let head = &rest[..rest.len().min(NAME)];
    let path = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    let colon = head.iter().position(|byte| !path(byte)).filter(|&at| head[at] == b':')?;
    let source = [&b".cu"[..], b".cc", b".cpp", b".c", b".h", b".cuh", b".hpp", b".cxx"];
    source.iter().find(|suffix| head[..colon].ends_with(suffix))?;
    let number = &head[colon + 1..];
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // Keep the blank: without it two numbers would merge.
    let ends = number.get(digits) == Some(&b',') && matches!(number.get(digits + 1), None | Some(b' '));
    (digits > 0 && ends).then_some(4 + colon + 1 + digits + 1)
}

/// Start of the function name at the end of a text. Text directly before it is kept: a number, `N/A`, or the
/// name of a type or a reduction.
fn function(text: &[u8]) -> Option<usize> {
    let letters = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let word = text.iter().rev().take(NAME).take_while(letters).count();
    let start = text.len() - word;
    let name = &text[start..];
    let glued = if text[..start].ends_with(b"N/") && name.starts_with(b"A") {
        1
    } else if start > 0 {
        let known = interleaved::name(name, &interleaved::TYPES)
            .or_else(|| interleaved::name(name, &interleaved::OPERATIONS));
        known.map_or(0, str::len)
    } else {
        0
    };
    let digits = name[glued..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (word > glued + digits && word < NAME).then_some(start + glued + digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_positions_are_removed_and_numbers_kept() {
        let left =
            |line: &str| without_positions(line.as_bytes()).map(|line| String::from_utf8(line).unwrap());
        assert_eq!(left("run(), common.cu:967, # nThread 1").as_deref(), Some(" # nThread 1"));
        assert_eq!(left("0: run(), src/common.cu:9, x").as_deref(), Some("0:  x"));
        assert_eq!(
            left("t(), a.cu:1,   8  2  float  sum  -1b(), a.cu:2,   46.48  0b(), a.cu:3,   44.46  N/Ab(), a.cu:4, ")
                .as_deref(),
            Some("   8  2  float  sum  -1   46.48  0   44.46  N/A ")
        );
        assert_eq!(
            left("t(), a.cu:1, 8 2 int8run(), a.cu:2, sumrun(), a.cu:3, 1").as_deref(),
            Some(" 8 2 int8 sum 1")
        );
        for other in [
            "main() returned",
            "f(), x:1, ",
            "f(), a.cu:x, ",
            "(), a.cu:1, 8",
            "8(), a.cu:1, 2",
            "f(), a.cu:12",
        ] {
            assert_eq!(left(other), None, "{other}");
        }
    }
}
