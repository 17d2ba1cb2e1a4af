//! nvbandwidth: copies between host and GPUs, and between GPUs.
//!
//! Each test prints a matrix and the sum of its values. The sum is compared with the matrix: a lost row or a changed digit
//! makes the log incomplete.

use std::sync::Arc;

use memchr::memchr3;
use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    number::{PrintedNumber, count, number},
    reading_builder::{MetricBuilder, ReadingBuilder, short},
    text::words,
};

const COPY: MetricDefinition = MetricDefinition::new(
    "nvbandwidth.<test>",
    "printed",
    Better::Higher,
    Scope::Gpu,
    "Bandwidth of a test, or latency if its name contains `latency` (then lower is better); between two GPUs the scope is \
     `pair`. Label `part` distinguishes several matrices of one test, label `cpu` rows of the host other than 0. A waived test has no \
     value. Text output does not name waived tests: the test is `unnamed`, unless the log lists all tests of version 0.6 to 0.9 in their usual order",
);

/// Tests of version 0.7 and later in their usual order; those with `true` are absent in version 0.6 (NVIDIA/nvbandwidth, nvbandwidth.cpp,
/// `createTestcases` at v0.6, v0.7 and v0.8).
const TESTS: [(&str, bool); 35] = [
    ("host_to_device_memcpy_ce", false),
    ("device_to_host_memcpy_ce", false),
    ("host_to_device_bidirectional_memcpy_ce", false),
    ("device_to_host_bidirectional_memcpy_ce", false),
    ("device_to_device_memcpy_read_ce", false),
    ("device_to_device_memcpy_write_ce", false),
    ("device_to_device_bidirectional_memcpy_read_ce", false),
    ("device_to_device_bidirectional_memcpy_write_ce", false),
    ("all_to_host_memcpy_ce", false),
    ("all_to_host_bidirectional_memcpy_ce", false),
    ("host_to_all_memcpy_ce", false),
    ("host_to_all_bidirectional_memcpy_ce", false),
    ("all_to_one_write_ce", false),
    ("all_to_one_read_ce", false),
    ("one_to_all_write_ce", false),
    ("one_to_all_read_ce", false),
    ("host_to_device_memcpy_sm", false),
    ("device_to_host_memcpy_sm", false),
    ("host_to_device_bidirectional_memcpy_sm", true),
    ("device_to_host_bidirectional_memcpy_sm", true),
    ("device_to_device_memcpy_read_sm", false),
    ("device_to_device_memcpy_write_sm", false),
    ("device_to_device_bidirectional_memcpy_read_sm", false),
    ("device_to_device_bidirectional_memcpy_write_sm", false),
    ("all_to_host_memcpy_sm", false),
    ("all_to_host_bidirectional_memcpy_sm", false),
    ("host_to_all_memcpy_sm", false),
    ("host_to_all_bidirectional_memcpy_sm", false),
    ("all_to_one_write_sm", false),
    ("all_to_one_read_sm", false),
    ("one_to_all_write_sm", false),
    ("one_to_all_read_sm", false),
    ("host_device_latency_sm", false),
    ("device_to_device_latency_sm", false),
    ("device_local_copy", true),
];
/// Maximum number of tests of a log, to limit memory; the program has fewer.
const MAX_TESTS: usize = 256;

pub(crate) const FORMAT: Format = Format {
    name: "nvbandwidth",
    programs: "nvbandwidth 0.6 and later, text and JSON; 0.5 and earlier print no end mark and are truncated",
    end: "text: the line `NOTE: The reported results ...` after the last test; JSON: the closing bracket",
    unread: "Git and CUDA versions; `MIN`, `MAX`, `AVG`; values of a GPU with itself",
    metrics: &[COPY],
    findings: &[("NVBANDWIDTH_ERROR", "A test or the program failed")],
    marks: &[&["nvbandwidth Version:"], &["\"nvbandwidth\""], &["memcpy CE CPU(row)"]],
    reader: Reader::Lines(|| Box::<Copies>::default()),
};

#[derive(Default)]
struct Copies {
    json: JsonDocuments,
    test: Option<NvbandwidthTest>,
    tests: u64,
    /// The tests in the order of the log.
    order: Vec<Listed>,
    /// Whether the note after the last test was read.
    noted: bool,
    /// Whether a matrix is incomplete or contradicts its sum.
    broken: bool,
}

/// An entry of the list of tests.
enum Listed {
    Started(String),
    /// Line number of a test that the program does not start; the line does not name the test.
    Waived(u64),
}

#[derive(Default)]
struct NvbandwidthTest {
    name: String,
    metric: TestName,
    matrix: Option<PrintedMatrix>,
}

/// One matrix, whose values are added row by row.
#[derive(Default)]
struct PrintedMatrix {
    unit: String,
    /// Whether the rows are GPUs, like the columns.
    pairs: bool,
    part: Option<&'static str>,
    columns: usize,
    /// Number of significant digits, if trailing zeros are omitted.
    digits: Option<i32>,
    sum: f64,
    /// Maximum rounding error of the sum.
    rounding: f64,
}

impl PrintedMatrix {
    fn of(description: &str) -> Self {
        let unit = description.rsplit_once('(').and_then(|(_, unit)| unit.strip_suffix(')'));
        Self {
            unit: short(unit.unwrap_or("unknown")).to_owned(),
            pairs: description.contains("GPU(row)"),
            part: part(description),
            ..Self::default()
        }
    }

    /// Adds one value. A GPU is not measured with itself.
    fn value(
        &mut self,
        test: &TestName,
        (row, column): (u32, u32),
        text: &str,
        line: u64,
        out: &mut ReadingBuilder,
    ) {
        let number = number(text);
        if let Some(PrintedNumber { value, resolution }) = number {
            self.sum += value;
            self.rounding += resolution.unwrap_or(0.0) / 2.0;
        }
        if self.pairs && row == column {
            return;
        }
        let mut put = test.put(out, &self.unit);
        if let Some(part) = self.part {
            put = put.label("part", part);
        }
        if self.pairs {
            put = put.scope(Scope::Pair).gpu(row);
            put = put.subject(|subject| subject.peer = Some(column.to_string().into()));
        } else {
            if row > 0 {
                put = put.label("cpu", &row.to_string());
            }
            put = put.gpu(column);
        }
        match number {
            Some(number) => put.value(self.digits.map_or(number, |digits| number.with_digits(digits)), line),
            None => put.unmeasurable(text, line),
        }
    }

    /// Whether the printed sum equals the sum of the values, within rounding.
    fn agrees(&self, sum: PrintedNumber) -> bool {
        let rounding = self.rounding + sum.resolution.unwrap_or(0.0) / 2.0;
        (self.sum - sum.value).abs() <= rounding * 1.001 + sum.value.abs() * 1e-9
    }
}

/// The part of a test that a matrix with this description shows.
fn part(description: &str) -> Option<&'static str> {
    // Return early for most descriptions: most tests have one matrix, whose description has none of these characters.
    memchr3(b'1', b'2', b'T', description.as_bytes())?;
    let has = |words: [&str; 2]| words.iter().any(|word| description.contains(word));
    let parts = [("1", ["Read1", "Write1"]), ("2", ["Read2", "Write2"]), ("total", ["Total", "Total"])];
    parts.into_iter().find(|(_, words)| has(*words)).map(|(name, _)| name)
}

/// Name of a test in the form that metric names contain.
#[derive(Default)]
struct TestName {
    plain: String,
    is_latency: bool,
}

impl TestName {
    fn of(test: &str) -> Self {
        let mut plain = test.to_ascii_lowercase();
        if !plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            plain = plain.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        }
        Self { is_latency: plain.contains("latency"), plain }
    }

    /// Starts the metric of the test.
    fn put<'a>(&self, out: &'a mut ReadingBuilder, unit: &str) -> MetricBuilder<'a> {
        let better = if self.is_latency { Better::Lower } else { Better::Higher };
        out.put_parts(&COPY, &[&self.plain], unit).better(better)
    }
}

impl Lines for Copies {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        if self.json.line(&line, b"{", out, document) {
            return;
        }
        let text = line.text.trim_ascii_start();
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return self.matrix(text, line, out);
        }
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match first {
            "nvbandwidth" if rest.starts_with("Version:") => out.version(&rest["Version:".len()..]),
            "Device" | "Process" => device(text, out),
            "Running" => {
                self.broken |= self.test.is_some();
                self.noted = false;
                let name = short(rest.trim_end_matches('.')).to_owned();
                self.add_test(Listed::Started(name.clone()));
                self.test =
                    Some(NvbandwidthTest { metric: TestName::of(&name), name, ..NvbandwidthTest::default() });
            }
            "SUM" => self.sum(rest, line.whole),
            "NOTE:" if rest.starts_with("The reported results") => self.noted = true,
            "Waived:" => {
                self.noted = false;
                match self.test.take() {
                    Some(test) => waived(&test.name, line.number, out),
                    None => self.add_test(Listed::Waived(line.number)),
                }
            }
            "ERROR:" | "Error:" | "Not" if text.contains(':') => {
                out.error(text);
                out.finding("NVBANDWIDTH_ERROR", Subject::default(), Severity::Unknown, text, line.number);
                self.test = None;
            }
            _ if text.starts_with("[") && text.contains("_ERROR") => {
                out.error(text);
                out.finding("NVBANDWIDTH_ERROR", Subject::default(), Severity::Unknown, text, line.number);
            }
            _ => self.matrix(text, line, out),
        }
    }

    fn finish(&mut self, out: &mut ReadingBuilder) -> LogEnd {
        let text = if self.noted && self.test.is_none() && self.tests > 0 && !self.broken {
            self.put_waived(out);
            LogEnd::Complete
        } else if self.tests == 0 && out.reading.first_error.is_some() {
            LogEnd::Failed
        } else if self.tests > 0 || self.noted {
            LogEnd::Truncated
        } else {
            LogEnd::Empty
        };
        self.json.finish(text)
    }
}

impl Copies {
    fn add_test(&mut self, test: Listed) {
        self.tests += 1;
        self.broken |= self.order.len() == MAX_TESTS;
        if !self.broken {
            self.order.push(test);
        }
    }

    /// Adds the waived tests of a complete log. They are named only if the log has all tests in their usual order.
    fn put_waived(&self, out: &mut ReadingBuilder) {
        let all: Vec<_> = TESTS.iter().map(|(name, _)| *name).collect();
        let old: Vec<_> = TESTS.iter().filter(|(_, is_new)| !is_new).map(|(name, _)| *name).collect();
        let is_usual = |names: &Vec<&str>| {
            let matches = |(test, name): (&Listed, &&str)| match test {
                Listed::Started(test) => test == name,
                Listed::Waived(_) => true,
            };
            names.len() == self.order.len() && self.order.iter().zip(names).all(matches)
        };
        let names = [all, old].into_iter().find(is_usual);
        for (at, test) in self.order.iter().enumerate() {
            if let Listed::Waived(line) = test {
                waived(names.as_ref().map_or("unnamed", |names| names[at]), *line, out);
            }
        }
    }

    /// Reads a line of a matrix: its description, the numbers of its columns, or a row.
    fn matrix(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let Some(test) = &mut self.test else { return };
        if text.ends_with(')') && text.contains('(') {
            self.broken |= test.matrix.is_some();
            test.matrix = Some(PrintedMatrix::of(text));
            return;
        }
        let Some(matrix) = &mut test.matrix else { return };
        let words = words(text);
        if matrix.columns == 0 {
            matrix.columns = words.count();
            return;
        }
        let mut words = words;
        let Some(row) = words.next().and_then(count) else { return };
        if words.clone().count() != matrix.columns || !line.whole {
            self.broken = true;
            return;
        }
        for (column, word) in (0..).zip(words) {
            matrix.value(&test.metric, (row, column), word, line.number, out);
        }
    }

    fn sum(&mut self, rest: &str, whole: bool) {
        let Some(test) = &mut self.test else { return };
        let sum = rest.strip_prefix(test.name.as_str()).and_then(|sum| number(sum.trim()));
        let matrix = test.matrix.take();
        // A test with three matrices, each with its sum, prints two directions and their total.
        let last = !matches!(matrix.as_ref().and_then(|matrix| matrix.part), Some("1" | "2"));
        match (matrix, sum) {
            (Some(matrix), Some(sum)) if whole && matrix.agrees(sum) => {}
            _ => self.broken = true,
        }
        if last {
            self.test = None;
        }
    }
}

/// Reads a GPU: `Device 0: NVIDIA H100 (00000000:00:06)` or `Process  3 (host): device 1: NVIDIA H100 (...)`.
fn device(text: &str, out: &mut ReadingBuilder) {
    let mut subject = Subject::default();
    let mut text = text;
    if let Some(rest) = text.strip_prefix("Process") {
        let Some((process, rest)) = rest.split_once("): device ") else { return };
        let Some((rank, host)) = process.split_once('(') else { return };
        subject.rank = count(rank.trim());
        subject.node = Some(out.name(host));
        text = rest;
    } else if let Some(rest) = text.strip_prefix("Device ") {
        text = rest;
    }
    let Some((index, rest)) = text.split_once(':') else { return };
    let Some(index) = count(index) else { return };
    subject.gpu = Some(index);
    let (name, bus) = rest.trim().rsplit_once('(').unwrap_or((rest.trim(), ""));
    subject.bus_id = bus.strip_suffix(')').filter(|bus| !bus.is_empty()).map(Arc::from);
    out.gpu(subject, Some(name));
}

/// Reads a document: `{"nvbandwidth": {...}}`.
fn document(root: JsonValue<'_>, out: &mut ReadingBuilder) -> LogEnd {
    let Some(content) = root.get("nvbandwidth") else { return LogEnd::Empty };
    for key in ["version", "git_version"] {
        if let Some(version) = content.get_text(key) {
            out.version(&version);
        }
    }
    for gpu in content.get_items("GPU Device list").filter_map(JsonValue::text) {
        // The host name follows in parentheses.
        let (gpu, host) = gpu.rsplit_once(": (").unwrap_or((&gpu, ""));
        out.origin.node = host.strip_suffix(')').filter(|host| !host.is_empty()).map(|host| out.name(host));
        device(&format!("Device {gpu}"), out);
    }
    let mut ended = LogEnd::Complete;
    for test in content.get_items("testcases") {
        if !testcase(test, out) {
            ended = LogEnd::Truncated;
        }
    }
    if let Some(error) = content.get("error") {
        let text = error.text().unwrap_or_default();
        out.error(&text);
        out.finding("NVBANDWIDTH_ERROR", Subject::default(), Severity::Unknown, &text, error.line());
        ended = LogEnd::Failed;
    }
    if content.get("testcases").is_none() && ended == LogEnd::Complete { LogEnd::Truncated } else { ended }
}

/// Adds a test that the program does not run on this machine.
fn waived(test: &str, line: u64, out: &mut ReadingBuilder) {
    let scope = if test.contains("device_to_device") { Scope::Pair } else { Scope::Gpu };
    let unit = if test.contains("latency") { "ns" } else { "GB/s" };
    TestName::of(test).put(out, unit).scope(scope).unmeasurable("Waived", line);
}

/// Reads a test; returns whether it is complete.
fn testcase(test: JsonValue<'_>, out: &mut ReadingBuilder) -> bool {
    let (Some(name), Some(status)) = (test.get_text("name"), test.get("status")) else { return false };
    let text = status.text().unwrap_or_default();
    match &*text {
        "Passed" => {}
        "Waived" => {
            waived(&name, status.line(), out);
            return true;
        }
        "Error" | "ERROR" | "Not Found" => {
            let said = test.get_text("error").unwrap_or_else(|| format!("{name}: {text}").into());
            out.error(&said);
            out.finding("NVBANDWIDTH_ERROR", Subject::default(), Severity::Unknown, &said, status.line());
            return true;
        }
        _ => return false,
    }
    let (Some(description), Some(rows)) =
        (test.get_text("bandwidth_description"), test.get("bandwidth_matrix"))
    else {
        return false;
    };
    let mut matrix = PrintedMatrix { digits: Some(6), ..PrintedMatrix::of(&description) };
    let name = TestName::of(&name);
    let (height, width) = (rows.items().count(), rows.items().next().map_or(0, |row| row.items().count()));
    // Three matrices of a test follow one another in one array, under the description of the last.
    let stacked = matrix.pairs && width > 0 && height == 3 * width;
    let mut full = height > 0 && width > 0 && (!matrix.pairs || stacked || height == width);
    for (index, row) in rows.items().enumerate() {
        full &= row.items().count() == width;
        if stacked {
            matrix.part = Some(["1", "2", "total"][index / width]);
        }
        let row_index = if stacked { index % width } else { index };
        for (column, value) in (0..).zip(row.items()) {
            let text = value.text().unwrap_or_default();
            let row_index = u32::try_from(row_index).unwrap_or(u32::MAX);
            matrix.value(&name, (row_index, column), &text, value.line(), out);
        }
    }
    let sum = test.get("sum").and_then(JsonValue::number);
    full && (stacked || sum.is_some_and(|sum| matrix.agrees(sum)))
}

#[cfg(test)]
mod tests {
    use model::metric::Metric;

    use super::*;

    const LOG: &str = "\
nvbandwidth Version: v0.8
Running device_to_device_bidirectional_memcpy_read_ce.
memcpy CE GPU(row) <-> GPU(column) Read1 bandwidth (GB/s)
           0         1
 0       N/A    380.10
 1    380.20       N/A

SUM device_to_device_bidirectional_memcpy_read_ce 760.30

memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A    760.10
 1       N/A       N/A

SUM device_to_device_bidirectional_memcpy_read_ce 760.10

NOTE: The reported results may not reflect the full capabilities of the platform.
";

    #[test]
    fn a_value_between_two_gpus_records_both_gpus_and_the_label_part() {
        let reading = crate::read(LOG.as_bytes()).unwrap();
        assert_eq!(reading.ended, LogEnd::Complete);
        let shown = |index: usize| {
            let metric = &reading.metrics[index];
            (metric.subject.gpu, metric.subject.peer.as_deref(), &*metric.labels["part"], metric.value)
        };
        assert_eq!(shown(0), (Some(0), Some("1"), "1", Some(380.1)));
        assert_eq!(shown(2), (Some(0), Some("1"), "total", Some(760.1)));
        assert_eq!(shown(3), (Some(1), Some("0"), "total", None));
        assert_eq!(reading.metrics[3].unmeasurable.as_deref(), Some("N/A"));
        assert_eq!(reading.metrics.len(), 4);
    }

    #[test]
    fn a_lost_row_a_lost_sum_or_a_changed_digit_makes_the_log_incomplete() {
        for lost in [" 1    380.20       N/A\n", "SUM device_to_device_bidirectional_memcpy_read_ce 760.10\n"]
        {
            let reading = crate::read(LOG.replacen(lost, "", 1).as_bytes()).unwrap();
            assert_eq!(reading.ended, LogEnd::Truncated, "{lost}");
        }
        let reading = crate::read(LOG.replace("380.20", "381.20").as_bytes()).unwrap();
        assert_eq!(reading.ended, LogEnd::Truncated);
    }

    #[test]
    fn errors_are_findings() {
        let log = LOG.replace("Running", "ERROR: Testcase x not found!\nRunning");
        let reading = crate::read(log.as_bytes()).unwrap();
        assert_eq!(reading.findings[0].code, "NVBANDWIDTH_ERROR");
        assert_eq!(reading.first_error.as_deref(), Some("ERROR: Testcase x not found!"));
        let json = r#"{"nvbandwidth": {"error": "Invalid Arguments:", "git_version": "v0.8"}}"#;
        assert_eq!(crate::read(json.as_bytes()).unwrap().ended, LogEnd::Failed);
        let json = r#"{"nvbandwidth": {"testcases": [{"name": "x", "status": "Running"}]}}"#;
        assert_eq!(crate::read(json.as_bytes()).unwrap().ended, LogEnd::Truncated);
    }

    /// Names and reasons of the metrics without value.
    fn waived_tests(log: &str) -> Vec<(String, String)> {
        let reading = crate::read(log.as_bytes()).unwrap();
        assert_eq!(reading.ended, LogEnd::Complete);
        let none = reading.metrics.into_iter().filter(|metric| metric.value.is_none());
        none.map(|metric| (metric.name.to_string(), metric.unmeasurable.unwrap().to_string())).collect()
    }

    fn sample(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/nvbandwidth/");
        #[expect(clippy::disallowed_methods, reason = "tests read files")]
        std::fs::read_to_string(format!("{folder}{name}")).unwrap()
    }

    #[test]
    fn text_and_json_have_the_same_waived_tests() {
        // The host is named in JSON only.
        let waived = |name| {
            let metrics = crate::read(sample(name).as_bytes()).unwrap().metrics;
            let none = metrics.into_iter().filter(|metric| metric.value.is_none());
            none.map(|metric| Metric { line: 0, subject: Subject::default(), ..metric }).collect::<Vec<_>>()
        };
        let text = waived("0.9-h100.txt");
        assert_eq!(text, waived("0.9-h100.json"));
        assert_eq!(text.len(), 17);
        let old = waived_tests(&sample("0.6-gh200.txt"));
        assert_eq!(old.len(), 17);
        assert!(old.iter().all(|(name, reason)| !name.contains("unnamed") && reason == "Waived"), "{old:?}");
        assert_eq!(old[16].0, "nvbandwidth.device_to_device_latency_sm");
    }

    #[test]
    fn a_waived_test_in_an_unusual_order_is_unnamed() {
        let text = sample("0.9-h100.txt");
        for changed in [text.replacen("Waived:", "", 1), text.replacen("Waived:", "Waived:\nWaived:", 1)] {
            let waived = waived_tests(&changed);
            assert!(waived.iter().all(|(name, _)| name == "nvbandwidth.unnamed"), "{waived:?}");
        }
        let one = "nvbandwidth Version: v0.9\nWaived: \nNOTE: The reported results may not reflect ...\n";
        assert_eq!(waived_tests(one), [("nvbandwidth.unnamed".to_owned(), "Waived".to_owned())]);
        let started = one.replace("Waived", "Running device_local_copy.\nWaived");
        assert_eq!(waived_tests(&started)[0].0, "nvbandwidth.device_local_copy");
    }
}
