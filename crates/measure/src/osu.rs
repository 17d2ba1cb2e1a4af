//! OSU micro-benchmarks 7: latency and bandwidth of MPI.
//!
//! The programs print no end mark. The command of a check prints one after them.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, Known, Reader},
    lines::{Line, Lines},
    number::{Number, number},
    out::{Out, SHORT},
    text::{Phrase, find_near, leading_spaces, trim, words},
};

const BANDWIDTH: Known = Known::new(
    "osu.<test>.bandwidth",
    "MB/s",
    Better::Higher,
    Scope::World,
    "Bandwidth of a test such as `bandwidth` or `bi_directional_bandwidth`, 10^6 bytes a second; label `size` in bytes",
);
const LATENCY: Known = Known::new(
    "osu.<test>.latency",
    "us",
    Better::Lower,
    Scope::World,
    "Average latency of a test such as `allgather_latency`; label `size` in bytes, absent for a barrier",
);
const LOWEST: Known =
    Known::new("osu.<test>.latency.min", "us", Better::Lower, Scope::World, "Lowest latency of a rank");
const HIGHEST: Known =
    Known::new("osu.<test>.latency.max", "us", Better::Lower, Scope::World, "Highest latency of a rank");
const RATE: Known =
    Known::new("osu.<test>.message_rate", "1/s", Better::Higher, Scope::World, "Messages per second");

pub(crate) const FORMAT: Format = Format {
    name: "osu",
    programs: "OSU micro-benchmarks 5 to 7, text",
    end: "a line `-- end of osu --`, which the command of the check prints after the program",
    unread: "iterations and settings",
    metrics: &[BANDWIDTH, LATENCY, LOWEST, HIGHEST, RATE],
    findings: &[("OSU_ERROR", "The program failed"), ("OSU_INVALID", "The validation of the data failed")],
    marks: &[&["# OSU MPI "], &["# OSU NCCL "], &["# OSU OpenSHMEM "]],
    reader: Reader::Lines(|| Box::<Osu>::default()),
};

/// Maximum number of columns.
const COLUMNS: usize = 16;

#[derive(Default)]
struct Osu {
    test: String,
    columns: Vec<Option<&'static Known>>,
    sized: bool,
    validated: Option<usize>,
    /// Numbers of the row, one per column; a row with other columns is broken.
    numbers: Vec<Option<Number>>,
    rows: u64,
    ended: bool,
    failed: bool,
    broken: bool,
}

static TEST: Phrase = Phrase::new(" Test");

impl Lines for Osu {
    fn line(&mut self, line: Line<'_>, out: &mut Out) {
        static ERROR: LazyLock<AhoCorasick> =
            LazyLock::new(|| AhoCorasick::new(["error", "ERROR", "Abort"]).expect("short words"));
        let text = trim(line.text);
        // Most lines are rows.
        if text.starts_with(|c: char| c.is_ascii_digit()) && !self.columns.is_empty() {
            self.row(text, line, out);
        } else if text == "-- end of osu --" {
            self.ended = true;
        } else if let Some(title) = text.strip_prefix("# OSU ") {
            self.ended = false;
            let version = title.as_bytes().windows(2).rposition(|pair| pair == b" v");
            let (title, version) = version.map_or((title, ""), |at| (&title[..at], &title[at + 2..]));
            out.version(version);
            let title = title.split_once(' ').map_or(title, |(_, title)| title);
            let title = TEST.split_once(title).map_or(title, |(title, _)| title);
            self.test = name_of_test(title, std::mem::take(&mut self.test));
            self.columns.clear();
        } else if text.starts_with("# Size") || text.starts_with("# Avg Latency") {
            self.header(text);
        } else if ERROR.is_match(text) {
            self.failed = true;
            out.error(text);
            out.finding("OSU_ERROR", Subject::default(), Severity::Unknown, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut Out) -> LogEnd {
        match () {
            () if self.ended && self.rows > 0 && !self.failed && !self.broken => LogEnd::Complete,
            () if self.failed => LogEnd::Failed,
            () if self.rows > 0 || !self.test.is_empty() => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

/// The name of a test, such as `multiple_bandwidth_message_rate`: the words of its title. Reuses the memory of `other`.
fn name_of_test(title: &str, other: String) -> String {
    let mut name = other.into_bytes();
    name.clear();
    for byte in title.bytes() {
        if byte.is_ascii_alphanumeric() {
            name.push(byte.to_ascii_lowercase());
        } else if name.last().is_some_and(|last| *last != b'_') {
            name.push(b'_');
        }
    }
    if name.last() == Some(&b'_') {
        name.pop();
    }
    name.truncate(SHORT);
    String::from_utf8(name).unwrap_or_default()
}

/// The names of columns, which contain single blanks: two blanks or more separate them.
fn names(header: &str) -> impl Iterator<Item = &str> {
    let mut rest = header;
    std::iter::from_fn(move || {
        rest = rest[leading_spaces(rest.as_bytes())..].trim_start_matches(' ');
        let bytes = rest.as_bytes();
        let mut end = 0;
        // A single blank belongs to the name.
        while end < bytes.len() && !bytes[end..].starts_with(b"  ") {
            end += 1 + find_near([b' '], &bytes[end + 1..]).unwrap_or(bytes.len() - end - 1);
        }
        let name = &rest[..end];
        rest = &rest[end..];
        (!name.is_empty()).then(|| trim(name))
    })
    .filter(|name| !name.is_empty())
}

impl Osu {
    /// Reads the header: `# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations`.
    fn header(&mut self, text: &str) {
        let text = text.trim_start_matches(['#', ' ']);
        self.sized = text.starts_with("Size");
        let names = names(text).take(COLUMNS);
        let names = names.skip(usize::from(self.sized));
        let known = |name: &str| match name {
            name if name.starts_with("Bandwidth") || name == "MB/s" => Some(&BANDWIDTH),
            name if name.starts_with("Avg Latency")
                || name.starts_with("Avg Lat")
                || name == "Latency (us)" =>
            {
                Some(&LATENCY)
            }
            name if name.starts_with("Min Lat") => Some(&LOWEST),
            name if name.starts_with("Max Lat") => Some(&HIGHEST),
            "Messages/s" => Some(&RATE),
            _ => None,
        };
        self.columns.clear();
        self.validated = None;
        for (at, name) in names.enumerate() {
            self.validated = self.validated.or(Some(at).filter(|_| name.starts_with("Validation")));
            self.columns.push(known(name));
        }
    }

    fn row(&mut self, text: &str, line: Line<'_>, out: &mut Out) {
        let mut words = words(text);
        let size = if self.sized { words.next().unwrap_or_default() } else { "" };
        // A header has fewer columns.
        let cells = words.take(COLUMNS + 1);
        self.numbers.clear();
        self.numbers.extend(cells.clone().map(number));
        if !line.whole || self.numbers.len() != self.columns.len() || self.numbers.iter().all(Option::is_none)
        {
            self.broken = true;
            return;
        }
        self.rows += 1;
        let cell = |at| cells.clone().nth(at).unwrap_or_default();
        for (at, (known, number)) in self.columns.iter().zip(&self.numbers).enumerate() {
            if let Some(known) = known
                && !out.omit()
            {
                let put = out.put_parts(known, &[&self.test], known.unit);
                let put = if size.is_empty() { put } else { put.label("size", size) };
                match *number {
                    Some(number) => put.value(number, line.number),
                    None => put.read(cell(at), line.number),
                }
            }
        }
        if self.validated.is_some_and(|at| cell(at) != "Pass") {
            out.finding("OSU_INVALID", Subject::default(), Severity::WrongData, text, line.number);
        }
    }
}
