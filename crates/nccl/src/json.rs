//! JSON output of `-J`: one object per run, parsed token by token, without storing the object.
//!
//! A killed run leaves an incomplete object, some versions misspell keys and write bare `inf`, and the
//! environment (including secrets) is skipped without being stored.

mod document;
mod tokens;

pub(crate) use document::JsonDocument;

/// Possible first keys of an nccl-tests object; in sorted output, `args` or the average is first.
const KEYS: [&str; 11] = [
    "version",
    "start_time",
    "end_time",
    "args",
    "env",
    "nccl_version",
    "config",
    "results",
    "out_of_bounds",
    "average_bus_bandwid",
    "errors",
];

/// Whether a file with this beginning is JSON of nccl-tests, rather than text that starts with a brace.
pub(crate) fn is_document(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let head = head.strip_prefix(b"[").unwrap_or(head).trim_ascii_start();
    let Some(key) = head.strip_prefix(b"{").and_then(|head| head.trim_ascii_start().strip_prefix(b"\""))
    else {
        return false;
    };
    KEYS.iter().any(|name| key.starts_with(name.as_bytes())) && !is_launcher_message(key)
}

/// Whether the object is a single line without results, followed by other lines: a launcher's message.
fn is_launcher_message(head: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', head) else { return false };
    let (line, rest) = head.split_at(end);
    let next = rest.trim_ascii_start().first();
    line.trim_ascii_end().ends_with(b"}")
        && memchr::memmem::find(line, b"\"results\"").is_none()
        && next.is_some_and(|byte| !b"{[],".contains(byte))
}
