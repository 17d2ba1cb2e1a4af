//! Fast classification of lines.

use crate::number::unsigned;
use crate::scan::is_blank;

/// Removes pdsh's host prefix from a failure line, because such a line contains the host name already.
pub(crate) fn without_collector(line: &[u8]) -> &[u8] {
    let Some(colon) = memchr::memmem::find(line, b": ").filter(|&colon| !line[..colon].contains(&b' '))
    else {
        return line;
    };
    let after = &line[colon + 2..];
    let word = after.split(|&byte| byte == b' ').next().unwrap_or_default();
    let host = word.ends_with(b":") && after[word.len()..].starts_with(b" Test ");
    let process =
        word.split(|&byte| byte == b':').skip(1).filter(|part| unsigned(part).is_some()).count() == 2;
    if host || process || after.trim_ascii_start().starts_with(b".. ") { after } else { line }
}

/// NCCL's message in `host:pid:tid [device] NCCL INFO ...`, the bulk of a debug log. No row can precede it in
/// the line: rows begin with blanks, and the first blank here follows the thread.
pub(crate) fn debug(line: &[u8]) -> Option<&[u8]> {
    let blank = memchr::memchr(b' ', &line[..line.len().min(256)])?;
    let rest = line.get(blank + 1..)?.strip_prefix(b"[")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b"] NCCL INFO ").filter(|_| digits > 0 && blank > 0)
}

/// Whether a line ends like a row: in a value after `padding` blanks. A fast check with rare false positives.
pub(crate) fn ends_like_row(line: &[u8], padding: usize) -> bool {
    let end = line.iter().rposition(|&byte| !is_blank(byte)).map_or(0, |at| at + 1);
    let value = line[end.saturating_sub(12)..end].iter().rev().take_while(|byte| !is_blank(**byte)).count();
    let before = &line[..end - value];
    before.len() >= padding
        && before[before.len() - padding..].iter().all(|&byte| is_blank(byte))
        && (line[end - 1].is_ascii_digit() || line[..end].ends_with(b"/A"))
}
