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
    format::{Format, MetricDefinition, Reader},
    lines::{Line, Lines},
    number::{PrintedNumber, number},
    reading_builder::{ReadingBuilder, SHORT, short},
    text::{SearchPhrase, find_near, leading_spaces, trim, words},
};

const BANDWIDTH: MetricDefinition = MetricDefinition::new(
    "osu.<test>.bandwidth",
    "MB/s",
    Better::Higher,
    Scope::World,
    "Bandwidth of a test such as `bandwidth` or `bi_directional_bandwidth`, 10^6 bytes a second; label `size` in bytes",
);
const LATENCY: MetricDefinition = MetricDefinition::new(
    "osu.<test>.latency",
    "us",
    Better::Lower,
    Scope::World,
    "Average latency of a test such as `allgather_latency`; label `size` in bytes, absent for a barrier",
);
const LOWEST: MetricDefinition = MetricDefinition::new(
    "osu.<test>.latency.min",
    "us",
    Better::Lower,
    Scope::World,
    "Lowest latency of a rank",
);
const HIGHEST: MetricDefinition = MetricDefinition::new(
    "osu.<test>.latency.max",
    "us",
    Better::Lower,
    Scope::World,
    "Highest latency of a rank",
);
const RATE: MetricDefinition = MetricDefinition::new(
    "osu.<test>.message_rate",
    "1/s",
    Better::Higher,
    Scope::World,
    "Messages per second",
);

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
    columns: Vec<Option<OsuColumn>>,
    sized: bool,
    validated: Option<usize>,
    /// Numbers of the current row, one per column. A row with another number of columns is broken.
    numbers: Vec<Option<PrintedNumber>>,
    rows: u64,
    ended: bool,
    failed: bool,
    broken: bool,
}

/// A column whose numbers are read.
struct OsuColumn {
    definition: &'static MetricDefinition,
    /// Unit in the header, if it differs from the unit of the registry.
    other: Option<Box<str>>,
}

impl OsuColumn {
    /// Reads the title of a column: `Avg Latency(us)`, `Bandwidth (MB/s)`, `Messages/s`.
    ///
    /// Versions 5.9 and 7.4 print these units only. Another unit is passed on as printed, because the verdict does not judge such a value
    /// against bounds in the unit of the registry.
    fn of(title: &str) -> Option<Self> {
        let with_unit =
            title.split_once('(').map(|(name, unit)| (name, unit.strip_suffix(')').unwrap_or(unit)));
        let (name, unit) = with_unit.unwrap_or((title, ""));
        let name = trim(name);
        // The test of message rates prints units without names.
        let (definition, unit) = match name {
            name if name.starts_with("Bandwidth") => (&BANDWIDTH, unit),
            name if name.starts_with("Avg Lat") || name == "Latency" => (&LATENCY, unit),
            name if name.starts_with("Min Lat") => (&LOWEST, unit),
            name if name.starts_with("Max Lat") => (&HIGHEST, unit),
            "Messages/s" => (&RATE, RATE.unit),
            name if name.contains("essages/") => (&RATE, name),
            name if name.ends_with("B/s") && !name.contains(' ') => (&BANDWIDTH, name),
            _ => return None,
        };
        let other = match trim(unit) {
            unit if unit == definition.unit => None,
            "" => Some("unknown"),
            unit => Some(unit),
        };
        Some(Self { definition, other: other.map(|unit| short(unit).into()) })
    }

    fn unit(&self) -> &str {
        self.other.as_deref().unwrap_or(self.definition.unit)
    }
}

static TEST: SearchPhrase = SearchPhrase::new(" Test");

impl Lines for Osu {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        static ERROR: LazyLock<AhoCorasick> =
            LazyLock::new(|| AhoCorasick::new(["error", "ERROR", "Abort"]).expect("short words"));
        let text = trim(line.text);
        // Test for a row first, because most lines are rows.
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

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
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
fn column_names(header: &str) -> impl Iterator<Item = &str> {
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
        let names = column_names(text).take(COLUMNS);
        let names = names.skip(usize::from(self.sized));
        self.columns.clear();
        self.validated = None;
        for (at, name) in names.enumerate() {
            self.validated = self.validated.or(Some(at).filter(|_| name.starts_with("Validation")));
            self.columns.push(OsuColumn::of(name));
        }
    }

    fn row(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let mut words = words(text);
        let size = if self.sized { words.next().unwrap_or_default() } else { "" };
        // A header has at most `COLUMNS` columns, so one more shows that the row is broken.
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
        for (at, (column, number)) in self.columns.iter().zip(&self.numbers).enumerate() {
            if let Some(column) = column
                && !out.omit()
            {
                let metric = out.put_parts(column.definition, &[&self.test], column.unit());
                let metric = if size.is_empty() { metric } else { metric.label("size", size) };
                match *number {
                    Some(number) => metric.value(number, line.number),
                    None => metric.read(cell(at), line.number),
                }
            }
        }
        if self.validated.is_some_and(|at| cell(at) != "Pass") {
            out.finding("OSU_INVALID", Subject::default(), Severity::WrongData, text, line.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Vec<(String, String)> {
        let log = format!("# OSU MPI X Test v7.4\n{header}\n8   2.5   3.5\n-- end of osu --\n");
        let metrics = crate::read_as(&FORMAT, log.as_bytes()).unwrap().metrics;
        metrics.iter().map(|metric| (metric.name.to_string(), metric.unit.to_string())).collect()
    }

    fn columns(first: (&str, &str), second: (&str, &str)) -> Vec<(String, String)> {
        [first, second].map(|(name, unit)| (name.to_owned(), unit.to_owned())).to_vec()
    }

    /// Headers as in `osu_util_mpi.c` of version 7.4 and in the programs of 5.9.
    #[test]
    fn printed_units_equal_the_units_of_the_registry() {
        assert_eq!(
            read("# Size      Bandwidth (MB/s)        Validation"),
            [("osu.x.bandwidth".to_owned(), "MB/s".to_owned())]
        );
        assert_eq!(
            read("# Size          Latency (us)        Validation"),
            [("osu.x.latency".to_owned(), "us".to_owned())]
        );
        assert_eq!(
            read("# Size                  MB/s        Messages/s"),
            columns(("osu.x.bandwidth", "MB/s"), ("osu.x.message_rate", "1/s"))
        );
        assert_eq!(
            read("# Size       Avg Latency(us)   Max Latency(us)"),
            columns(("osu.x.latency", "us"), ("osu.x.latency.max", "us"))
        );
    }

    #[test]
    fn a_unit_other_than_the_registry_unit_is_kept_as_printed() {
        assert_eq!(
            read("# Size      Bandwidth (GB/s)   Avg Latency(ms)"),
            columns(("osu.x.bandwidth", "GB/s"), ("osu.x.latency", "ms"))
        );
        assert_eq!(
            read("# Size                  GB/s     M Messages/s"),
            columns(("osu.x.bandwidth", "GB/s"), ("osu.x.message_rate", "M Messages/s"))
        );
        assert_eq!(
            read("# Size             Bandwidth           Latency"),
            columns(("osu.x.bandwidth", "unknown"), ("osu.x.latency", "unknown"))
        );
        assert_eq!(
            read("# Size             Bandwidth (MB/s   Latency ()"),
            columns(("osu.x.bandwidth", "MB/s"), ("osu.x.latency", "unknown"))
        );
    }
}
