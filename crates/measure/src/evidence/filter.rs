//! Removes the lines of evidence from a log.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    sync::LazyLock,
};

use memchr::{memchr, memchr_iter, memmem::Finder, memrchr};
use model::NodeEvidence;

use super::{
    line::EvidenceLine,
    node::{self, Moment, NodeLines},
};
use crate::input::Failing;

/// Beginning of a line of evidence, after the launcher's label.
const MARK: &str = "burnin evidence: ";
/// Maximum length of a label of a launcher, bytes: `12: `, `[1,0]<stdout>:`.
const LABEL: usize = 40;
/// Maximum bytes of all kept lines. A node with eight GPUs prints about 10 kB.
const MAX_BYTES: usize = 32 << 20;
/// Maximum number of nodes.
const NODES: usize = 16_384;
/// Maximum length of a kept line, bytes; also the size of one read.
const LINE: usize = 64 * 1024;

static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MARK));

/// Passes a log on without its lines of evidence. A removed line becomes an empty one, so that line numbers do not
/// change; removed lines at the end of the log leave no empty line, because an empty line may end a document.
pub struct EvidenceFilter<R> {
    log: R,
    /// Bytes to pass on, and the position of the first one that the caller has not read.
    ready: (Vec<u8>, usize),
    /// Bytes of the incomplete last line.
    begun: Vec<u8>,
    /// The beginning of the incomplete last line was passed on already.
    is_inside_line: bool,
    /// Removed lines for which no empty line was passed on yet.
    removed: usize,
    /// Number of complete lines.
    lines: u64,
    is_at_end: bool,
    nodes: BTreeMap<String, NodeLines>,
    kept: usize,
    /// Lines were left out because of a maximum.
    is_cut: bool,
}

impl<'a> EvidenceFilter<Box<dyn Read + 'a>> {
    /// Wraps a log that may be compressed. The first read returns an error in the first bytes.
    pub fn unpacked(log: impl Read + 'a) -> Self {
        Self::new(match nccl::unpacked(log) {
            Ok(log) => Box::new(log),
            Err(error) => Box::new(Failing(Some(error))),
        })
    }
}

impl<R: Read> EvidenceFilter<R> {
    /// Wraps a plain-text log.
    pub fn new(log: R) -> Self {
        Self {
            log,
            ready: (Vec::new(), 0),
            begun: Vec::new(),
            is_inside_line: false,
            removed: 0,
            lines: 0,
            is_at_end: false,
            nodes: BTreeMap::new(),
            kept: 0,
            is_cut: false,
        }
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
        let begun = self.begun.len();
        self.begun.resize(begun + LINE, 0);
        let count = match self.log.read(&mut self.begun[begun..]) {
            Ok(count) => count,
            Err(error) => {
                self.begun.truncate(begun);
                return Err(error);
            }
        };
        self.begun.truncate(begun + count);
        self.ready.0.clear();
        self.ready.1 = 0;
        let mut bytes = std::mem::take(&mut self.begun);
        if count == 0 {
            self.is_at_end = true;
            self.complete(&bytes);
            return Ok(());
        }
        let end = memrchr(b'\n', &bytes[begun..]).map_or(0, |at| begun + at + 1);
        self.complete(&bytes[..end]);
        bytes.drain(..end);
        if bytes.len() > LINE {
            // Lines of evidence are shorter.
            self.pass(&bytes);
            self.is_inside_line = true;
            bytes.clear();
        }
        self.begun = bytes;
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
            if is_label(&bytes[start..at]) {
                self.pass(&bytes[passed..start]);
                self.lines += 1;
                self.removed += 1;
                self.keep(&bytes[at + MARK.len()..end]);
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

    /// Stores a line of evidence, `NODE MOMENT SOURCE TEXT`.
    fn keep(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.trim_end_matches(['\n', '\r']).splitn(4, ' ');
        let (Some(node), Some(moment), Some(source)) = (words.next(), words.next(), words.next()) else {
            return;
        };
        let text = words.next().unwrap_or_default();
        let Some(moment) = Moment::named(moment) else { return };
        self.kept += text.len() + size_of::<EvidenceLine>();
        if self.kept > MAX_BYTES || (self.nodes.len() >= NODES && !self.nodes.contains_key(node)) {
            self.is_cut = true;
            return;
        }
        let line = EvidenceLine { number: self.lines, text: text.to_owned() };
        self.nodes.entry(node.to_owned()).or_default().add(moment, source, line);
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
    fn lines_of_evidence_are_removed_and_line_numbers_stay() {
        let log = "first\n0: burnin evidence: n1 before end complete\n0: second\n\
                   burnin evidence: n1 after end complete\nburnin evidence: n1 after end complete";
        for size in [1, 7, 4096] {
            let (rest, nodes) = filtered(log, size);
            assert_eq!(rest, "first\n\n0: second\n", "{size}");
            assert_eq!(nodes.len(), 1);
        }
    }

    #[test]
    fn text_of_a_program_around_the_mark_stays() {
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
