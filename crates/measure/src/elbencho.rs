//! elbencho: the files of `--csvfile` and `--jsonfile`.
//!
//! The files have no end mark. The command of a check appends one.

use std::borrow::Cow;

use memchr::memchr2;
use model::{
    measurement::LogEnd,
    metric::{Better, Scope},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    reading_builder::{MetricBuilder, ReadingBuilder, short},
    repetitions::Repetitions,
    text::trim,
};

const BANDWIDTH: MetricDefinition = MetricDefinition::new(
    "elbencho.<operation>.bandwidth",
    "MiB/s",
    Better::Higher,
    Scope::World,
    "Bandwidth until the last thread ended, from CSV; labels `label`, `block` and `file` (sizes in bytes) where printed, and `repetition` from the second row with the same labels",
);
const BYTES: MetricDefinition = MetricDefinition::new(
    "elbencho.<operation>.bytes",
    "B/s",
    Better::Higher,
    Scope::World,
    "The bandwidth in JSON output, in bytes per second",
);
const OPERATIONS: MetricDefinition = MetricDefinition::new(
    "elbencho.<operation>.iops",
    "1/s",
    Better::Higher,
    Scope::World,
    "Operations per second until the last thread ended",
);
const ENTRIES: MetricDefinition = MetricDefinition::new(
    "elbencho.<operation>.entries",
    "1/s",
    Better::Higher,
    Scope::World,
    "Files or folders per second until the last thread ended",
);
const LATENCY: MetricDefinition = MetricDefinition::new(
    "elbencho.<operation>.latency",
    "us",
    Better::Lower,
    Scope::World,
    "Average latency of an operation",
);

pub(crate) const FORMAT: Format = Format {
    name: "elbencho",
    programs: "elbencho 2 and 3, `--csvfile`, and from 3.0-27 on `--jsonfile`",
    end: "a line `-- end of elbencho --`, which the command of the check appends to the file",
    unread: "times, processor use, totals, and the columns of the first thread",
    metrics: &[BANDWIDTH, BYTES, OPERATIONS, ENTRIES, LATENCY],
    findings: &[],
    marks: &[
        &["ISO date", "operation", "MiB/s [last]"],
        &["\"phase_type\"", "\"last_done\"", "\"first_done\""],
    ],
    reader: Reader::Lines(|| Box::<Elbencho>::default()),
};

/// Maximum number of columns; the program writes about 70.
const COLUMNS: usize = 128;
/// Columns that are read.
const READ: [&str; 10] = [
    "MiB/s [last]",
    "IOPS [last]",
    "entries/s [last]",
    "IO lat us [avg]",
    "label",
    "block size",
    "file size",
    "operation",
    "version",
    JSON_BYTES,
];
/// Key of the bandwidth in JSON documents.
const JSON_BYTES: &str = "bytes/s";
/// Index of a column in [`READ`], and the metric of its values.
const METRICS: [(usize, &MetricDefinition); 5] =
    [(0, &BANDWIDTH), (9, &BYTES), (1, &OPERATIONS), (2, &ENTRIES), (3, &LATENCY)];
const LABELS: [(usize, &str); 3] = [(4, "label"), (5, "block"), (6, "file")];
const OPERATION: usize = 7;
const VERSION: usize = 8;

/// Text and line of each column in [`READ`].
type ColumnCells<'a> = [Option<(Cow<'a, str>, u64)>; READ.len()];

fn index(column: &str) -> Option<usize> {
    READ.iter().position(|read| *read == column && *read != JSON_BYTES)
}

#[derive(Default)]
struct Elbencho {
    json: JsonDocuments,
    /// For each column of the header its index in [`READ`]; `None` for an unread or repeated column.
    header: Vec<Option<usize>>,
    operation: String,
    repetitions: Repetitions,
    rows: u64,
    ended: bool,
    broken: bool,
}

impl Lines for Elbencho {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let mut json = std::mem::take(&mut self.json);
        let taken = json.line(&line, b"{", out, |root, out| self.document(root, out));
        self.json = json;
        if taken {
            return;
        }
        let text = trim(line.text);
        if text == "-- end of elbencho --" {
            self.ended = self.rows > 0;
        } else if text.starts_with("ISO date,") {
            self.header.clear();
            for cell in cells(text).take(COLUMNS) {
                let column = index(short(&cell)).filter(|column| !self.header.contains(&Some(*column)));
                self.header.push(column);
            }
            self.broken |= !line.whole;
        } else if !self.header.is_empty() {
            let (mut row, mut count) = (ColumnCells::default(), 0);
            for cell in cells(text) {
                if let Some(&Some(column)) = self.header.get(count) {
                    row[column] = Some((cell, line.number));
                }
                count += 1;
            }
            if count != self.header.len() || !line.whole {
                self.broken = true;
                return;
            }
            self.ended = false;
            self.row(&row, out);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        let ended = if self.ended && !self.broken {
            LogEnd::Complete
        } else if self.rows > 0 || !self.header.is_empty() {
            LogEnd::Truncated
        } else {
            LogEnd::Empty
        };
        self.json.finish(ended)
    }
}

impl Elbencho {
    /// Reads the document of a phase: `{"phase_type": ..., "config": {...}, "first_done": {...}, "last_done": {...}}`.
    fn document(&mut self, root: JsonValue<'_>, out: &mut ReadingBuilder) -> LogEnd {
        let [phase, label, config, done] = root.get_each(["phase_type", "label", "config", "last_done"]);
        if phase.is_none() && done.is_none() {
            return LogEnd::Empty;
        }
        let Some(done) = done else {
            self.broken = true;
            return LogEnd::Empty;
        };
        let [file, block, version] =
            config.map_or([None; 3], |config| config.get_each(["file_size", "block_size", "version"]));
        let [entries, operations, bytes, latency] =
            done.get_each(["entries/s", "iops", JSON_BYTES, "latency"]);
        let latency = latency.and_then(|latency| latency.get("IO")?.get("avg_us"));
        let values = [None, operations, entries, latency, label, block, file, phase, version, bytes];
        let row = values.map(|value| value.and_then(|value| Some((value.text()?, value.line()))));
        self.ended = false;
        self.row(&row, out);
        LogEnd::Empty
    }

    fn row(&mut self, row: &ColumnCells<'_>, out: &mut ReadingBuilder) {
        let cell = |column: usize| row[column].as_ref().filter(|(text, _)| !text.is_empty());
        self.operation.clear();
        if let Some((operation, _)) = cell(OPERATION) {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
            self.operation.extend(operation.chars().map(plain));
        } else {
            self.broken = true;
            return;
        }
        if let Some((version, _)) = cell(VERSION) {
            out.version(version);
        }
        let labels = LABELS.iter().map(|(column, _)| cell(*column).map_or("", |(value, _)| value));
        let repetition = self.repetitions.count([self.operation.as_str()].into_iter().chain(labels));
        for (column, known) in METRICS {
            let Some((value, line)) = cell(column) else { continue };
            self.rows += 1;
            if out.omit() {
                continue;
            }
            let mut metric: MetricBuilder<'_> = out.put_parts(known, &[short(&self.operation)], known.unit);
            for (column, label) in LABELS {
                if let Some((value, _)) = cell(column) {
                    metric = metric.label(label, value);
                }
            }
            repetition.label(metric).read(value, *line);
        }
    }
}

/// Cells of a CSV line.
fn cells(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr2(b',', b'"', text.as_bytes());
        if let Some(end) = end.filter(|end| text.as_bytes()[*end] == b'"') {
            return Some(quoted(text, end, &mut rest));
        }
        rest = end.map(|end| &text[end + 1..]);
        Some(Cow::Borrowed(&text[..end.unwrap_or(text.len())]))
    })
}

/// Unquotes a cell whose first quote is at `first`, and sets `rest` to the text after the cell.
fn quoted<'a>(text: &'a str, first: usize, rest: &mut Option<&'a str>) -> Cow<'a, str> {
    let (mut cell, mut open) = (text[..first].to_owned(), &text[first..]);
    loop {
        // The text begins with a quote.
        let (inside, after) = open[1..].split_once('"').unwrap_or((&open[1..], ""));
        cell.push_str(inside);
        if after.starts_with('"') {
            // A doubled quote is a part of the cell.
            cell.push('"');
            open = after;
            continue;
        }
        let Some(end) = memchr2(b',', b'"', after.as_bytes()) else {
            cell.push_str(after);
            *rest = None;
            return cell.into();
        };
        cell.push_str(&after[..end]);
        if after.as_bytes()[end] == b',' {
            *rest = Some(&after[end + 1..]);
            return cell.into();
        }
        open = &after[end..];
    }
}
