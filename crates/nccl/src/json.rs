//! The JSON that `-J` writes: one object a run, read in constant memory as far as it goes.
//!
//! A run that is killed leaves half an object, versions misspelt keys and write bare `inf`, and the environment in it
//! (secrets included) is skipped unread.

mod document;
mod tokens;

pub(crate) use document::Document;

/// Keys that an object of nccl-tests may begin with; sorted by a tool, it begins with `args` or the average.
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

/// Whether a file that begins so is such JSON, rather than a text with a brace in it.
pub(crate) fn is_document(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let head = head.strip_prefix(b"[").unwrap_or(head).trim_ascii_start();
    let Some(key) = head.strip_prefix(b"{").and_then(|head| head.trim_ascii_start().strip_prefix(b"\""))
    else {
        return false;
    };
    KEYS.iter().any(|name| key.starts_with(name.as_bytes())) && !is_said_in_text(key)
}

/// Whether the object is a line of its own, without results, before lines of something else: a launcher's message.
fn is_said_in_text(head: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', head) else { return false };
    let (line, rest) = head.split_at(end);
    let next = rest.trim_ascii_start().first();
    line.trim_ascii_end().ends_with(b"}")
        && memchr::memmem::find(line, b"\"results\"").is_none()
        && next.is_some_and(|byte| !b"{[],".contains(byte))
}
