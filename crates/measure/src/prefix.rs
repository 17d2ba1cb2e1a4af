//! Prefixes of lines that launchers and log collectors add: they name the process.

use std::collections::BTreeSet;

use memchr::memchr;

use crate::text::find_near;

/// The process that printed a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineOrigin<'a> {
    /// The last prefix that names a process; empty if no prefix names one.
    pub(crate) label: &'a str,
    /// The prefix before `label` that names a process; empty without one.
    pub(crate) outer: &'a str,
    pub(crate) node: Option<&'a str>,
    pub(crate) rank: Option<u32>,
}

impl LineOrigin<'_> {
    /// Whether no prefix names a process.
    pub(crate) fn is_absent(&self) -> bool {
        self.label.is_empty()
    }
}

/// Prefixes of a log. A prefix that could also be program output is removed only if at least 80 % of the examined lines, and at least
/// three, have such a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPrefixes {
    /// Whether lines begin with a rank and a colon (`srun -l`).
    ranks: bool,
    /// Whether lines begin with a host name and a colon (pdsh, clush).
    hosts: bool,
    /// Whether all prefixes are kept, because they are part of the format.
    raw: bool,
}

/// Maximum length of a label, bytes.
const LONGEST: usize = 200;
/// Maximum length of a host name, bytes.
const HOST: usize = 63;
/// Length of the examined part of a line, bytes: more than the total length of its prefixes.
const PREFIXES: usize = 1024;
/// Number of lines that are examined.
const EXAMINED: usize = 400;

impl LogPrefixes {
    /// All prefixes are kept, because they are part of the format.
    pub(crate) const RAW: Self = Self { ranks: false, hosts: false, raw: true };

    /// Examines the beginning of a log.
    pub(crate) fn of(head: &[u8]) -> Self {
        let mut rest = head;
        let lines = std::iter::from_fn(|| {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = (!rest.is_empty()).then(|| &rest[..end])?;
            rest = rest.get(end + 1..).unwrap_or_default();
            Some(line.trim_ascii_end())
        });
        let (mut all, mut ranks, mut hosts, mut braces) = (0, 0, 0, 0);
        let mut names = BTreeSet::new();
        for line in lines.filter(|line| !line.is_empty()).take(EXAMINED) {
            let line = crate::text::text_of(&line[..line.len().min(PREFIXES)]);
            all += 1;
            let tag = tagged(&line).map_or(0, |(_, rest)| line.len() - rest.len());
            let line = &line[tag..];
            ranks += usize::from(rank(line).is_some());
            braces += usize::from(matches!(line, "{" | "}" | "},"));
            if let Some((name, _)) = host(line) {
                hosts += 1;
                names.insert(name.to_owned());
            }
        }
        let most = |count: usize| count >= 3 && count * 10 >= all * 8;
        Self {
            ranks: most(ranks),
            // pdsh adds the host to each line, so a line that begins with a brace was not printed by pdsh: it is part of a document with
            // unquoted keys, such as that of perftest 4.5.
            hosts: !most(ranks) && most(hosts) && names.len() * 3 <= hosts && braces == 0,
            raw: false,
        }
    }

    /// Whether only prefixes with a mark of their launcher or log collector are removed.
    pub(crate) fn are_marked(self) -> bool {
        !self.ranks && !self.hosts
    }

    /// Removes the prefixes of a line.
    #[inline]
    pub(crate) fn strip<'a>(self, line: &'a str) -> (LineOrigin<'a>, &'a str) {
        // Nearly all lines take this fast path.
        let unmarked =
            !self.ranks && !self.hosts && !line.starts_with(|c: char| c == '[' || c.is_ascii_digit());
        if self.raw || unmarked {
            return (LineOrigin::default(), line);
        }
        let (mut origin, mut rest) = (LineOrigin::default(), line);
        for _ in 0..4 {
            let found = tagged(rest).or_else(|| match () {
                () if self.ranks => rank(rest),
                () if self.hosts && origin.node.is_none() => host(rest).map(|(name, rest)| {
                    (LineOrigin { label: name, node: Some(name), ..LineOrigin::default() }, rest)
                }),
                () => None,
            });
            let Some((found, after)) = found else { break };
            if !found.label.is_empty() {
                (origin.outer, origin.label) = (origin.label, found.label);
            }
            origin.node = origin.node.or(found.node);
            origin.rank = origin.rank.or(found.rank);
            rest = after;
        }
        (origin, rest)
    }
}

/// A prefix that only launchers and log collectors add, never a benchmark.
fn tagged(line: &str) -> Option<(LineOrigin<'_>, &str)> {
    // The first two bytes exclude most lines without a further search.
    match line.as_bytes() {
        [b'[', b'0'..=b'9', ..] => open_mpi(line),
        [b'[', b'p', ..] => pod(line),
        [b'0'..=b'9', b'0'..=b'9', ..] => timestamp(line).map(|rest| (LineOrigin::default(), rest)),
        _ => None,
    }
}

/// `[1,0]<stdout>:`.
fn open_mpi(line: &str) -> Option<(LineOrigin<'_>, &str)> {
    let (label, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (job, rank) = label.split_once(',')?;
    let rest = rest.strip_prefix("<stdout>:").or_else(|| rest.strip_prefix("<stderr>:"))?;
    let number = |text: &str| crate::number::count(text);
    number(job)?;
    Some((LineOrigin { label, rank: Some(number(rank)?), ..LineOrigin::default() }, rest))
}

/// `[pod/name/container] ` of `kubectl logs --prefix`.
fn pod(line: &str) -> Option<(LineOrigin<'_>, &str)> {
    let (label, rest) = line.strip_prefix("[pod/")?.split_once("] ")?;
    let (name, container) = label.split_once('/')?;
    (label.len() <= LONGEST && !container.contains(' '))
        .then_some((LineOrigin { label, node: Some(name), ..LineOrigin::default() }, rest))
}

/// `2026-01-05T12:00:07.123456789Z ` of a log collector.
fn timestamp(line: &str) -> Option<&str> {
    let shape = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
                b'd' => byte.is_ascii_digit(),
                other => byte == other,
            })
    };
    if !shape(line.get(..19)?, "dddd-dd-ddTdd:dd:dd") {
        return None;
    }
    let (fraction, rest) = line[19..].split_once(' ')?;
    let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let zoned = zone == "Z" || zone.strip_prefix(['+', '-']).is_some_and(|zone| shape(zone, "dd:dd"));
    if !zoned {
        return None;
    }
    let marks = ["stdout F ", "stderr F "];
    Some(marks.iter().find_map(|mark| rest.strip_prefix(mark)).unwrap_or(rest))
}

/// `12: ` of `srun -l`.
fn rank(line: &str) -> Option<(LineOrigin<'_>, &str)> {
    let line = line.trim_start_matches(' ');
    let (label, rest) = line.split_once(':')?;
    if label.len() > 7 || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let rank = crate::number::count(label)?;
    Some((
        LineOrigin { label, rank: Some(rank), ..LineOrigin::default() },
        rest.strip_prefix(' ').unwrap_or(rest),
    ))
}

/// `node-1: ` of pdsh. Always inlined: reading the parts of a result right after they were written would wait for each of the writes.
#[inline(always)]
fn host(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_at(host_length(line)?);
    let rest = &rest[1..];
    Some((name, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Length of the host name at the start of a line, up to its colon.
fn host_length(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    // Search for the colon first: many lines have none and need no further check.
    let length = find_near([b':'], &bytes[..bytes.len().min(HOST + 1)])?;
    let (name, rest) = (&bytes[..length], &bytes[length + 1..]);
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let valid = name.first().is_some_and(u8::is_ascii_alphanumeric)
        && name.iter().any(u8::is_ascii_alphabetic)
        && name.iter().all(is_part);
    (valid && matches!(rest, [] | [b' ', ..])).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_name_the_process() {
        let labels = LogPrefixes::of(b"x\n");
        let (origin, rest) = labels.strip("[1,3]<stdout>:GPU 0: OK");
        assert_eq!((origin.rank, rest), (Some(3), "GPU 0: OK"));
        let (origin, rest) = labels.strip("[pod/burn-7/main] 2026-01-05T12:00:07.123Z GPU 0: OK");
        assert_eq!((origin.node, rest), (Some("burn-7"), "GPU 0: OK"));
        assert_eq!(labels.strip("GPU 0: OK"), (LineOrigin::default(), "GPU 0: OK"));
        assert_eq!(labels.strip("0: x"), (LineOrigin::default(), "0: x"));
        let (origin, rest) = LogPrefixes::of(b"0: a\n1: b\n0: c\n").strip("10: x");
        assert_eq!((origin.rank, rest), (Some(10), "x"));
        let (origin, rest) = LogPrefixes::of(b"n1: a\nn1: b\nn1: c\n").strip("n2: x: y");
        assert_eq!((origin.node, rest), (Some("n2"), "x: y"));
        assert_eq!(LogPrefixes::of(b"a: 1\nb: 2\nc: 3\n"), LogPrefixes::default());
        let document = "{\na: 1,\nb: 2,\nc: 3,\nd: 4,\ne: 5,\nf: 6,\ng: 7,\nh: 8,\n}\n".repeat(3);
        assert_eq!(LogPrefixes::of(document.as_bytes()), LogPrefixes::default());
        let with_host: String = document.lines().map(|line| format!("n1: {line}\n")).collect();
        assert_eq!(LogPrefixes::of(with_host.as_bytes()).strip("n1: a: 1,").1, "a: 1,");
        assert_eq!(LogPrefixes::RAW.strip("[1,3]<stdout>:x").1, "[1,3]<stdout>:x");
    }
}
