//! Lines around the table: participants, versions and the summary.

use crate::number::{Number, unsigned};
use crate::scan::{Words, text};
use model::measurement::{Device, OutOfBounds};

/// Formats NCCL's version number, which encodes major x 10000 + minor x 100 + patch, before 2.9 major x 1000 + minor x 100 + patch.
pub(crate) fn library_version(code: u64) -> Option<String> {
    match code {
        1_000..10_000 => Some(format!("{}.{}.{}", code / 1000, code / 100 % 10, code % 100)),
        10_000..10_000_000 => Some(format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100)),
        _ => None,
    }
}

/// Parses `nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809`: the versions of the tests and of
/// NCCL.
pub(crate) fn versions(line: &[u8]) -> (Option<String>, Option<String>) {
    let mut words = Words::new(line, 0).map(|word| word.text);
    let tests = words.find(|word| *word == b"version").and_then(|_| words.next()).map(|word| text(word, 64));
    let library = words.find_map(|word| word.strip_prefix(b"nccl-library=")).and_then(unsigned);
    (tests, library.and_then(library_version))
}

/// Parses the version after `NCCL version`; a colon may precede it.
pub(crate) fn printed_version(rest: &[u8]) -> Option<String> {
    let word = Words::new(rest, 0).map(|word| word.text).find(|word| *word != b":")?;
    word[0].is_ascii_digit().then(|| text(word, 64))
}

/// Parses a Rank line, starting at the word `Rank`. `None` if the line was truncated by its printer.
pub(crate) fn rank(line: &[u8]) -> Option<Device> {
    let mut words = Words::new(line, 0);
    words.next().filter(|word| word.text == b"Rank")?;
    let rank = u32::try_from(unsigned(words.next()?.text)?).ok()?;
    let mut label = words.next()?.text;
    for optional in [&b"Group"[..], b"Pid"] {
        if label == optional {
            words.next().filter(|word| unsigned(word.text).is_some())?;
            label = words.next()?.text;
        }
    }
    let host = match label {
        b"on" => words.next()?.text,
        // NCCL 1 runs in one process, so its Rank lines name no host.
        b"uses" => b"",
        _ => return None,
    };
    words.next().filter(|word| word.text == b"device")?;
    let device =
        words.next().and_then(|word| unsigned(word.text)).and_then(|device| u32::try_from(device).ok());
    let (bus_id, name) = bus_and_name(words);
    Some(Device { rank, host: text(host, 256), device, bus_id, name })
}

/// Parses `Device  0 ->  0 [0x0a] NAME`, starting at the word `Device`. The line does not name the host.
pub(crate) fn old_rank(line: &[u8]) -> Option<Device> {
    let mut words = Words::new(line, 0);
    words.next().filter(|word| word.text == b"Device")?;
    let rank = u32::try_from(unsigned(words.next()?.text)?).ok()?;
    words.next().filter(|word| word.text == b"->")?;
    let device = u32::try_from(unsigned(words.next()?.text)?).ok()?;
    let (bus_id, name) = bus_and_name(words);
    bus_id.as_ref()?;
    Some(Device { rank, host: String::new(), device: Some(device), bus_id, name })
}

fn bus_and_name(mut words: Words<'_>) -> (Option<String>, Option<String>) {
    let bus = words.next().and_then(|word| word.text.strip_prefix(b"[")?.strip_suffix(b"]"));
    let name = bus.map(|_| text(words.rest(), 128)).filter(|name| !name.is_empty());
    (bus.map(|bus| text(bus, 64)), name)
}

/// Parses the text after `Out of bounds values`: ` : 0 OK`.
pub(crate) fn out_of_bounds(rest: &[u8]) -> Option<OutOfBounds> {
    let mut words = after_colon(rest)?;
    let count = unsigned(words.next()?.text)?;
    match words.next()?.text {
        b"OK" => Some(OutOfBounds { count, ok: true }),
        b"FAILED" => Some(OutOfBounds { count, ok: false }),
        _ => None,
    }
}

/// The text after `Avg bus bandwidth`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Average {
    /// GB/s; `None` without rows to average (`-nan`).
    pub(crate) value: Option<f64>,
    /// Whether the average is below the requested minimum.
    pub(crate) failed: bool,
}

/// Parses ` : 187.866 ` after `Avg bus bandwidth`. An unterminated line is accepted only if its number is certainly complete.
pub(crate) fn average(rest: &[u8], ended: bool) -> Option<Average> {
    let mut words = after_colon(rest)?;
    let word = words.next()?;
    let whole = ended || word.end() < rest.len();
    let failed = words.next().is_some_and(|word| word.text == b"FAILED");
    let number = word.text.strip_suffix(b"GB/s").unwrap_or(word.text);
    if let b"nan" | b"-nan" | b"inf" | b"-inf" = number {
        return whole.then_some(Average { value: None, failed });
    }
    let number = Number::parse(number)?;
    // %g never prints more than six digits.
    (whole || number.significant() >= 6).then(|| Average { value: number.measured(0), failed })
}

fn after_colon(rest: &[u8]) -> Option<Words<'_>> {
    let mut words = Words::new(rest, 0);
    let first = words.next()?;
    if first.text[0] != b':' {
        return None;
    }
    words.at = first.start + 1;
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_versions_have_two_encodings() {
        assert_eq!(library_version(22_809).as_deref(), Some("2.28.9"));
        assert_eq!(library_version(2_708).as_deref(), Some("2.7.8"));
        assert_eq!(library_version(0), None);
    }

    #[test]
    fn rank_lines_of_all_versions_are_parsed() {
        let old = rank(b"Rank  0 on     node-1 device  0 [0x06] Tesla P100").unwrap();
        assert_eq!((old.host.as_str(), old.bus_id.as_deref()), ("node-1", Some("0x06")));
        let new = rank(b"Rank 12 Group  0 Pid   1616 on node-1 device  3 [0000:05:00.0] ").unwrap();
        assert_eq!((new.rank, new.device, new.name), (12, Some(3), None));
        assert_eq!(rank(b"Rank  0 Group  0 Pid   16..."), None);
        assert_eq!(rank(b"Rank 0 has left the building"), None);
        assert!(old_rank(b"Device  0 ->  0 [0x0a] Tesla P100").is_some());
    }

    #[test]
    fn a_truncated_average_is_rejected() {
        let read = |rest: &str, ended| average(rest.as_bytes(), ended).map(|average| average.value);
        assert_eq!(read("    : 187.866 ", true), Some(Some(187.866)));
        assert_eq!(read("    : 187.8", false), None);
        assert_eq!(read("    : 187.866", false), Some(Some(187.866)));
        assert_eq!(read("    : -nan ", true), Some(None));
        assert_eq!(read(":  23.6671GB/s", true), Some(Some(23.6671)));
        assert_eq!(read(" was good", true), None);
    }
}
