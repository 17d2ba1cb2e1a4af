//! perftest: `ib_write_bw`, `ib_read_bw`, `ib_write_lat` and the other programs of the package.
//!
//! A client and a server in one log print one header and one closing line each. The JSON output has no unit. Since 24.01 one key of the
//! JSON output has no quotes. Up to 23.10 only the name of the device has quotes, and a comma follows each last member
//! (linux-rdma/perftest, `src/perftest_parameters.c`, `write_test_info_to_file`, at v4.5-0.20, 23.10.0-0.29 and 24.01.0-0.38).

use std::sync::Arc;

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    number::number,
    reading_builder::{ReadingBuilder, short},
    text::{SearchPhrase, trim, words},
};

const BANDWIDTH: MetricDefinition = MetricDefinition::new(
    "perftest.<verb>.bandwidth",
    "printed",
    Better::Higher,
    Scope::Pair,
    "Average bandwidth of `write`, `read`, `send` or `atomic`; label `size` in bytes, label `direction: both` for a \
     bidirectional test. The unit is printed in text (`MB/sec` of old versions is not converted: it means MiB/s) and \
     `unknown` in JSON",
);
const PEAK: MetricDefinition = MetricDefinition::new(
    "perftest.<verb>.bandwidth.peak",
    "printed",
    Better::None,
    Scope::Pair,
    "Highest bandwidth; no value in tests of a fixed duration, which print 0.00",
);
const RATE: MetricDefinition = MetricDefinition::new(
    "perftest.<verb>.message_rate",
    "Mpps",
    Better::None,
    Scope::Pair,
    "Messages per microsecond",
);
const LATENCY: MetricDefinition = MetricDefinition::new(
    "perftest.<verb>.latency.<statistic>",
    "us",
    Better::Lower,
    Scope::Pair,
    "Latency: `min`, `max`, `typical`, `avg`, `stdev`, `p99`, `p99_9`",
);

pub(crate) const FORMAT: Format = Format {
    name: "perftest",
    programs: "perftest 4.5 to 26.04: bandwidth and latency tests, text and `--out_json`",
    end: "text: the line of dashes after the rows of each program; JSON: the closing bracket",
    unread: "settings and addresses other than the device; numbers of iterations",
    metrics: &[BANDWIDTH, PEAK, RATE, LATENCY],
    findings: &[("PERFTEST_ERROR", "The program failed")],
    marks: &[
        &["#bytes", "#iterations", "BW average["],
        &["#bytes", "#iterations", "t_avg["],
        &["\"test_info\"", "\"n_iterations\""],
        &["test_info: {", "n_iterations: "],
        &["RDMA_Write BW Test"],
        &["RDMA_Read BW Test"],
        &["RDMA_Write Latency Test"],
        &["Send BW Test"],
        &["Bidirectional BW Test"],
    ],
    reader: Reader::Lines(|| Box::<PerftestTest>::default()),
};

#[derive(Default)]
struct PerftestTest {
    json: JsonDocuments,
    verb: String,
    both: bool,
    device: Option<Arc<str>>,
    columns: Vec<PerftestColumn>,
    /// Whether a program has started and has not printed its header yet.
    pending: bool,
    headers: u32,
    ends: u32,
    started: bool,
    failed: bool,
    broken: bool,
}

#[derive(Clone, Debug)]
enum PerftestColumn {
    Size,
    Metric(&'static MetricDefinition, &'static str, String),
    Unread,
}

/// Maximum number of columns.
const COLUMNS: usize = 32;

/// Statistics of latency, by the name of their column.
const STATISTICS: [(&str, &str); 9] = [
    ("t_min", "min"),
    ("t_max", "max"),
    ("t_typical", "typical"),
    ("t_avg", "avg"),
    ("t_stdev", "stdev"),
    ("99%", "p99"),
    ("99.9%", "p99_9"),
    ("percentile_99", "p99"),
    ("percentile_99.9", "p99_9"),
];

impl Lines for PerftestTest {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        if self.json.line(&line, b"{", out, document) {
            return;
        }
        let text = trim(line.text);
        // Lines of all other kinds contain a capital letter, or do not begin with a digit.
        let is_row = text.starts_with(|c: char| c.is_ascii_digit())
            && !text.bytes().fold(false, |found, byte| found | byte.is_ascii_uppercase());
        if is_row && self.headers > 0 {
            self.row(text, line, out);
        } else if text.starts_with("#bytes") {
            self.columns = columns(text);
            self.headers += 1;
            self.pending = false;
            self.broken |= !line.whole;
        } else if text.len() >= 40 && text.bytes().all(|byte| byte == b'-') {
            self.ends += u32::from(self.headers > self.ends);
        } else if let Some(title) = text.strip_suffix(" Test").filter(|title| title.len() < 60) {
            self.title(title);
        } else if text.contains("Waiting for client to connect") {
            self.pending = true;
        } else if let Some(device) = device(text) {
            let device = device.trim_start().strip_prefix(':').unwrap_or_default().trim();
            if !device.is_empty() {
                self.device = Some(out.name(device));
            }
        } else if self.headers > 0 && text.starts_with(|c: char| c.is_ascii_digit()) {
            self.row(text, line, out);
        } else if is_error(text) {
            self.failed = true;
            out.error(text);
            out.finding("PERFTEST_ERROR", Subject::default(), Severity::Unknown, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        self.json.finish(match () {
            () if self.headers > 0
                && self.ends == self.headers
                && !self.pending
                && !self.broken
                && !self.failed =>
            {
                LogEnd::Complete
            }
            () if self.failed => LogEnd::Failed,
            () if self.started || self.headers > 0 || self.pending => LogEnd::Truncated,
            () => LogEnd::Empty,
        })
    }
}

/// The text after `Device `, near the beginning of a line.
fn device(text: &str) -> Option<&str> {
    static DEVICE: SearchPhrase = SearchPhrase::new("Device ");
    let (before, device) = DEVICE.split_once(text)?;
    (before.len() < 40).then_some(device)
}

fn is_error(text: &str) -> bool {
    const WORDS: [&str; 8] = [
        "Couldn't ",
        "Unable to ",
        "Failed to ",
        "Failed status ",
        "Completion with error",
        "failed",
        "Did not detect devices",
        "Problems",
    ];
    WORDS.iter().any(|word| text.starts_with(word))
        || text.contains("IB device") && text.contains("not found")
}

/// The name of the test in a title, such as `RDMA_Write Bidirectional BW`.
fn verb(title: &str) -> (String, bool) {
    let title = title.trim().to_ascii_lowercase();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let verb =
        words.filter(|word| *word != "rdma").find(|word| ["write", "read", "send", "atomic"].contains(word));
    (verb.unwrap_or("other").to_owned(), title.contains("bidirectional"))
}

/// The columns of a header: `BW average[MiB/sec]` and `99% percentile[usec]` contain a blank.
fn columns(header: &str) -> Vec<PerftestColumn> {
    let mut columns = Vec::new();
    let mut words = header.split_whitespace();
    while let Some(word) = words.next().filter(|_| columns.len() < COLUMNS) {
        let column = match word {
            "BW" | "99%" | "99.9%" | "tps" => format!("{word} {}", words.next().unwrap_or_default()),
            _ => word.to_owned(),
        };
        let (name, unit) = column.split_once('[').unwrap_or((&column, ""));
        let unit = match unit.trim_end_matches(']') {
            "MiB/sec" => "MiB/s",
            "Gb/sec" => "Gb/s",
            "usec" => "us",
            "" => "unknown",
            other => other,
        };
        let statistic = name.split(' ').next().unwrap_or_default();
        let statistic = STATISTICS.iter().find(|(column, _)| *column == statistic);
        columns.push(match (name, statistic) {
            ("#bytes", _) => PerftestColumn::Size,
            ("BW peak", _) => PerftestColumn::Metric(&PEAK, "bandwidth.peak", short(unit).to_owned()),
            ("BW average", _) => PerftestColumn::Metric(&BANDWIDTH, "bandwidth", short(unit).to_owned()),
            ("MsgRate", _) => PerftestColumn::Metric(&RATE, "message_rate", short(unit).to_owned()),
            (_, Some((_, statistic))) => PerftestColumn::Metric(&LATENCY, statistic, short(unit).to_owned()),
            _ => PerftestColumn::Unread,
        });
    }
    columns
}

impl PerftestTest {
    fn title(&mut self, title: &str) {
        if ["BW", "Latency", "Rate"].iter().any(|word| title.contains(word)) {
            self.started = true;
            (self.verb, self.both) = verb(title);
        }
    }

    fn row(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        // A header has at most `COLUMNS` columns, so one more shows that the row is broken.
        let mut cells = [""; COLUMNS + 1];
        let words = words(text);
        let columns = cells.iter_mut().zip(words).map(|(cell, word)| *cell = word).count();
        if columns != self.columns.len() || !line.whole {
            self.broken = true;
            return;
        }
        let cells = self.columns.iter().zip(&cells[..columns]);
        let size =
            cells.clone().find_map(|(column, word)| matches!(column, PerftestColumn::Size).then_some(*word));
        let row = ResultLine {
            verb: &self.verb,
            both: self.both,
            size: size.unwrap_or_default(),
            device: self.device.as_ref(),
        };
        for (column, word) in cells {
            if let PerftestColumn::Metric(known, name, unit) = column {
                row.put(known, name, unit, word, line.number, out);
            }
        }
    }
}

/// The common properties of the metrics of one row.
struct ResultLine<'a> {
    verb: &'a str,
    both: bool,
    size: &'a str,
    device: Option<&'a Arc<str>>,
}

impl ResultLine<'_> {
    fn put(
        &self,
        definition: &'static MetricDefinition,
        name: &str,
        unit: &str,
        text: &str,
        line: u64,
        out: &mut ReadingBuilder,
    ) {
        if out.omit() {
            return;
        }
        let verb = if self.verb.is_empty() { "other" } else { self.verb };
        let mut put = out.put_parts(definition, &[verb, name], unit).label("size", self.size);
        if self.both {
            put = put.label("direction", "both");
        }
        let metric = put.subject(|subject| subject.link = self.device.cloned());
        let is_peak = definition.name == PEAK.name;
        if is_peak && number(text).is_some_and(|number| number.value == 0.0) {
            metric.unmeasurable("0.00 in a test of fixed duration", line);
        } else {
            metric.read(text, line);
        }
    }
}

/// Reads `{"test_info": {...}, "results": {...}}`.
fn document(root: JsonValue<'_>, out: &mut ReadingBuilder) -> LogEnd {
    let (Some(info), Some(results)) = (root.get("test_info"), root.get("results")) else {
        return if root.get("test_info").is_some() { LogEnd::Truncated } else { LogEnd::Empty };
    };
    let (verb, both) = verb(&info.get_text("test").unwrap_or_default());
    let device = info.get_text("Device").map(|device| out.name(&device));
    let single = results.get("MsgSize").map(|_| results);
    let mut count = 0;
    for row in results.items().chain(single) {
        let size = row.get_text("MsgSize").unwrap_or_default();
        let common = ResultLine { verb: &verb, both, size: &size, device: device.as_ref() };
        for (key, value) in row.members() {
            let statistic = STATISTICS.iter().find(|(column, _)| *column == key);
            let (known, name, unit) = match (&*key, statistic) {
                ("BW_average", _) => (&BANDWIDTH, "bandwidth", "unknown"),
                ("BW_peak", _) => (&PEAK, "bandwidth.peak", "unknown"),
                ("MsgRate", _) => (&RATE, "message_rate", "Mpps"),
                // Microseconds. With option `-C` the values are processor cycles, which the program labels as microseconds in its text
                // output too.
                (_, Some((_, statistic))) => (&LATENCY, *statistic, "us"),
                _ => continue,
            };
            count += 1;
            common.put(known, name, unit, &value.text().unwrap_or_default(), value.line(), out);
        }
    }
    if count == 0 { LogEnd::Truncated } else { LogEnd::Complete }
}
