//! Prefixes that launchers and log collectors add to lines.

use crate::scan::span;
use memchr::{memchr, memchr_iter};

/// A line with its prefixes removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripped<'a> {
    /// The line without launcher tags and collector timestamps: the program's own output.
    pub(crate) output: &'a [u8],
    /// `output` without any other text that looks like a prefix (a host name and a colon, a bracket).
    pub(crate) rest: &'a [u8],
    /// Identifies the process, from the launcher's tag; 0 without a tag.
    pub(crate) stream: u64,
}

/// Maximum length of a known prefix.
const LONGEST: usize = 160;

/// Removes the prefixes of a line. Prefixes nest: a pod name, then a timestamp, then a rank.
pub(crate) fn strip(line: &[u8]) -> Stripped<'_> {
    let line = unquoted(line);
    let mut stripped = Stripped { output: line, rest: line, stream: 0 };
    for _ in 0..6 {
        let blanks = leading_blanks(stripped.rest);
        let text = &stripped.rest[blanks..];
        let Some(&first) = text.first() else { break };
        let found = match first {
            b'0'..=b'9' => timestamp(text).map(|end| (end, None, true)).or_else(|| srun_label(text)),
            b'[' => open_mpi_tag(text).or_else(|| bracket(text)),
            b'#' | b'-' | b'.' => None,
            _ => month_timestamp(text)
                .map(|end| (end, None, true))
                .or_else(|| open_mpi_tag(text))
                .or_else(|| named(text)),
        };
        let Some((end, name, trusted)) = found else { break };
        if let Some(name) = name {
            stripped.stream = fold(stripped.stream, name);
        }
        let was_all_output = stripped.output.len() == stripped.rest.len();
        stripped.rest = &text[end..];
        if trusted && was_all_output {
            stripped.output = stripped.rest;
        }
    }
    stripped
}

/// Content of a quoted line, as Ansible prints lines of an output.
fn unquoted(line: &[u8]) -> &[u8] {
    let Some(inner) = line.trim_ascii_start().strip_prefix(b"\"") else { return line };
    let end = inner.trim_ascii_end();
    end.strip_suffix(b"\",").or(end.strip_suffix(b"\"")).unwrap_or(line)
}

/// End of the prefix, the process name in it, and whether only collectors print such a prefix.
type FoundPrefix<'a> = (usize, Option<&'a [u8]>, bool);

fn leading_blanks(text: &[u8]) -> usize {
    span::<true>(text)
}

fn fold(stream: u64, name: &[u8]) -> u64 {
    // FNV-1a: the names are short, and a collision only merges the lines of two processes.
    let start = if stream == 0 { 0xcbf2_9ce4_8422_2325 } else { stream };
    name.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)) | 1
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Matches `12: ` of `srun -l`, and line numbers of `grep -n`, where each line has a different number.
fn srun_label(text: &[u8]) -> Option<FoundPrefix<'_>> {
    let count = digits(text);
    let ends =
        count <= 7 && text.get(count) == Some(&b':') && matches!(text.get(count + 1), None | Some(b' '));
    ends.then(|| ((count + 2).min(text.len()), Some(&text[..count]), true))
}

/// Matches `[1,0]<stdout>:` and variants: one word, or a date, with this suffix.
fn open_mpi_tag(text: &[u8]) -> Option<FoundPrefix<'_>> {
    const DAYS: &[u8] = b"MonTueWedThuFriSatSun";
    let head = &text[..text.len().min(LONGEST)];
    let (start, end) = find_open_mpi_tag(head)?;
    let open = memchr(b'<', &head[start..])? + start;
    let dated = DAYS.chunks(3).any(|day| head.starts_with(day));
    let name = if dated { &head[start..open] } else { &head[..open] };
    let named = name.starts_with(b"[");
    (dated || !head[..open].contains(&b' ')).then_some((end, named.then_some(name), true))
}

/// Start and end of the first `[...]<stdout>:` of a text. A tag without a bracket starts at the beginning of
/// the text.
pub(crate) fn find_open_mpi_tag(text: &[u8]) -> Option<(usize, usize)> {
    let open = find_stream(text)?;
    let end =
        [&b"<stdout>:"[..], b"<stderr>:"].iter().find(|tag| text[open..].starts_with(tag))?.len() + open;
    let start = match text[..open].last() {
        Some(b']') => memchr::memrchr(b'[', &text[..open])?,
        _ => 0,
    };
    Some((start, end))
}

/// Position of the first `<std` in a text.
pub(crate) fn find_stream(text: &[u8]) -> Option<usize> {
    // Building a searcher for the whole pattern would take longer than the search.
    memchr_iter(b'<', text).find(|&open| text[open..].starts_with(b"<std"))
}

/// Matches `[0] ` of MPICH, `[pod/name/container] `, `[rank0]: `, `[2026-01-05 12:00:07] `.
fn bracket(text: &[u8]) -> Option<FoundPrefix<'_>> {
    let head = &text[..text.len().min(LONGEST)];
    let close = memchr(b']', head)?;
    let inside = &head[1..close];
    let end = close + 1 + usize::from(text.get(close + 1) == Some(&b':'));
    let spaced = matches!(text.get(end), None | Some(b' '));
    if timestamp(inside).or_else(|| month_timestamp(inside)).is_some() {
        return spaced.then_some((end, None, false));
    }
    let rank = !inside.is_empty() && digits(inside) == inside.len() && spaced;
    let pod = inside.starts_with(b"pod/") && spaced;
    let word = !inside.is_empty() && inside.iter().all(|byte| byte.is_ascii_graphic());
    (word && (spaced || text[close + 1..].starts_with(b":"))).then_some((
        end,
        (rank || pod).then_some(inside),
        rank || pod,
    ))
}

/// Matches `2026-01-05T12:00:07.123Z `, `2026-01-05 12:00:07,123 `, `12:00:07 `, and the suffixes of CRI and GitLab.
fn timestamp(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    if text.len() > 10 && shaped(text, b"dddd-dd-dd") && matches!(text[10], b'T' | b' ') {
        at = 11;
    }
    if !shaped(text.get(at..)?, b"dd:dd:dd") {
        return None;
    }
    at += 8;
    if matches!(text.get(at), Some(b'.' | b',')) {
        at += 1 + digits(&text[at + 1..]);
    }
    match text.get(at) {
        Some(b'Z') => at += 1,
        Some(b'+' | b'-') if shaped(&text[at + 1..], b"dd:dd") => at += 6,
        Some(b'+' | b'-') if shaped(&text[at + 1..], b"dddd") => at += 5,
        _ => {}
    }
    if at < text.len() && text[at] != b' ' && text[at] != b'\t' {
        return None;
    }
    at = (at + 1).min(text.len());
    for mark in
        [&b"stdout F "[..], b"stderr F ", b"stdout P ", b"stderr P ", b"00O ", b"00O+", b"01E ", b"01O "]
    {
        if text[at..].starts_with(mark) {
            return Some(at + mark.len());
        }
    }
    Some(at)
}

fn shaped(text: &[u8], shape: &[u8]) -> bool {
    text.len() >= shape.len()
        && shape
            .iter()
            .zip(text)
            .all(|(want, byte)| if *want == b'd' { byte.is_ascii_digit() } else { want == byte })
}

/// Matches `Jan  5 12:00:07 host program[123]: ` of syslog and `Jan 05 12:00:07 ` of `ts`.
fn month_timestamp(text: &[u8]) -> Option<usize> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = text.get(..3)?;
    if !MONTHS.chunks(3).any(|name| name == month) || text.get(3) != Some(&b' ') {
        return None;
    }
    let day = 4 + leading_blanks(&text[4..]);
    let time = day + digits(&text[day..]) + 1;
    let mut end = time + timestamp(text.get(time..)?)?;
    let rest = &text[end..];
    // Only syslog adds host and program: `host program[123]: `.
    let host = memchr(b' ', &rest[..rest.len().min(LONGEST)]);
    if let Some(program) = host.map(|host| &rest[host + 1..])
        && let Some(space) = memchr(b' ', &program[..program.len().min(LONGEST)])
        && program[..space].ends_with(b":")
    {
        end += rest.len() - program.len() + space + 1;
    }
    Some(end)
}

/// Matches `service-1  | ` of compose, or `node-1: ` of pdsh.
fn named(text: &[u8]) -> Option<FoundPrefix<'_>> {
    let length = text.iter().take(LONGEST).take_while(|byte| is_name(**byte)).count();
    let name = &text[..length];
    match text.get(length)? {
        b':' if length > 0 && text.get(length + 1) == Some(&b' ') => Some((length + 2, Some(name), false)),
        b' ' if length > 0 => {
            let blanks = leading_blanks(&text[length..]);
            let bar = text[length + blanks..].starts_with(b"| ");
            bar.then_some((length + blanks + 2, Some(name), true))
        }
        _ => None,
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_prefixes_are_removed() {
        for prefix in [
            "",
            "0: ",
            " 12: ",
            "[1,0]<stdout>:",
            "[prterun-node-1-77@1,0]<stdout>: ",
            "[0] ",
            "2026-01-05T12:00:07.123456789Z ",
            "2026-01-05T12:00:07.123456789Z stdout F ",
            "2026-01-05T12:00:07.123456789+01:00 stderr F ",
            "2026-01-05 12:00:07,123 ",
            "[2026-01-05 12:00:07] ",
            "12:00:07 ",
            "Jan  5 12:00:07 node-1 slurm[77]: ",
            "Jan 05 12:00:07 ",
            "[pod/nccl-test-0/main] ",
            "nccl-1  | ",
            "node-1: ",
            "[STAT]:",
            "[pod/a/b] 2026-01-05T12:00:07Z [1,0]<stdout>:",
            "Mon Jan  5 12:00:07 2026<stdout>:",
        ] {
            for text in ["# Using devices", "1048576   262144 float", "-1", "46.48   22.56"] {
                let line = format!("{prefix}{text}");
                assert_eq!(strip(line.as_bytes()).rest.trim_ascii_start(), text.as_bytes(), "{line}");
            }
        }
    }

    #[test]
    fn the_host_of_a_failure_line_is_kept() {
        let line = b"2026-01-05T12:00:07Z node-2: Test NCCL failure";
        assert_eq!(strip(line).output, b"node-2: Test NCCL failure");
    }

    #[test]
    fn processes_are_distinguished() {
        let of = |line: &str| strip(line.as_bytes()).stream;
        assert_ne!(of("[1,0]<stdout>:x"), of("[1,1]<stdout>:x"));
        assert_ne!(of("0: x"), of("1: x"));
        assert_eq!(of("12:00:07 x"), of("12:00:08 x"));
        assert_eq!(of("plain"), 0);
    }
}
