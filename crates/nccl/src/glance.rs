//! Telling what kind of line this is from a look at it.

use crate::number::unsigned;
use crate::scan::is_blank;

/// A failure line without the host that pdsh put before it: such lines name their host themselves.
pub(crate) fn without_collector(said: &[u8]) -> &[u8] {
    let Some(colon) = memchr::memmem::find(said, b": ").filter(|&colon| !said[..colon].contains(&b' '))
    else {
        return said;
    };
    let after = &said[colon + 2..];
    let word = after.split(|&byte| byte == b' ').next().unwrap_or_default();
    let host = word.ends_with(b":") && after[word.len()..].starts_with(b" Test ");
    let process =
        word.split(|&byte| byte == b':').skip(1).filter(|part| unsigned(part).is_some()).count() == 2;
    if host || process || after.trim_ascii_start().starts_with(b".. ") { after } else { said }
}

/// What NCCL says in `host:pid:tid [device] NCCL INFO ...`, the bulk of a log with debug output. Nothing can be glued
/// before it: rows begin with blanks, and the first blank here is the one behind the thread.
pub(crate) fn debug(line: &[u8]) -> Option<&[u8]> {
    let blank = memchr::memchr(b' ', &line[..line.len().min(256)])?;
    let rest = line.get(blank + 1..)?.strip_prefix(b"[")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b"] NCCL INFO ").filter(|_| digits > 0 && blank > 0)
}

/// Whether a line ends as rows do: in a value with `padding` blanks before it. Cheap, and true of few other lines.
pub(crate) fn ends_like_row(line: &[u8], padding: usize) -> bool {
    let end = line.iter().rposition(|&byte| !is_blank(byte)).map_or(0, |at| at + 1);
    let value = line[end.saturating_sub(12)..end].iter().rev().take_while(|byte| !is_blank(**byte)).count();
    let before = &line[..end - value];
    before.len() >= padding
        && before[before.len() - padding..].iter().all(|&byte| is_blank(byte))
        && (line[end - 1].is_ascii_digit() || line[..end].ends_with(b"/A"))
}
