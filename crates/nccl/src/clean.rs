//! Reverts changes that terminals and log drivers make to whole lines.

use crate::prefix::{find_open_mpi_tag, find_stream};
use memchr::memchr;

/// The line without terminal colours and without Docker's JSON envelope; `scratch` contains a changed line.
pub fn clean<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if let Some(log) = line.strip_prefix(b"{\"log\":\"") {
        scratch.clear();
        unescape(log, scratch);
        return scratch;
    }
    if memchr(0x1b, line).is_none() {
        return line;
    }
    scratch.clear();
    without_escapes(line, scratch);
    scratch
}

/// Removes terminal control sequences: `ESC [ ... letter`, `ESC ] ... BEL`, and two-byte ones.
fn without_escapes(mut line: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr(0x1b, line) {
        out.extend_from_slice(&line[..at]);
        let sequence = &line[at + 1..];
        let length = match sequence.first() {
            Some(b'[') => 1 + end(&sequence[1..], |byte| (0x40..0x7f).contains(&byte)),
            Some(b']') => 1 + end(&sequence[1..], |byte| byte == 0x07 || byte == b'\\'),
            Some(b'(' | b')') => 2,
            Some(_) => 1,
            None => 0,
        };
        line = sequence.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(line);
}

fn end(sequence: &[u8], last: impl Fn(u8) -> bool) -> usize {
    sequence.iter().position(|&byte| last(byte)).map_or(sequence.len(), |at| at + 1)
}

/// Parses a JSON string up to its closing quote. The rest (stream, time) comes from the log driver.
fn unescape(log: &[u8], out: &mut Vec<u8>) {
    let mut bytes = log.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => match bytes.next() {
                Some(b'n' | b'r') => {}
                Some(b't') => out.push(b'\t'),
                Some(b'u') => out.push(code_unit(&mut bytes)),
                Some(&plain) => out.push(plain),
                None => return,
            },
            _ => out.push(byte),
        }
    }
}

/// Parses four hex digits. Docker escapes `<`, `>` and `&` this way; all relevant text is ASCII.
fn code_unit(bytes: &mut std::slice::Iter<'_, u8>) -> u8 {
    let digits = bytes.by_ref().take(4);
    let unit = digits.fold(0u32, |unit, &byte| unit * 16 + (byte as char).to_digit(16).unwrap_or(0));
    u8::try_from(unit).ok().filter(u8::is_ascii).unwrap_or(b'?')
}

/// Maximum number of processes distinguished in one line.
const THREADS: usize = 256;

/// Splits a line in which `mpirun --tag-output` joined the output of several processes, each piece after its tag.
///
/// Joins the pieces of one process. Returns `None` for a line with at most one tag.
pub(crate) fn threads(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let first = find_stream(line)?;
    find_stream(&line[first + 1..])?;
    let mut threads: Vec<(&[u8], Vec<u8>)> = Vec::new();
    let mut tag: &[u8] = b"";
    let mut rest = line;
    loop {
        let found = find_open_mpi_tag(rest).filter(|&(start, end)| {
            // A tag inside a line starts with its bracket.
            start > 0 || rest.first() == Some(&b'[') || end == 0 || rest.len() == line.len()
        });
        let (start, end) = found.unwrap_or((rest.len(), rest.len()));
        let piece = &rest[..start];
        let full = threads.len() == THREADS;
        match threads.iter_mut().find(|thread| thread.0 == tag) {
            Some(thread) => thread.1.extend_from_slice(piece),
            None if (piece.is_empty() && tag.is_empty()) || full => {}
            None => threads.push((tag, [tag, piece].concat())),
        }
        if found.is_none() {
            break;
        }
        tag = &rest[start..end];
        rest = &rest[end..];
    }
    Some(threads.into_iter().map(|thread| thread.1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_envelopes_are_removed() {
        let mut scratch = Vec::new();
        assert_eq!(clean(b"\x1b[32m# Avg\x1b[0m bus", &mut scratch), b"# Avg bus");
        assert_eq!(clean(b"\x1b]0;title\x07x\x1b", &mut scratch), b"x");
        let docker = br##"{"log":"# \u003cstdout\u003e\n","stream":"stdout","time":"2026"}"##;
        assert_eq!(clean(docker, &mut scratch), b"# <stdout>");
    }

    #[test]
    fn pieces_of_one_process_are_joined() {
        let line = b"[1,0]<stdout>:  8  2 float[1,1]<stderr>:noise[1,0]<stdout>:  sum";
        let threads = threads(line).unwrap();
        assert_eq!(threads, [&b"[1,0]<stdout>:  8  2 float  sum"[..], b"[1,1]<stderr>:noise"]);
        assert_eq!(super::threads(b"[1,0]<stdout>:x"), None);
    }
}
