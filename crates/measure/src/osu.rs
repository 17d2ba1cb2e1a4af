//! OSU micro-benchmarks 7: latency and bandwidth of MPI.
//!
//! The programs print no end mark. The command of a check prints one after them.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, Known, Reader},
    lines::{Line, Lines},
    number::number,
    out::{Out, short},
    text::{Phrase, trim, words},
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
    rows: u64,
    ended: bool,
    failed: bool,
    broken: bool,
}

static TEST: Phrase = Phrase::new(" Test");
static BETWEEN_COLUMNS: Phrase = Phrase::new("  ");

impl Lines for Osu {
    fn line(&mut self, line: Line<'_>, out: &mut Out) {
        let text = trim(line.text);
        if text == "-- end of osu --" {
            self.ended = true;
        } else if let Some(title) = text.strip_prefix("# OSU ") {
            self.ended = false;
            let (title, version) = title.rsplit_once(" v").unwrap_or((title, ""));
            out.version(version);
            let title = title.split_once(' ').map_or(title, |(_, title)| title);
            let title = TEST.split_once(title).map_or(title, |(title, _)| title);
            let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            self.test = short(&words.collect::<Vec<_>>().join("_")).to_ascii_lowercase();
            self.columns.clear();
        } else if text.starts_with("# Size") || text.starts_with("# Avg Latency") {
            self.header(text);
        } else if text.starts_with(|c: char| c.is_ascii_digit()) && !self.columns.is_empty() {
            self.row(text, line, out);
        } else if text.contains("error") || text.contains("ERROR") || text.contains("Abort") {
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

impl Osu {
    /// Reads the header: `# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations`.
    fn header(&mut self, text: &str) {
        let text = text.trim_start_matches(['#', ' ']);
        self.sized = text.starts_with("Size");
        // Two blanks or more separate columns, whose names contain single ones.
        let names = BETWEEN_COLUMNS.split(text).map(str::trim).filter(|name| !name.is_empty()).take(COLUMNS);
        let names: Vec<_> = names.skip(usize::from(self.sized)).collect();
        self.validated = names.iter().position(|name| name.starts_with("Validation"));
        let known = |name: &&str| match *name {
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
        self.columns = names.iter().map(known).collect();
    }

    fn row(&mut self, text: &str, line: Line<'_>, out: &mut Out) {
        let mut words = words(text);
        let size = if self.sized { words.next().unwrap_or_default() } else { "" };
        // A header has fewer columns.
        let mut cells = [""; COLUMNS + 1];
        let columns = cells.iter_mut().zip(words).map(|(cell, word)| *cell = word).count();
        let cells = &cells[..columns];
        if !line.whole || columns != self.columns.len() || cells.iter().all(|word| number(word).is_none()) {
            self.broken = true;
            return;
        }
        self.rows += 1;
        for (known, word) in self.columns.iter().zip(cells) {
            if let Some(known) = known
                && !out.omit()
            {
                let put = out.put(known).parts(&[&self.test]);
                let put = if size.is_empty() { put } else { put.label("size", size) };
                put.read(word, line.number);
            }
        }
        if self.validated.is_some_and(|at| cells.get(at).is_some_and(|word| *word != "Pass")) {
            out.finding("OSU_INVALID", Subject::default(), Severity::WrongData, text, line.number);
        }
    }
}
