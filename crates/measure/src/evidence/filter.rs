//! Removes the lines that a job's script prints into a log: evidence of nodes, and the node of each host name.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    sync::LazyLock,
};

use memchr::{memchr, memchr_iter, memmem::Finder, memrchr};
use model::NodeEvidence;

use super::{
    line::EvidenceLine,
    node::{self, EvidencePhase, NodeLines},
};
use crate::input::Failing;

/// Prefix of a line of the job's script, after the launcher's label.
const MARK: &str = "burnin ";
/// Prefix of a line of evidence, after the mark.
const EVIDENCE: &str = "evidence: ";
/// Prefix, after the mark, of a line with the name of a host, such as a pod, and of its node.
const HOST: &str = "host: ";
/// Maximum length of a label of a launcher, bytes: `12: `, `[1,0]<stdout>:`.
const LABEL: usize = 40;
/// Maximum bytes of all kept lines. A node with eight GPUs prints about 10 kB.
const MAX_BYTES: usize = 32 << 20;
/// Maximum number of nodes.
const NODES: usize = 16_384;
/// Maximum length of a host or node name, bytes: the maximum of DNS.
const NAME: usize = 253;
/// Maximum length of a kept line, bytes; also the size of one read, except the first.
const LINE: usize = 64 * 1024;
/// Size of the first read, bytes. Most logs are shorter, and each read begins with a buffer of zeros.
const FIRST_READ: usize = 8 * 1024;

static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MARK));

/// Passes a log on without the lines of the job's script. A removed line becomes an empty one, so that line numbers do not
/// change; removed lines at the end of the log leave no empty line, because an empty line may end a document.
pub struct EvidenceFilter<R> {
    log: R,
    /// Output buffer, and the position up to which the caller has read it.
    ready: (Vec<u8>, usize),
    /// Size of the next read, bytes.
    read_size: usize,
    /// Bytes of the incomplete last line.
    partial_line: Vec<u8>,
    /// Whether the beginning of the incomplete last line was already written to the output.
    is_inside_line: bool,
    /// Number of removed lines whose replacement, an empty line, was not passed on yet.
    removed: usize,
    /// Number of complete lines.
    lines: u64,
    is_at_end: bool,
    nodes: BTreeMap<String, NodeLines>,
    hosts: BTreeMap<String, BTreeSet<String>>,
    kept: usize,
    /// Whether lines were left out because of a maximum.
    is_cut: bool,
}

impl<'a> EvidenceFilter<Box<dyn Read + 'a>> {
    /// Filters a log that may be compressed. If its first bytes are unreadable, the first read returns the error.
    pub fn unpacked(log: impl Read + 'a) -> Self {
        Self::new(match nccl::unpacked(log) {
            Ok(log) => Box::new(log),
            Err(error) => Box::new(Failing(Some(error))),
        })
    }
}

impl<R: Read> EvidenceFilter<R> {
    /// Filters a plain-text log; use [`Self::unpacked`] for a log that may be compressed.
    pub fn new(log: R) -> Self {
        Self {
            log,
            ready: (Vec::new(), 0),
            read_size: FIRST_READ,
            partial_line: Vec::new(),
            is_inside_line: false,
            removed: 0,
            lines: 0,
            is_at_end: false,
            nodes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            kept: 0,
            is_cut: false,
        }
    }

    /// Nodes by the name of a host, where both names differ. Several nodes of one machine have the same host.
    pub fn take_hosts(&mut self) -> BTreeMap<String, BTreeSet<String>> {
        std::mem::take(&mut self.hosts)
    }

    /// Evidence of each node whose lines were read.
    pub fn finish(self) -> Vec<NodeEvidence> {
        let cut = self.is_cut;
        let evidence = |(name, lines): (String, NodeLines)| {
            let mut evidence = node::evidence(&name, &lines);
            if cut {
                evidence.missing.push(format!("lines after the first {} MiB of evidence", MAX_BYTES >> 20));
            }
            evidence
        };
        self.nodes.into_iter().map(evidence).collect()
    }

    /// Reads the next part of the log.
    fn advance(&mut self) -> io::Result<()> {
        let start = self.partial_line.len();
        self.partial_line.resize(start + self.read_size, 0);
        let count = match self.log.read(&mut self.partial_line[start..]) {
            Ok(count) => count,
            Err(error) => {
                self.partial_line.truncate(start);
                return Err(error);
            }
        };
        self.partial_line.truncate(start + count);
        if count == self.read_size {
            self.read_size = LINE;
        }
        self.ready.0.clear();
        self.ready.1 = 0;
        let mut bytes = std::mem::take(&mut self.partial_line);
        if count == 0 {
            self.is_at_end = true;
            self.complete(&bytes);
            return Ok(());
        }
        let end = memrchr(b'\n', &bytes[start..]).map_or(0, |at| start + at + 1);
        self.complete(&bytes[..end]);
        bytes.drain(..end);
        if bytes.len() > LINE {
            // A line longer than `LINE` is not evidence: pass it on unchanged.
            self.pass(&bytes);
            self.is_inside_line = true;
            bytes.clear();
        }
        self.partial_line = bytes;
        Ok(())
    }

    /// Processes complete lines; the first may be the rest of a line whose beginning was passed on.
    fn complete(&mut self, mut bytes: &[u8]) {
        if self.is_inside_line && !bytes.is_empty() {
            let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            self.pass(&bytes[..end]);
            self.is_inside_line = false;
            bytes = &bytes[end..];
        }
        let mut passed = 0; // end of the processed bytes
        let mut searched = 0;
        while let Some(at) = FINDER.find(&bytes[searched..]).map(|at| searched + at) {
            let start = memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
            let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |newline| at + newline + 1);
            let text = &bytes[at + MARK.len()..end];
            let (evidence, host) =
                (text.strip_prefix(EVIDENCE.as_bytes()), text.strip_prefix(HOST.as_bytes()));
            if (evidence.is_some() || host.is_some()) && is_label(&bytes[start..at]) {
                self.pass(&bytes[passed..start]);
                self.lines += 1;
                self.removed += 1;
                if let Some(text) = evidence {
                    self.keep(text);
                }
                if let Some(text) = host {
                    self.keep_host(text);
                }
                passed = end;
            }
            searched = end;
        }
        self.pass(&bytes[passed..]);
    }

    fn pass(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.ready.0.resize(self.ready.0.len() + std::mem::take(&mut self.removed), b'\n');
        self.ready.0.extend_from_slice(bytes);
        self.lines += memchr_iter(b'\n', bytes).count() as u64;
    }

    /// Stores the node of a host, `HOST NODE`. A line that another process continued has more words and is ignored.
    fn keep_host(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.split_whitespace();
        let (Some(host), Some(node), None) = (words.next(), words.next(), words.next()) else { return };
        let is_room = self.hosts.len() < NODES || self.hosts.contains_key(host);
        if is_room && text.len() <= 2 * NAME {
            self.hosts.entry(host.to_owned()).or_default().insert(node.to_owned());
        }
    }

    /// Stores a line of evidence, `NODE MOMENT SOURCE TEXT`.
    fn keep(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.trim_end_matches(['\n', '\r']).splitn(4, ' ');
        let (Some(node), Some(phase), Some(source)) = (words.next(), words.next(), words.next()) else {
            return;
        };
        let text = words.next().unwrap_or_default();
        let Some(phase) = EvidencePhase::named(phase) else { return };
        self.kept += text.len() + size_of::<EvidenceLine>();
        if self.kept > MAX_BYTES || (self.nodes.len() >= NODES && !self.nodes.contains_key(node)) {
            self.is_cut = true;
            return;
        }
        let line = EvidenceLine { number: self.lines, text: text.to_owned() };
        self.nodes.entry(node.to_owned()).or_default().add(phase, source, line);
    }
}

/// Whether the text before the mark is empty, or the label that a launcher prints before the lines of a process. If a launcher
/// mixes lines, text of another process may precede the mark; such a line belongs to the program.
fn is_label(before: &[u8]) -> bool {
    before.len() <= LABEL
        && before.iter().all(|byte| byte.is_ascii_digit() || b" :,.[]<>stdoutrn".contains(byte))
}

impl<R: Read> Read for EvidenceFilter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.ready.1 == self.ready.0.len() && !self.is_at_end {
            self.advance()?;
        }
        let left = &self.ready.0[self.ready.1..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.ready.1 += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a log in pieces of this size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn filtered(log: &str, size: usize) -> (String, Vec<NodeEvidence>) {
        let mut filter = EvidenceFilter::new(Pieces(log.as_bytes(), size));
        let mut rest = String::new();
        filter.read_to_string(&mut rest).unwrap();
        (rest, filter.finish())
    }

    #[test]
    fn lines_of_evidence_are_removed_and_line_numbers_do_not_change() {
        let log = "first\n0: burnin evidence: n1 before end complete\n0: second\n\
                   burnin evidence: n1 after end complete\nburnin evidence: n1 after end complete";
        for size in [1, 7, 4096] {
            let (rest, nodes) = filtered(log, size);
            assert_eq!(rest, "first\n\n0: second\n", "{size}");
            assert_eq!(nodes.len(), 1);
        }
    }

    #[test]
    fn the_node_of_each_host_is_stored_and_its_line_is_removed() {
        let log = "burnin host: pod-0 n1\r\n2: burnin host: pod-1 n2\nburnin host: pod-2 n3 and more\n\
                   # burnin host: pod-4 n5\nburnin hosts\nburnin host: one n6\nburnin host: one n7\n";
        let mut filter = EvidenceFilter::new(Pieces(log.as_bytes(), 5));
        let mut rest = String::new();
        filter.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "\n\n\n# burnin host: pod-4 n5\nburnin hosts\n");
        let nodes = |host: &str| {
            filter.hosts.get(host).map(|nodes| nodes.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert_eq!((nodes("pod-0"), nodes("pod-1")), (Some(vec!["n1"]), Some(vec!["n2"])));
        assert_eq!((nodes("pod-2"), nodes("pod-4")), (None, None));
        assert_eq!(nodes("one"), Some(vec!["n6", "n7"]));
    }

    #[test]
    fn output_before_and_after_the_mark_is_kept() {
        let log =
            "#  Using devicesburnin evidence: n1 before end complete\n \"burnin evidence: \" is quoted\n";
        let (rest, nodes) = filtered(log, 5);
        assert_eq!(rest, log);
        assert!(nodes.is_empty());
    }

    #[test]
    fn long_lines_pass_unchanged() {
        let log = format!("{}burnin evidence: n1 before end complete\nend\n", "x".repeat(3 * LINE));
        assert_eq!(filtered(&log, 1000).0, log);
        let log = "y".repeat(2 * LINE + 1);
        assert_eq!(filtered(&log, LINE).0, log);
    }

    proptest::proptest! {
        #[test]
        fn a_log_without_the_mark_is_unchanged(log in "([a-z\n:]|burnin ){0,200}", size in 1_usize..50) {
            assert_eq!(filtered(&log, size).0, log);
        }
    }
}
